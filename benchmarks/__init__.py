"""Measurements beside others; `unisono bench peers` runs them."""
