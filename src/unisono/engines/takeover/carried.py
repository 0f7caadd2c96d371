"""What an epoch carries over from the one before: where events are, by publisher life and by key.

Of each it is the newest that count, and lanes are long: what was stored in bundles is taken apart only if it is still
among them when everything has been read. Places of events in bundles are carried over as outlines of these, as long as
the epoch that ends has some: whoever does not know them could not have read its lanes either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from unisono.model.bundles import Part, StampedBundle, group_names, ns_of
from unisono.model.frames import Entries, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.lanes import Keyed, keyed_size
from unisono.model.runs import stamps_of

SEEN_MAX = (
    1280  # events remembered of one publisher life on one topic; the first without an answer is among them
)
SEQUENCED_BYTES, ENTRY_BYTES = 80, 24  # roughly
OUTLINE_BYTES, PLACE_BYTES = 160, 2  # of a bundle, and of each of its events
SEEN_BYTES_MAX = 16 * 1024 * 1024
LIVES_MAX = 4096  # publisher lives remembered per epoch; those that were silent longest are forgotten
KEYS_MAX = 65536  # keys of one topic that an epoch begins with
KEYS_BYTES_MAX = 1024 * 1024  # and roughly how much of all of them


class _Opened:
    """A stored bundle; its stamps are computed if somebody asks for one of them."""

    __slots__ = ("_stamps", "bundle", "names")

    def __init__(self, bundle: StampedBundle) -> None:
        self.bundle = bundle
        self.names = group_names(bundle.clock, bundle.groups, bundle.topics)
        self._stamps: dict[str, list[Entries]] | None = None

    def stamp(self, topic: str, place: int) -> Entries:
        """The stamp of an event of a topic."""
        if self._stamps is None:
            self._stamps = stamps_of(self.bundle)
        return self._stamps[topic][place]


class _Piece(NamedTuple):
    """The events of one topic in a stored bundle."""

    opened: _Opened
    topic: str
    events: int

    def sequenced(self) -> list[Sequenced]:
        """The answer for each of them."""
        bundle, topic = self.opened.bundle, self.topic
        ids = [EventId(bundle.publisher, bundle.incarnation, n) for n in ns_of(bundle, topic)]
        return [Sequenced(topic, id, bundle.epoch, self.opened.stamp(topic, i)) for i, id in enumerate(ids)]


class _Key(NamedTuple):
    """A key, roughly how many bytes it takes, and where its event is: an earlier answer, or a place in a bundle."""

    number: int
    key: str
    size: int
    found: Keyed | _Opened

    def keyed(self, topic: str) -> Keyed:
        """What is written down."""
        if isinstance(self.found, Keyed):
            return self.found
        bundle = self.found.bundle
        return Keyed(self.key, bundle.epoch, self.found.stamp(topic, self.number - bundle.clock[topic] - 1))


_Life: TypeAlias = tuple[str, str, int]  # topic, publisher, incarnation
_Window: TypeAlias = dict[int, Sequenced | _Piece]  # by the last event of each


class Carried:
    """What is remembered while sealed lanes are read."""

    def __init__(self) -> None:
        self._lives: dict[_Life, _Window] = {}  # those heard of last come last
        self._keys: dict[str, list[_Key]] = {}
        self._has_bundles = False  # in the lanes

    def remember(self, sequenced: Sequenced) -> None:
        """An event that has its place."""
        life = (sequenced.topic, sequenced.id.publisher, sequenced.id.incarnation)
        self._window(life)[sequenced.id.n] = sequenced

    def recall(self, topic: str, keyed: Iterable[Keyed]) -> None:
        """Events with keys that have their places."""
        keys = self._keys.setdefault(topic, [])
        keys += [_Key(one.entries[topic], one.key, one.size, one) for one in keyed]

    def add(self, event: Stamped) -> None:
        """An event that is stored."""
        publication = event.publication
        self.remember(Sequenced(event.topic, publication.id, event.epoch, event.entries))
        if publication.key is not None:
            self.recall(event.topic, (Keyed(publication.key, event.epoch, event.entries),))

    def add_bundle(self, bundle: StampedBundle) -> None:
        """The events of a bundle that is stored, as if they came one by one."""
        self._has_bundles = True
        opened = self.remember_bundle(bundle)
        for part in bundle.parts:
            if part.keys:
                self._add_keys(opened, part)

    def remember_bundle(self, bundle: StampedBundle) -> _Opened:
        """Events that have their places."""
        opened, order, here = _Opened(bundle), bundle.order, {part.topic for part in bundle.parts}
        places = [i for i, topic in enumerate(bundle.topics) if topic in here]
        for i in sorted(places, key=order.rindex):
            topic = bundle.topics[i]
            window = self._window((topic, bundle.publisher, bundle.incarnation))
            window[bundle.ends(i)[1]] = _Piece(opened, topic, order.count(i))
        return opened

    def _add_keys(self, opened: _Opened, part: Part) -> None:
        topic, first = part.topic, opened.bundle.clock[part.topic] + 1
        size = keyed_size("", opened.names[topic])
        keys = self._keys.setdefault(topic, [])
        keys += [_Key(first + place, key, size + len(key), opened) for place, key in part.keys]

    def _window(self, life: _Life) -> _Window:
        window = self._lives.pop(life, {})
        if len(window) >= 2 * SEEN_MAX:  # not each time: lanes are long
            window = _trimmed(window)
        self._lives[life] = window
        return window

    def newest_seen(self) -> tuple[tuple[Sequenced, ...], tuple[StampedBundle, ...]]:
        """What is carried over, one by one and in bundles, of those heard of last: an epoch begins with so much at most."""
        kept: list[_Window] = []
        counted: set[_Opened] = set()
        size = 0
        for life in reversed(list(self._lives)[-LIVES_MAX:]):
            window = _trimmed(self._lives[life])
            size += self._size(window, counted)
            if kept and size > SEEN_BYTES_MAX:
                break
            kept.append(window)
        seen: list[Sequenced] = []
        topics: dict[_Opened, set[str]] = {}
        for window in reversed(kept):
            for one in window.values():
                if isinstance(one, Sequenced):
                    seen.append(one)
                elif self._has_bundles:
                    topics.setdefault(one.opened, set()).add(one.topic)
                else:
                    seen += one.sequenced()
        return tuple(seen), tuple(opened.bundle.outline(names) for opened, names in topics.items())

    def _size(self, window: _Window, counted: set[_Opened]) -> int:
        """Roughly how many bytes it takes, beside the bundles that were counted before: one is written once for all topics."""
        size = 0
        for one in window.values():
            if isinstance(one, _Piece) and self._has_bundles:
                size += ENTRY_BYTES
                if one.opened not in counted:
                    counted.add(one.opened)
                    bundle = one.opened.bundle
                    names = len(bundle.clock) + len(bundle.topics)
                    size += OUTLINE_BYTES + ENTRY_BYTES * names + PLACE_BYTES * len(bundle.order)
            else:
                size += _count(one) * (SEQUENCED_BYTES + ENTRY_BYTES * _width(one))
        return size

    def newest_keys(self) -> dict[str, tuple[Keyed, ...]]:
        """The same of keys: as many of each topic, the newest, as there is room for."""
        ordered = {t: sorted(self._keys[t], key=lambda key: key.number) for t in sorted(self._keys)}
        most = KEYS_MAX
        while True:
            kept = {topic: keys[-most:] for topic, keys in ordered.items()}
            if most == 1 or sum(key.size for keys in kept.values() for key in keys) <= KEYS_BYTES_MAX:
                return {topic: tuple(key.keyed(topic) for key in keys) for topic, keys in kept.items()}
            most //= 2


def _trimmed(window: _Window) -> _Window:
    """The newest, at least as many events as must be remembered if there are so many."""
    kept: list[int] = []
    count = 0
    for last in sorted(window, reverse=True):
        if count >= SEEN_MAX:
            break
        kept.append(last)
        count += _count(window[last])
    return {last: window[last] for last in reversed(kept)}


def _count(one: Sequenced | _Piece) -> int:
    return one.events if isinstance(one, _Piece) else 1


def _width(one: Sequenced | _Piece) -> int:
    """How many entries its stamp has."""
    return len(one.opened.names[one.topic] if isinstance(one, _Piece) else one.entries)
