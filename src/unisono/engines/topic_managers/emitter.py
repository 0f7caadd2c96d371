"""The sending end of repair: rings of what was emitted, answers to negative acknowledgements, heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from heapq import heappop, heappush, heapreplace
from typing import Self

from unisono.engines.effects import Announce, Effect
from unisono.engines.topic_managers.ring import Ring
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import Part, StampedBundle
from unisono.model.frames import EpochNotice, Heartbeat, Nack, Repair, Stamped
from unisono.model.runs import stamped_in

ENTRY_BYTES = 32  # roughly, of a stamp


class Emitter:
    """Keeps a ring and a heartbeat for every topic that ends its path here."""

    def __init__(self, settings: ManagerSettings, epoch: int) -> None:
        self.settings = settings
        self.epoch = epoch
        self.rings: dict[str, Ring] = {}
        # topic -> when it is due, the silence before it, and which time in the heap counts: this one, or an earlier one
        self._beats: dict[str, tuple[float, float, float]] = {}
        self._dues: list[tuple[float, str]] = []

    def keep(self, stamped: Stamped, now: float) -> None:
        """Remember an event that is being emitted."""
        topic = stamped.publication.topic
        self.keep_later(topic, stamped.entries[topic], lambda _: stamped, now, _size(stamped))

    def keep_later(
        self, topic: str, number: int, event: Callable[[int], Stamped], now: float, size: int = 0
    ) -> None:
        """Remember an event whose stamp is made only if somebody asks for it."""
        if self.settings.ring_events:
            self._ring(topic).append(number, event, size)
            self._beat_after(topic, self.settings.heartbeat_s, now)

    def keep_bundle(self, bundle: StampedBundle, now: float) -> None:
        """Remember the events of a bundle that is being emitted."""
        if not self.settings.ring_events:
            return
        for part in bundle.parts:
            _keep_part(self._ring(part.topic), bundle, part)
            self._beat_after(part.topic, self.settings.heartbeat_s, now)

    def _ring(self, topic: str) -> Ring:
        ring = self.rings.get(topic)
        if ring is None:
            ring = self.rings[topic] = Ring(self.settings.ring_events, 0, self.settings.ring_bytes)
        return ring

    def _beat_after(self, topic: str, silence: float, now: float) -> None:
        due, beat = now + silence, self._beats.get(topic)
        if beat is not None and beat[2] <= due:
            self._beats[topic] = (due, silence, beat[2])
        else:
            self._beats[topic] = (due, silence, due)
            heappush(self._dues, (due, topic))

    def restore(
        self, topic: str, events: Sequence[Stamped | StampedBundle], newest: int, epoch: int, now: float
    ) -> None:
        """Begin an epoch with what is stored of a topic, in order of numbers; what is not there is gone."""
        self.epoch = epoch
        if not self.settings.ring_events:
            return
        ring = self.rings[topic] = Ring(self.settings.ring_events, newest, self.settings.ring_bytes)
        for event in events:
            if isinstance(event, Stamped):
                ring.append(event.number, lambda _, event=event: event, _size(event))  # type: ignore[misc]
            else:
                _keep_part(ring, event, next(part for part in event.parts if part.topic == topic))
        self._beat_after(topic, self.settings.heartbeat_s, now)

    def forget(self, epoch: int) -> None:
        """Keep nothing, tell nothing."""
        self.epoch = epoch
        self.rings.clear()
        self._beats.clear()
        self._dues.clear()

    def repair(self, nack: Nack, epochs: tuple[EpochNotice, ...] = ()) -> Repair:
        """What can still be said about the numbers somebody misses."""
        ring = self.rings.get(nack.topic)
        if ring is None:
            return Repair(nack.topic, (), (), 0, epochs)
        found, gone = ring.find(nack.numbers, self.settings.repair_bytes)
        return Repair(nack.topic, found, gone, ring.newest, epochs)

    def heartbeats(self, now: float) -> list[Effect]:
        """Tell the newest numbers of topics that have been silent."""
        due = self.next_timer()
        if due is None or due > now:
            return []
        effects: list[Effect] = []
        for topic, (at, silence, _) in list(self._beats.items()):
            if at <= now:
                effects.append(Announce((topic,), Heartbeat(topic, self.epoch, self.rings[topic].newest)))
                self._beat_after(topic, min(2 * silence, self.settings.heartbeat_s_max), now)
        return effects

    def next_timer(self) -> float | None:
        """When the next heartbeat is due."""
        dues, beats = self._dues, self._beats
        while dues:
            at, topic = dues[0]
            beat = beats.get(topic)
            if beat is None or beat[2] != at:
                heappop(dues)
                continue
            due, silence, _ = beat
            if due == at:
                return due
            beats[topic] = (due, silence, due)  # it was put off
            heapreplace(dues, (due, topic))
        return None

    def copy(self) -> Self:
        """An independent twin."""
        twin = type(self)(self.settings, self.epoch)
        twin.rings = {t: r.copy() for t, r in self.rings.items()}
        twin._beats = dict(self._beats)
        twin._dues = list(self._dues)
        return twin

    def state(self) -> Hashable:
        """Equal for emitters that answer alike."""
        return (
            tuple(sorted((t, r.state()) for t, r in self.rings.items())),
            tuple(sorted((topic, due, silence) for topic, (due, silence, _) in self._beats.items())),
        )


def _keep_part(ring: Ring, bundle: StampedBundle, part: Part) -> None:
    """Keep the events of one topic in a bundle."""
    first = bundle.clock[part.topic] + 1
    numbers = range(first, first + part.count)
    size = part.size // len(numbers) + ENTRY_BYTES * len(bundle.clock)
    ring.extend(numbers, partial(stamped_in, bundle, part.topic), size)


def _size(event: Stamped) -> int:
    """Roughly how many bytes it takes."""
    return 128 + len(event.publication.body) + ENTRY_BYTES * len(event.entries)
