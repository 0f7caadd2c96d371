"""Bounds: a filter comes from anybody, so each costs a bounded time and a bounded space."""

from __future__ import annotations

TEXT_MAX = 16_384  # characters of a text, and of its normal form written out
DEPTH_MAX = 32  # parentheses within parentheses
PREDICATES_MAX = 1_024  # predicates in a text; each member of a list counts
NAME_MAX = 255  # characters of an attribute's name
NAME_PARTS_MAX = 8  # parts between its dots; nested attributes are looked at so deep
CONJUNCTIONS_MAX = 64  # alternatives of the normal form
PRODUCT_MAX = 256  # alternatives on the way to it, before they are simplified
STEPS_MAX = 20_000  # comparisons of alternatives on the way to it
