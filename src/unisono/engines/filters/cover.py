"""Which of many filters have to be told to others, if each of the rest is covered by one of them.

Law: whatever matches a filter in the set matches one of `told`; and after each change, those who were told `propagate`
and then `withdraw` know exactly `told`. (In this order: so there is no moment at which they know too little.)

A filter is compared with few others. Whoever covers it wants no more attributes than it does, and where it wants one
certain value, the other wants the same; so each told filter is listed under one thing that it wants, and is found by
those that want it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from unisono.engines.filters.constraint import Constraint
from unisono.engines.filters.filter import Filter
from unisono.engines.filters.normal import Conjunction

Want: TypeAlias = tuple[Any, ...]  # a name, and the one value if it is one
ANY_WANT: Want = ()


class Change(msgspec.Struct, frozen=True):
    """What is to be told to others, in this order."""

    propagate: tuple[Filter, ...] = ()
    withdraw: tuple[Filter, ...] = ()


class Cover:
    """A set of filters. Those that no other covers are told; each other one is kept under one that covers it."""

    def __init__(self) -> None:
        self._told: dict[Filter, dict[Filter, None]] = {}  # and whom they cover
        self._under: dict[Filter, Filter] = {}
        self._by_want: dict[Want, dict[Filter, None]] = {}  # told filters, each conjunction under one want
        self._by_all: dict[
            Want, dict[Filter, None]
        ] = {}  # told filters, their first conjunction under all wants

    def __len__(self) -> int:
        return len(self._told) + len(self._under)

    def __contains__(self, wanted: object) -> bool:
        return wanted in self._told or wanted in self._under

    @property
    def told(self) -> tuple[Filter, ...]:
        """The filters that others have to know."""
        return tuple(self._told)

    def add(self, wanted: Filter) -> Change:
        """One more filter; nothing changes if it is in already."""
        if wanted in self:
            return Change()
        was_told = self._place(wanted)
        return Change() if was_told is None else Change((wanted,), tuple(was_told))

    def remove(self, wanted: Filter) -> Change:
        """One filter less; nothing changes if it is not in."""
        above = self._under.pop(wanted, None)
        if above is not None:
            del self._told[above][wanted]
            return Change()
        if wanted not in self._told:
            return Change()
        orphans = self._told.pop(wanted)
        self._unlist(wanted)
        propagate: dict[Filter, None] = {}
        withdraw = [wanted]
        for orphan in orphans:
            del self._under[orphan]
        for orphan in orphans:
            was_told = self._place(orphan)
            if was_told is None:
                continue
            propagate[orphan] = None
            for other in was_told:
                if other in propagate:
                    del propagate[other]
                else:
                    withdraw.append(other)
        return Change(tuple(propagate), tuple(withdraw))

    def _place(self, wanted: Filter) -> list[Filter] | None:
        """Keep a filter under one that covers it (None), or among the told; and who need not be told any more."""
        above = next((other for other in self._perhaps_above(wanted) if other.covers(wanted)), None)
        if above is not None:
            self._told[above][wanted] = None
            self._under[wanted] = above
            return None
        below = [other for other in self._perhaps_below(wanted) if wanted.covers(other)]
        kept: dict[Filter, None] = {}
        for other in below:
            self._unlist(other)
            kept |= {**self._told.pop(other), other: None}
        for other in kept:
            self._under[other] = wanted
        self._told[wanted] = kept
        self._list(wanted)
        return below

    def _perhaps_above(self, wanted: Filter) -> Iterator[Filter]:
        """Those told who could cover a filter: whoever does covers its first conjunction."""
        yield from self._by_want.get(ANY_WANT, ())
        for name, constraint in wanted.conjunctions[0].items():
            for want in dict.fromkeys((_want(name, constraint), (name,))):
                yield from self._by_want.get(want, ())

    def _perhaps_below(self, wanted: Filter) -> list[Filter]:
        """Those told whom a filter could cover: it has to cover their first conjunction."""
        found: dict[Filter, None] = {}
        for conjunction in wanted.conjunctions:
            lists = [self._by_all.get(_want(*pair), {}) for pair in conjunction.items()]
            found |= min(lists, key=len) if lists else dict.fromkeys(self._told)
        return list(found)

    def _list(self, wanted: Filter) -> None:
        for want in self._wants(wanted):
            self._by_want.setdefault(want, {})[wanted] = None
        for want in _all_wants(wanted.conjunctions[0]):
            self._by_all.setdefault(want, {})[wanted] = None

    def _unlist(self, wanted: Filter) -> None:
        for table, wants in (
            (self._by_want, self._wants(wanted)),
            (self._by_all, _all_wants(wanted.conjunctions[0])),
        ):
            for want in wants:
                del table[want][wanted]
                if not table[want]:
                    del table[want]

    @staticmethod
    def _wants(wanted: Filter) -> set[Want]:
        """The one thing under which each conjunction is listed: one certain value, if it wants one."""
        return {
            max((_want(*pair) for pair in sorted(conjunction.items())), key=len, default=ANY_WANT)
            for conjunction in wanted.conjunctions
        }


def _want(name: str, constraint: Constraint) -> Want:
    values = constraint.values()
    if values is None or len(values) != 1:
        return (name,)
    return name, type(values[0]) is bool, values[0]


def _all_wants(conjunction: Conjunction) -> set[Want]:
    """Everything under which a conjunction is found by those that want it too, or more of the same attribute."""
    return {want for name, constraint in conjunction.items() for want in (_want(name, constraint), (name,))}
