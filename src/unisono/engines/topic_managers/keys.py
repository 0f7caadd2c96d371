"""Ids that users gave to the events of a topic: whoever publishes one again gets the place of the first.

A key is *under way* from the moment its event is numbered until that is stored. Whoever asks meanwhile waits: the
first may still be lost with its epoch, and then nobody was told anything.
"""

from __future__ import annotations

from collections.abc import Hashable

from unisono.model.frames import Entries
from unisono.model.ids import EventId
from unisono.model.lanes import Keyed


class Keys:
    """The keys of one topic that are remembered; the oldest are forgotten."""

    __slots__ = ("_size", "bytes_max", "keys_max", "places", "under_way")

    def __init__(self, keys_max: int, bytes_max: int) -> None:
        self.keys_max = keys_max
        self.bytes_max = bytes_max
        self.places: dict[str, Keyed] = {}  # oldest first
        self.under_way: dict[str, tuple[EventId, ...]] = {}  # key -> who has asked for it since
        self._size = 0

    def begin(self, key: str) -> bool:
        """Note that an event with this key is being numbered; False when there was one before."""
        if key in self.places or key in self.under_way:
            return False
        self.under_way[key] = ()
        return True

    def wait(self, key: str, id: EventId) -> None:
        """Somebody asks for a key that is under way."""
        self.under_way[key] += (id,)

    def finish(self, key: str, epoch: int, entries: Entries) -> tuple[EventId, ...]:
        """The event has its place; returns who waits to hear of it."""
        waiting = self.under_way.pop(key, ())
        self.recall(Keyed(key, epoch, entries))
        return waiting

    def recall(self, keyed: Keyed) -> None:
        """An event has its place, perhaps since an earlier epoch."""
        if keyed.key not in self.places:
            self.places[keyed.key] = keyed
            self._size += keyed.size
        while len(self.places) > self.keys_max or self._size > self.bytes_max:
            self._size -= self.places.pop(next(iter(self.places))).size

    def copy(self) -> Keys:
        """An independent twin."""
        twin = Keys(self.keys_max, self.bytes_max)
        twin.places, twin.under_way, twin._size = dict(self.places), dict(self.under_way), self._size
        return twin

    def state(self) -> Hashable:
        """Equal for keys that are answered alike."""
        return (tuple(self.places), tuple(self.under_way.items()))
