"""Which of very many filters an event matches, without asking each.

Each conjunction is a row, entered under the one constraint that fewest events are likely to satisfy: under each of its
values, in the cells of its range, under the presence of its attribute, or, where every constraint also accepts that
its attribute is missing, among those that are always asked. An event names candidates by its values; bounds in dense
arrays sort out nearly all that do not match; the few constraints that are no bounds (patterns, sets with holes,
negations, the fourth constraint and all after it) are asked last, one by one. Filters come and go at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono.engines.filters.attribute import CODE, NUMBER, TRUTH, Access, Attribute
from unisono.engines.filters.attributes import flat, prefixes
from unisono.engines.filters.constraint import FALSE, MISSING, TRUE, Constraint
from unisono.engines.filters.filter import Filter
from unisono.engines.filters.normal import Conjunction
from unisono.engines.filters.postings import Posting
from unisono.engines.filters.rows import COLUMNS, Bounds, Candidates, Hand, Rows, number_bounds

Key = TypeVar("Key", bound=Hashable)
Tests: TypeAlias = tuple[tuple[str, Callable[[Any], bool]], ...]

LINES_AT_ONCE = 16_384  # candidates that are held against their bounds together: about what caches hold
VALUES_AT_ONCE = 65_536


class Entry(msgspec.Struct, frozen=True):
    """A row: under which attribute it is entered, if any, which strings its bounds name, and what is asked last."""

    conjunction: Conjunction
    name: str | None
    access: Access | None
    coded: list[tuple[str, str]]
    rest: Tests

    def opens(self, attributes: Mapping[str, Any]) -> bool:
        """Whether an event satisfies the constraint under which the row is entered."""
        return self.name is None or self.conjunction[self.name].accepts(attributes.get(self.name, MISSING))


class Index(Generic[Key]):
    """Filters by key, and the keys of those that match an event."""

    def __init__(self) -> None:
        self._rows_of: dict[Key, list[int]] = {}
        self._attributes: dict[str, Attribute] = {}
        self._rows = Rows()
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
        return self.match_many([attributes])[0]

    def match_many(self, events: Iterable[Mapping[str, Any]]) -> list[list[Key]]:
        """The keys of all filters that match, for each event; cheaper than one by one."""
        found: list[list[Key]] = []
        together: list[Mapping[str, Any]] = []
        hand = Hand(self._rows.width)
        for attributes in events:
            together.append(self._look_up(attributes, hand))
            if hand.lines > LINES_AT_ONCE or hand.base > VALUES_AT_ONCE:
                found += self._matching(together, hand)
                together, hand = [], Hand(self._rows.width)
        return found + self._matching(together, hand)

    def _look_up(self, attributes: Mapping[str, Any], hand: Hand) -> Mapping[str, Any]:
        """Note who could match an event; the event with what is nested in it."""
        if self._nested:
            attributes = flat(attributes, self._nested)
        first, known = len(hand.candidates), self._attributes
        for name, value in attributes.items():
            if name in known:
                known[name].look_up(value, hand)
        if self._always.lines is not None:
            hand.candidates.append(self._always.lines)
        hand.end_event(first)
        return attributes

    def _matching(self, events: list[Mapping[str, Any]], hand: Hand) -> list[list[Key]]:
        if not hand.candidates:
            return [[] for _ in events]
        rows, counts = self._rows.passing(hand)
        ends = list(accumulate(counts, initial=0))
        unsure = self._is_unsure.take(rows, mode="clip") | (rows < 0)
        if unsure.any() or hand.highs:
            pieces = [(rows[begin:end], unsure[begin:end]) for begin, end in pairwise(ends)]
            found = [
                self._asked(*piece, attributes, is_rounded=hand.is_rounded(event))
                for event, (piece, attributes) in enumerate(zip(pieces, events, strict=True))
            ]
        else:
            keys: list[Key] = self._keys.take(rows).tolist()
            found = [keys[begin:end] for begin, end in pairwise(ends)]
        return [list(dict.fromkeys(keys)) for keys in found] if self._several else found

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
        bounds: list[tuple[float, Bounds]] = []
        rest: Conjunction = {}
        coded: list[tuple[str, str]] = []
        is_bounded = False
        for other, wanted in conjunction.items():
            if other == name and access is not None and access.way != "numbers":
                continue
            found, is_exact = self._bounds(other, wanted, coded) if len(bounds) < COLUMNS else (None, False)
            if found is not None:
                way = ways[other] if other != name else None  # what it is entered under comes last
                bounds.append((way.share if way is not None else 1.0, found))
            if other == name:
                is_bounded = is_exact
            elif not is_exact:
                rest[other] = wanted
        line = self._rows.add([found for _, found in sorted(bounds)])
        self._write(line[0], key, Entry(conjunction, name, access, coded, _tests(rest)))
        if name is None or access is None:
            self._always.add(line)
        else:
            self._attributes[name].enter(line, access, conjunction[name], is_bounded=is_bounded)
        return line[0]

    def _bounds(
        self, name: str, wanted: Constraint, coded: list[tuple[str, str]]
    ) -> tuple[Bounds | None, bool]:
        """A constraint as bounds on a slot, if it can be one, and whether they say all of it."""
        attribute = self._attributes[name]
        if wanted.numbers and not wanted.flags and not wanted.strings.cuts:
            low, high, is_exact = number_bounds(wanted.numbers)
            return (self._slot(attribute, NUMBER), low, high), is_exact
        values = wanted.values()
        if not values or wanted.numbers:
            return None, False
        if not wanted.flags and len(values) == 1:
            code = attribute.use(values[0]).code
            coded.append((name, values[0]))
            return (self._slot(attribute, CODE), code, code), True
        if not wanted.strings.cuts:
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
        if entry.name is None or entry.access is None:
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
