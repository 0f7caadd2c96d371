"""Publisher FIFO: each publisher's events of a topic in the order it published them, and nothing more.

A publisher numbers its events per topic (`Publication.nth`). The numbers of one publisher life on one topic are
a stream of their own, so the hold-back rules of the total order apply to it as they are, with stamps of one
entry. A stream starts after the number given for it in `floors`, or at its beginning; where nobody can know
(`floors` is None), with the first event that is heard of it: what is older came before we listened.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from unisono.engines.effects import Effect
from unisono.engines.inputs import Input, Notified
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
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


class FifoSubscriber:
    """One subscription that wants each publisher's own order."""

    def __init__(
        self,
        name: str,
        topics: frozenset[str],
        settings: SubscriberSettings,
        floors: Mapping[str, int] | None = None,
    ) -> None:
        self.topics = topics
        self.floors = floors
        self.inner = Subscriber(name, {}, settings)

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
            if len(self.inner.clock) >= STREAMS_MAX:
                self.inner.dismiss(next(iter(self.inner.clock)))
            first = publication.nth - 1
            self.inner.admit(stream, first if self.floors is None else self.floors.get(stream, 0))
        return self.inner.handle(Notified(_Nth(publication, 0, {stream: publication.nth})), now)

    def next_timer(self) -> float | None:
        """When something held expires."""
        return self.inner.next_timer()

    def check(self) -> None:
        """The invariants of the hold-back."""
        self.inner.check()

    def copy(self) -> FifoSubscriber:
        """An independent twin."""
        twin = FifoSubscriber(self.inner.name, self.topics, self.inner.settings, self.floors)
        twin.inner = self.inner.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return self.inner.state()
