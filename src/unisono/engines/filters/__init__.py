"""Filters: what subscribers want of an event's attributes, written as text, never run as code.

Law: `matches` says what the text says; a normal form, written out, parses to itself; equal forms have equal hashes,
whatever the process; and `covers` is never wrong when it says yes. The matching index (`unisono.engines.filters.index`)
needs NumPy and is imported by those who want it.
"""

from unisono.engines.filters.filter import HASH_BYTES, Filter, parse

__all__ = ["HASH_BYTES", "Filter", "parse"]
