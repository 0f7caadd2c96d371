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
from unisono.engines.inputs import Controlled, Input, Lost, Publish, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.addresses import manager_address
from unisono.model.errors import FrameError
from unisono.model.frames import Completed, Create, Publication, Routed, Sequenced, Stamped
from unisono.model.ids import EventId

PATIENCE_MAX = 16
UNDER_WAY_MAX = 512  # events without an answer; nodes remember more than that of each publisher


def own_lane(topic: str) -> str:
    """Each topic is a lane of its own: only events of one topic cannot overtake each other."""
    return topic


class Publisher:
    """One life of one publisher."""

    def __init__(
        self, *, causal: bool = False, lane: Callable[[str], str] = own_lane, resend_s: float = 1.0
    ) -> None:
        self.causal = causal
        self.lane = lane
        self.resend_s = resend_s
        self.control: Control | None = None  # who owns which topic, where nodes do
        self.resend_at: float | None = None
        self.patience = 1  # doubles each time nothing comes of asking again
        self.outgoing: dict[int, Publication] = {}  # sent, no answer yet
        self.waiting: deque[Publication] = deque()  # held back by `causal`
        self.newest: dict[str, int] = {}  # topic -> the last event sent

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Publish(publications):
                self.waiting.extend(publications)
                return self._send(now)
            case Controlled(control):
                return self._controlled(control, now)
            case Tick() | Lost():
                return self._resend(now)
            case Received(_, Sequenced() as sequenced):
                return self._sequenced(sequenced, now)
            case Received(_, Completed() as completed):
                return self._completed(completed, now)
        return [Reject(FrameError(f"a publisher cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """When to ask again. Links repeat what the network loses; what a node loses only we can repeat."""
        return self.resend_at

    def may_send(self, publication: Publication) -> bool:
        """Whether nothing that this publication must follow is still on its way."""
        if not self.causal or not self.outgoing:
            return True
        lane = self.lane(publication.topic)
        return all(self.lane(p.topic) == lane for p in self.outgoing.values())

    def _send(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self.waiting and len(self.outgoing) < UNDER_WAY_MAX and self.may_send(self.waiting[0]):
            publication = self.waiting.popleft()
            self.outgoing[publication.n] = publication
            effects.append(self._create(publication, self.newest))
        if self.control is not None:
            self.resend_at = (self.resend_at or now + self.resend_s) if self.outgoing else None
        return effects

    def _create(self, publication: Publication, newest: dict[str, int]) -> Effect:
        topic = publication.topic
        lowest = next(iter(self.outgoing))  # sent in order of n
        before = newest.get(topic, 0)
        create = Create(publication, lowest, before if before in self.outgoing else 0)
        newest[topic] = publication.n
        if self.control is None:
            return Send(manager_address(topic), create)
        return Send(self.control.owner[topic], Routed(topic, create))

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        """A new epoch: what has no answer yet may have died with its node."""
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        self.patience = 1
        return self._resend(now) if control.state == "active" else []

    def _resend(self, now: float) -> list[Effect]:
        """The same events with the same ids: those that have their places are only answered again."""
        self.resend_at = now + self.resend_s * self.patience if self.outgoing else None
        self.patience = min(2 * self.patience, PATIENCE_MAX)
        newest: dict[str, int] = {}
        return [self._create(publication, newest) for publication in self.outgoing.values()]

    def _sequenced(self, sequenced: Sequenced, now: float) -> list[Effect]:
        if not self._is_out(sequenced.id):
            return []
        del self.outgoing[sequenced.id.n]
        self.resend_at, self.patience = None, 1
        return [Acknowledge(sequenced), *self._send(now)]

    def _is_out(self, id: EventId) -> bool:
        """Whether it is one of ours that has no answer yet; answers to a former life may still come."""
        publication = self.outgoing.get(id.n)
        return publication is not None and publication.id == id

    def _completed(self, completed: Completed, now: float) -> list[Effect]:
        if not self._is_out(completed.id):
            return []
        publication = self.outgoing.pop(completed.id.n)
        stamped = Stamped(publication, completed.epoch, completed.entries)
        sequenced = Sequenced(completed.topic, completed.id, completed.epoch, completed.entries)
        return [Announce((completed.topic,), stamped), Acknowledge(sequenced), *self._send(now)]

    def check(self) -> None:
        """What waits comes after what is out."""
        if self.outgoing and self.waiting:
            assert max(self.outgoing) < self.waiting[0].n

    def copy(self) -> Publisher:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.outgoing, twin.waiting, twin.newest = dict(self.outgoing), self.waiting.copy(), dict(self.newest)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two publishers would behave alike from now on."""
        version = None if self.control is None else self.control.version
        return (
            tuple(self.outgoing),
            tuple(p.n for p in self.waiting),
            version,
            self.resend_at,
            self.patience,
        )
