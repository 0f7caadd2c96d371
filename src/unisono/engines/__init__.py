"""The protocols. No I/O, no clock, no hidden randomness: see contract.py."""
