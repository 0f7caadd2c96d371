"""A publisher's side: what it has sent and not yet heard of, and when it may send the next.

In *forward* mode the last manager publishes, and the publisher only learns that its event has its place. In
*return* mode (papers) the stamp comes back and the publisher publishes: a publisher that dies in between
leaves a number nobody will ever see, which is why it is not the default.

With `causal` the next event waits until the ones before it have their places, unless both travel in one lane,
where nothing can overtake: then causes come before effects across topics too (000's future work).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from unisono.engines.effects import Acknowledge, Announce, Effect, Reject, Send
from unisono.engines.inputs import Input, Publish, Received
from unisono.engines.topic_managers.addresses import manager_address
from unisono.model.errors import FrameError
from unisono.model.frames import Completed, Create, Publication, Sequenced, Stamped


def own_lane(topic: str) -> str:
    """Each topic is a lane of its own: only events of one topic cannot overtake each other."""
    return topic


class Publisher:
    """One life of one publisher."""

    def __init__(self, *, causal: bool = False, lane: Callable[[str], str] = own_lane) -> None:
        self.causal = causal
        self.lane = lane
        self.outgoing: dict[int, Publication] = {}  # sent, no answer yet
        self.waiting: deque[Publication] = deque()  # held back by `causal`

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Publish(publications):
                self.waiting.extend(publications)
                return self._send()
            case Received(_, Sequenced() as sequenced):
                return self._sequenced(sequenced)
            case Received(_, Completed() as completed):
                return self._completed(completed)
        return [Reject(FrameError(f"a publisher cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """Links repeat what is lost; the publisher itself never does."""
        return None

    def may_send(self, publication: Publication) -> bool:
        """Whether nothing that this publication must follow is still on its way."""
        if not self.causal or not self.outgoing:
            return True
        lane = self.lane(publication.topic)
        return all(self.lane(p.topic) == lane for p in self.outgoing.values())

    def _send(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.waiting and self.may_send(self.waiting[0]):
            publication = self.waiting.popleft()
            self.outgoing[publication.n] = publication
            acknowledged = next(iter(self.outgoing))  # sent in order of n, so the first is the lowest
            effects.append(Send(manager_address(publication.topic), Create(publication, acknowledged)))
        return effects

    def _sequenced(self, sequenced: Sequenced) -> list[Effect]:
        if self.outgoing.pop(sequenced.id.n, None) is None:
            return []
        return [Acknowledge(sequenced), *self._send()]

    def _completed(self, completed: Completed) -> list[Effect]:
        publication = self.outgoing.pop(completed.id.n, None)
        if publication is None:
            return []
        stamped = Stamped(publication, completed.epoch, completed.entries)
        sequenced = Sequenced(completed.topic, completed.id, completed.epoch, completed.entries)
        return [Announce((completed.topic,), stamped), Acknowledge(sequenced), *self._send()]

    def check(self) -> None:
        """What waits comes after what is out."""
        if self.outgoing and self.waiting:
            assert max(self.outgoing) < self.waiting[0].n

    def copy(self) -> Publisher:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.outgoing, twin.waiting = dict(self.outgoing), self.waiting.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two publishers would behave alike from now on."""
        return (tuple(self.outgoing), tuple(p.n for p in self.waiting))
