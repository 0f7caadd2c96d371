"""The command `unisono`: one file per command."""
