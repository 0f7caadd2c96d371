"""What a kernel found: which promise, in which of the known ways, and the rows that show it.

Kernels name rows by life and place; the words are put together afterwards, from the records themselves, by
the same functions that explain small histories.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A place in a journal: the n-th record of a life."""

    life: str
    at: int


class Found(NamedTuple):
    """A broken promise: `how` is the name of an explanation in `unisono.pipeline.explain`."""

    promise: str
    how: str
    rows: tuple[Row, ...]
    values: tuple[str | int, ...] = ()


class Doubt(NamedTuple):
    """Why a promise cannot be judged: rows are named in the words as {0}, {1}."""

    promise: str
    words: str
    rows: tuple[Row, ...] = ()
    matters: bool = True  # False: nobody was promised it, or it is too early to ask
