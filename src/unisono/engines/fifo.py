"""Publisher FIFO: each publisher's events of a topic in the order it published them, and nothing more.

A publisher numbers its events per topic (`Publication.nth`). The numbers of one publisher life on one topic are
a stream of their own, so the hold-back rules of the total order apply to it as they are, with stamps of one
entry. A stream starts after the number given for it in `floors`. One that is not there belongs to a publisher
who began after us (its incarnation is above `since`), and starts at its beginning; or to one who had ended before
us, and what is still under way of it came before we listened. Where nobody can know (`floors` is None) the stream of
a publisher who was there before us starts with the first event that is heard of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from unisono.engines.effects import Effect
from unisono.engines.inputs import Input, Notified
from unisono.engines.topic_managers.colocated import ColocatedSubscriber
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.frames import Batch, Publication, Stamped

STREAMS_MAX = 65536


class _Nth(Stamped, frozen=True, tag="nth"):
    """An event stamped with its place in its publisher's stream."""

    @property
    def topic(self) -> str:
        """The stream takes the place of the topic."""
        return stream_of(self.publication)

    @property
    def number(self) -> int:
        """Its place in the stream."""
        return self.publication.nth


def stream_of(publication: Publication) -> str:
    """The stream of a publisher life on a topic."""
    return f"{publication.topic} {publication.publisher} {publication.incarnation}"


def _topic_of(stream: str) -> str:
    return stream.partition(" ")[0]  # topics have no spaces


class FifoSubscriber:
    """One subscription that wants each publisher's own order."""

    def __init__(
        self,
        name: str,
        topics: frozenset[str],
        settings: SubscriberSettings,
        floors: Mapping[str, int] | None = None,
        since: int = 0,
    ) -> None:
        self.topics: frozenset[str] = frozenset()
        self.floors: dict[str, Mapping[str, int] | None] = {}  # topic -> stream -> number
        self.since: dict[str, int] = {}
        self.inner = ColocatedSubscriber(name, {}, settings)
        self.admit(topics, floors, since)

    def admit(self, topics: frozenset[str], floors: Mapping[str, int] | None = None, since: int = 0) -> None:
        """Owe the events of some topics more; `floors` and `since` say from where on."""
        self.topics |= topics
        by_topic: dict[str, dict[str, int]] = {topic: {} for topic in topics}
        for stream, nth in (floors or {}).items():
            by_topic[_topic_of(stream)][stream] = nth
        for topic, mine in by_topic.items():
            self.floors[topic], self.since[topic] = None if floors is None else mine, since

    def dismiss(self, topics: frozenset[str]) -> list[Effect]:
        """Owe nothing of some topics any more, and forget what was held of them."""
        self.topics -= topics
        for topic in topics:
            del self.floors[topic], self.since[topic]
        effects: list[Effect] = []
        for stream in [stream for stream in self.inner.clock if _topic_of(stream) in topics]:
            effects += self.inner.dismiss(stream)
        return effects

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Notified(Batch() as batch):
                effects = []
                for place in batch.places(self.topics):
                    effects += self._take(batch.publications[place], now)
                return effects
            case Notified(Stamped() as stamped):
                return self._take(stamped.publication, now)
            case Notified(Publication() as publication):
                return self._take(publication, now)
            case Notified():
                return []  # heartbeats concern the total order only
        return self.inner.handle(input, now)

    def _take(self, publication: Publication, now: float) -> list[Effect]:
        if publication.topic not in self.topics:
            return []
        stream = stream_of(publication)
        if stream not in self.inner.clock:
            floor = self._floor(stream, publication)
            if floor is None:
                return []  # its publisher had ended before we listened
            if len(self.inner.clock) >= STREAMS_MAX:
                self.inner.dismiss(next(iter(self.inner.clock)))
            self.inner.admit(stream, floor)
        return self.inner.handle(Notified(_Nth(publication, 0, {stream: publication.nth})), now)

    def _floor(self, stream: str, publication: Publication) -> int | None:
        """The number after which a stream that is new to us is owed; None: never."""
        floors, since = self.floors[publication.topic], self.since[publication.topic]
        if floors is None:
            return 0 if 0 < since < publication.incarnation else publication.nth - 1
        if stream in floors:
            return floors[stream]
        return 0 if publication.incarnation > since else None

    def next_timer(self) -> float | None:
        """When something held expires."""
        return self.inner.next_timer()

    def check(self) -> None:
        """The invariants of the hold-back."""
        self.inner.check()

    def copy(self) -> FifoSubscriber:
        """An independent twin."""
        twin = FifoSubscriber(self.inner.name, frozenset(), self.inner.settings)
        twin.topics, twin.floors, twin.since = self.topics, dict(self.floors), dict(self.since)
        twin.inner = self.inner.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (self.topics, self.inner.state())
