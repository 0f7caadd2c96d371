"""Composite patterns over what two subscribers hear: a, then b, then c (figure 21 of paper 000)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

PATTERN = ("a", "b", "c")


def find_patterns(heard: Iterable[tuple[str, str]]) -> set[tuple[str, ...]]:
    """Every place where the letters of the pattern follow each other; `heard` is (event id, letter) pairs.

    A find is known by the events that made it: two detectors agree on it only if they saw the same ones.
    """
    found: set[tuple[str, ...]] = set()
    window: list[tuple[str, str]] = []
    for event in heard:
        window = [*window[-(len(PATTERN) - 1) :], event]
        if tuple(letter for _, letter in window) == PATTERN:
            found.add(tuple(id for id, _ in window))
    return found


def agreement(first: set[tuple[str, ...]], second: set[tuple[str, ...]]) -> float:
    """The share of patterns found by anybody that was found by both."""
    either = first | second
    return len(first & second) / len(either) if either else 1.0


def same_order(first: Iterable[str], second: Iterable[str]) -> float:
    """The share of neighbours in `second` that `first` heard in the same order; what only one heard is left out."""
    place = {event: i for i, event in enumerate(first)}
    shared = [place[event] for event in second if event in place]
    pairs = list(pairwise(shared))
    return sum(a < b for a, b in pairs) / len(pairs) if pairs else 1.0
