"""Which of very many filters an event matches, without asking each.

Each conjunction is a row. If one of its constraints is satisfied by few events, it is posted under it: under each of
its values, in the cells of its range, under the presence of its attribute. If none is, it has a seat in bitmaps, which
hold all its ranges at once. Where every constraint also accepts that its attribute is missing, it is always asked. An
event names candidates by its values; bounds in dense arrays sort out those that do not match; the few constraints that
are no bounds (patterns, sets with holes, negations, the fourth constraint and all after it) are asked last, one by
one. Filters come and go at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono.engines.filters.attribute import CODE, HEAD, NUMBER, TRUTH, Access, Attribute
from unisono.engines.filters.attributes import flat, prefixes
from unisono.engines.filters.axis import Axis
from unisono.engines.filters.bitmaps import Bitmaps
from unisono.engines.filters.bounds import number_bounds, string_bounds
from unisono.engines.filters.constraint import FALSE, MISSING, TRUE, Constraint
from unisono.engines.filters.cuts import Cuts
from unisono.engines.filters.filter import Filter
from unisono.engines.filters.normal import Conjunction
from unisono.engines.filters.postings import Posting
from unisono.engines.filters.rows import COLUMNS, Bounds, Candidates, Hand, Rows, Slots, posted

Key = TypeVar("Key", bound=Hashable)
Tests: TypeAlias = tuple[tuple[str, Callable[[Any], bool]], ...]

SEAT_SHARE_MIN = (
    1 / 32
)  # who wants less of an attribute is found under it; of the others bitmaps hold all that they want
EVENTS_AT_ONCE = 32  # their bitmaps are in caches together; not more than a byte can count
LINES_AT_ONCE = (
    16_384  # posted rows that are held against their first bounds together: about what caches hold
)


class Entry(msgspec.Struct, frozen=True):
    """A row: what it is posted under, or whether it has a seat, which strings its bounds name, and what is asked last."""

    conjunction: Conjunction
    name: str | None
    access: Access | None
    has_seat: bool
    coded: list[tuple[str, str]]
    rest: Tests

    def opens(self, attributes: Mapping[str, Any]) -> bool:
        """Whether an event satisfies the constraint under which the row is posted."""
        return self.name is None or self.conjunction[self.name].accepts(attributes.get(self.name, MISSING))


class Index(Generic[Key]):
    """Filters by key, and the keys of those that match an event."""

    def __init__(self) -> None:
        self._rows_of: dict[Key, list[int]] = {}
        self._attributes: dict[str, Attribute] = {}
        self._rows = Rows()
        self._bitmaps = Bitmaps()
        self._always = Posting()
        self._keys: NDArray[np.object_] = np.empty(64, np.object_)  # by row, as the next two
        self._entries: list[Entry] = []
        self._is_unsure: NDArray[np.bool_] = np.zeros(64, np.bool_)  # whether it has a rest to be asked
        self._several = 0  # filters with more than one row
        self._nested: dict[str, int] = {}  # mappings to look into, and how many rows want it

    def __len__(self) -> int:
        return len(self._rows_of)

    def __contains__(self, key: object) -> bool:
        return key in self._rows_of

    @property
    def bitmap_bytes(self) -> int:
        """The memory of bitmaps, the largest part of an index: 260 bytes per filter, or less."""
        return self._bitmaps.nbytes

    def add(self, key: Key, wanted: Filter) -> None:
        """A filter under a key; one that was there under the same key is replaced."""
        self.remove(key)
        rows = [self._enter(key, conjunction) for conjunction in wanted.conjunctions]
        self._rows_of[key] = rows
        self._several += len(rows) > 1

    def remove(self, key: Key) -> None:
        """Forget a filter, if it is there."""
        rows = self._rows_of.pop(key, [])
        self._several -= len(rows) > 1
        for row in rows:
            self._leave(row)

    def match(self, attributes: Mapping[str, Any]) -> list[Key]:
        """The keys of all filters that match an event, each once, in no order."""
        hand = self._hand()
        self._look_up(attributes, hand)
        return self._matching(hand)[0]

    def match_many(self, events: Iterable[Mapping[str, Any]]) -> list[list[Key]]:
        """The keys of all filters that match, for each event; cheaper than one by one."""
        found: list[list[Key]] = []
        hand = self._hand()
        for attributes in events:
            self._look_up(attributes, hand)
            if len(hand.events) == EVENTS_AT_ONCE or hand.lines > LINES_AT_ONCE:
                found += self._matching(hand)
                hand = self._hand()
        return found + self._matching(hand) if hand.events else found

    def _hand(self) -> Hand:
        return Hand(self._rows.width, self._bitmaps.maps_missing())

    def _look_up(self, attributes: Mapping[str, Any], hand: Hand) -> None:
        """Note who could match an event."""
        if self._nested:
            attributes = flat(attributes, self._nested)
        first, known = len(hand.posted), self._attributes
        slots, maps = hand.begin_event(attributes)
        for name, value in attributes.items():
            if name in known:
                known[name].look_up(value, hand, slots, maps)
        if self._always.lines is not None:
            hand.posted.append(self._always.lines)
        hand.end_event(first)

    def _matching(self, hand: Hand) -> list[list[Key]]:
        slots, events = Slots(hand), len(hand.events)
        rows, of = self._rows.passing(slots, *self._candidates(slots, hand))
        if events > 1:
            rows = rows.take(of.astype(np.uint8).argsort(kind="stable"))
        ends = list(accumulate(np.bincount(of, minlength=events).tolist(), initial=0))
        unsure = self._is_unsure.take(rows, mode="clip") | (rows < 0)
        if unsure.any() or hand.highs:
            pieces = [(rows[begin:end], unsure[begin:end]) for begin, end in pairwise(ends)]
            found = [
                self._asked(*piece, attributes, is_rounded=hand.is_rounded(event))
                for event, (piece, attributes) in enumerate(zip(pieces, hand.events, strict=True))
            ]
        else:
            keys: list[Key] = self._keys.take(rows).tolist()
            found = [keys[begin:end] for begin, end in pairwise(ends)]
        return [list(dict.fromkeys(keys)) for keys in found] if self._several else found

    def _candidates(self, slots: Slots, hand: Hand) -> tuple[Candidates, Candidates]:
        """Pairs of a row and an event that it could match, in no order."""
        if not hand.posted:
            return self._bitmaps.candidates(hand.maps)
        named = posted(slots, hand)
        if not self._bitmaps:
            return named
        seated = self._bitmaps.candidates(hand.maps)
        return np.concatenate((seated[0], named[0])), np.concatenate((seated[1], named[1]))

    def _asked(
        self, found: Candidates, unsure: NDArray[np.bool_], attributes: Mapping[str, Any], *, is_rounded: bool
    ) -> list[Key]:
        """The keys of those that match an event, after the unsure are asked what bounds do not say."""
        if is_rounded:
            rows = np.maximum(found, ~found).tolist()
            return [
                self._keys[row] for row in rows if _holds(_tests(self._entries[row].conjunction), attributes)
            ]
        keys: list[Key] = self._keys.take(found.compress(~unsure)).tolist()
        for written in found.compress(unsure).tolist():
            row = written if written >= 0 else ~written
            entry = self._entries[row]
            if (row == written or entry.opens(attributes)) and _holds(entry.rest, attributes):
                keys.append(self._keys[row])
        return keys

    def _enter(self, key: Key, conjunction: Conjunction) -> int:
        ways = {name: self._attribute(name).access(wanted) for name, wanted in conjunction.items()}
        name, access = min(
            ((name, way) for name, way in ways.items() if way is not None),
            key=lambda pair: pair[1].share,
            default=(None, None),
        )
        parts = self._parts(conjunction) if access is not None and access.share >= SEAT_SHARE_MIN else []
        if parts:
            name = access = None
        bounds: list[tuple[float, Bounds]] = []
        rest: Conjunction = {}
        coded: list[tuple[str, str]] = []
        is_bounded = False
        for other, wanted in conjunction.items():
            if other == name and access is not None and access.way == "values":
                continue
            found, is_exact = self._bounds(other, wanted, coded) if len(bounds) < COLUMNS else (None, False)
            if found is not None:
                way = ways[other] if other != name else None  # what it is posted under says little
                bounds.append((way.share if way is not None else 1.0, found))
            if other == name:
                is_bounded = is_exact
            elif not is_exact:
                rest[other] = wanted
        line = self._rows.add([found for _, found in sorted(bounds)])
        row = line[0]
        self._write(row, key, Entry(conjunction, name, access, bool(parts), coded, _tests(rest)))
        if parts:
            self._bitmaps.add(row, parts)
        elif name is None or access is None:
            self._always.add(line)
        else:
            self._attributes[name].enter(line, access, conjunction[name], is_bounded=is_bounded)
        return row

    def _parts(self, conjunction: Conjunction) -> list[tuple[Axis, Cuts]]:
        """What bitmaps can hold of a conjunction."""
        parts = [self._attributes[name].part(wanted) for name, wanted in conjunction.items()]
        room = self._bitmaps.room
        found = []
        for part in filter(None, parts):
            room -= not part[0].maps
            if part[0].maps or room >= 0:
                found.append(part)
        return found

    def _bounds(
        self, name: str, wanted: Constraint, coded: list[tuple[str, str]]
    ) -> tuple[Bounds | None, bool]:
        """A constraint as bounds on a slot, if it can be one, and whether they say all of it."""
        attribute = self._attributes[name]
        if wanted.numbers and not wanted.flags and not wanted.strings.cuts:
            low, high, is_exact = number_bounds(wanted.numbers)
            return (self._slot(attribute, NUMBER), low, high), is_exact
        if wanted.numbers:
            return None, False
        values = wanted.values()
        if values and not wanted.flags and len(values) == 1:
            code = attribute.use(values[0]).code
            coded.append((name, values[0]))
            return (self._slot(attribute, CODE), code, code), True
        if not wanted.flags:
            low, high, is_exact = string_bounds(wanted.strings.cuts)
            return (self._slot(attribute, HEAD), low, high), is_exact and not wanted.strings.has_patterns
        if values and not wanted.strings.cuts:
            truth = (0.0 if wanted.flags & FALSE else 1.0, 1.0 if wanted.flags & TRUE else 0.0)
            return (self._slot(attribute, TRUTH), *truth), True
        return None, False

    def _slot(self, attribute: Attribute, which: int) -> int:
        if not attribute.slots[which]:
            attribute.slots[which] = self._rows.add_slot()
        return attribute.slots[which]

    def _attribute(self, name: str) -> Attribute:
        attribute = self._attributes.get(name)
        if attribute is None:
            attribute = self._attributes[name] = Attribute()
        return attribute

    def _write(self, row: int, key: Key, entry: Entry) -> None:
        if row == len(self._keys):
            self._keys = np.concatenate((self._keys, np.empty_like(self._keys)))
            self._is_unsure = np.concatenate((self._is_unsure, np.zeros_like(self._is_unsure)))
        if row == len(self._entries):
            self._entries.append(entry)
        self._keys[row], self._entries[row] = key, entry
        self._is_unsure[row] = bool(entry.rest)
        for name in entry.conjunction:
            self._attributes[name].uses += 1
        for path in prefixes(entry.conjunction):
            self._nested[path] = self._nested.get(path, 0) + 1

    def _leave(self, row: int) -> None:
        entry = self._entries[row]
        if entry.has_seat:
            self._bitmaps.remove(row)
        elif entry.name is None or entry.access is None:
            self._always.remove(row)
        else:
            self._attributes[entry.name].leave(row, entry.access)
        for name, value in entry.coded:
            self._attributes[name].release(value)
        self._rows.remove(row)
        self._keys[row] = None
        for name in entry.conjunction:
            self._forget(name)
        for path in prefixes(entry.conjunction):
            self._nested[path] -= 1
            if not self._nested[path]:
                del self._nested[path]

    def _forget(self, name: str) -> None:
        """One row less wants something of an attribute."""
        attribute = self._attributes[name]
        attribute.uses -= 1
        if not attribute.uses:
            for slot in filter(None, attribute.slots):
                self._rows.remove_slot(slot)
            del self._attributes[name]


def _tests(conjunction: Conjunction) -> Tests:
    return tuple((name, wanted.accepts) for name, wanted in conjunction.items())


def _holds(tests: Tests, attributes: Mapping[str, Any]) -> bool:
    return all(accepts(attributes.get(name, MISSING)) for name, accepts in tests)
