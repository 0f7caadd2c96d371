"""The processes of `unisono bench scaling`."""
