"""A publisher's side: what it has sent and not yet heard of, and when it may send the next.

In *forward* mode the last manager publishes, and the publisher only learns that its event has its place. In
*return* mode (papers) the stamp comes back and the publisher publishes: a publisher that dies in between
leaves a number nobody will ever see, which is why it is not the default.

With `causal` the next event waits until the ones before it have their places, unless both travel in one lane,
where nothing can overtake: then causes come before effects across topics too (000's future work).

Events on a topic that does not exist yet wait until the leader has made it; events on other topics do not wait for
them, unless they must follow them. Should it be refused, so are they.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Hashable

from unisono.engines.effects import Acknowledge, Announce, Effect, Refuse, Reject, Send
from unisono.engines.inputs import Controlled, Input, Lost, Publish, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.addresses import manager_address
from unisono.model.errors import DeletedError, FrameError, QuotaError
from unisono.model.frames import (
    Completed,
    Create,
    Publication,
    Refused,
    Replan,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId

PATIENCE_MAX = 16
TOPICS_MAX = 1000  # topics asked for at once
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
        self.resend_at: float | None = None  # when to look whether something has waited for too long
        self.due: dict[str, float] = {}  # topic -> when what is on its way there is sent again
        self.patience: dict[str, int] = {}  # doubles each time nothing comes of asking again
        self.outgoing: dict[int, Publication] = {}  # sent, no answer yet
        self.waiting: deque[Publication] = deque()  # held back by `causal`
        self.strangers: dict[str, list[Publication]] = {}  # events on topics that do not exist yet
        self.ask_at: float | None = None  # when to ask for those topics again
        self.asks = 0
        self.newest: dict[str, int] = {}  # topic -> the last event sent

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Publish(publications):
                self.waiting.extend(publications)
                return self._send(now)
            case Controlled(control):
                return self._controlled(control, now)
            case Lost():
                return self._resend(now) + self._ask(now)
            case Tick():
                return self._tick(now)
            case Received(_, Refused(reason, topics, ids)):
                return self._deleted(reason, ids) + self._refused(reason, topics, now)
            case Received(_, Sequenced() as sequenced):
                return self._sequenced(sequenced, now)
            case Received(_, Completed() as completed):
                return self._completed(completed, now)
        return [Reject(FrameError(f"a publisher cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """When to ask again. Links repeat what the network loses; what a node loses only we can repeat."""
        times = [time for time in (self.resend_at, self.ask_at) if time is not None]
        return min(times, default=None)

    def _tick(self, now: float) -> list[Effect]:
        effects = self._resend_late(now) if self.resend_at is not None and self.resend_at <= now else []
        return effects + (self._ask(now) if self.ask_at is not None and self.ask_at <= now else [])

    def may_send(self, publication: Publication) -> bool:
        """Whether nothing that this publication must follow is still on its way."""
        if not self.causal or not self.outgoing:
            return True
        lane = self.lane(publication.topic)
        return all(self.lane(p.topic) == lane for p in self.outgoing.values())

    def _send(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        asked = len(self.strangers)
        while self.waiting and len(self.outgoing) < UNDER_WAY_MAX and self.may_send(self.waiting[0]):
            topic = self.waiting[0].topic
            if topic in self.strangers or not self._exists(topic):
                self._set_aside()
                if self.causal:
                    break  # whatever comes next must follow it
                continue
            publication = self.waiting.popleft()
            if self.newest.get(topic) not in self.outgoing:
                self.due[topic] = now + self.resend_s
            self.outgoing[publication.n] = publication
            effects.append(self._create(publication, self.newest))
        if self.control is not None:
            self.resend_at = (self.resend_at or now + self.resend_s) if self.outgoing else None
        return effects + (self._ask(now) if len(self.strangers) > asked else [])

    def _exists(self, topic: str) -> bool:
        """Whether somebody numbers this topic; where there are no nodes, its manager does."""
        # The owners of a record that is being sealed are those to come; its plan is still the one in force.
        return self.control is None or topic in self.control.plan.parent

    def _set_aside(self) -> None:
        """The next event waits for its topic; the first of a causal publisher stays where it is."""
        topic = self.waiting[0].topic
        aside = self.strangers.setdefault(topic, [])
        if not self.causal:
            aside.append(self.waiting.popleft())

    def _ask(self, now: float) -> list[Effect]:
        """Ask the leader to make the topics that do not exist."""
        if not self.strangers:
            self.ask_at = None
            return []
        self.ask_at = now + self.resend_s * min(2**self.asks, PATIENCE_MAX)
        self.asks += 1
        control = self.control
        if control is None or control.state != "active":
            return []
        return [Send(control.leader, Replan(control.epoch, topics=tuple(self.strangers)[:TOPICS_MAX]))]

    def _meet_topics(self, now: float) -> list[Effect]:
        """Send what has waited for topics that exist now."""
        for topic in [topic for topic in self.strangers if self._exists(topic)]:
            self.waiting.extendleft(reversed(self.strangers.pop(topic)))
        self.waiting = deque(sorted(self.waiting, key=lambda publication: publication.n))
        self.asks = 0
        return self._send(now) + self._ask(now)

    def _refused(self, reason: str, topics: tuple[str, ...], now: float) -> list[Effect]:
        """A topic will not be made: its events will never have a place."""
        effects: list[Effect] = []
        for topic in topics:
            aside = self.strangers.pop(topic, None)
            if aside is None or self._exists(topic):
                continue
            while self.causal and self.waiting and self.waiting[0].topic == topic:
                aside.append(self.waiting.popleft())
            error = QuotaError(f"topic '{topic}' cannot be made: {reason}")
            effects += [Refuse(publication.id, error) for publication in aside]
        return effects + self._send(now)

    def _deleted(self, reason: str, ids: tuple[EventId, ...]) -> list[Effect]:
        """Events came too late for their topics."""
        gone = [id for id in ids if self._is_out(id)]
        for id in gone:
            del self.outgoing[id.n]
        return [Refuse(id, DeletedError(f"{reason}; its name is not given again")) for id in gone]

    def _create(self, publication: Publication, newest: dict[str, int]) -> Effect:
        topic = publication.topic
        lowest = min(self.outgoing)
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
        self.patience.clear()
        if control.state != "active":
            return []
        return self._resend(now) + (self._meet_topics(now) if self.strangers else [])

    def _resend_late(self, now: float) -> list[Effect]:
        """Send again what is on topics of which nothing was heard for too long; others may do well."""
        topics = {publication.topic for publication in self.outgoing.values()}
        late = {topic for topic in topics if self.due[topic] <= now}
        if late:
            return self._resend(now, late)
        self.resend_at = min((self.due[topic] for topic in topics), default=None)
        return []

    def _resend(self, now: float, topics: Container[str] | None = None) -> list[Effect]:
        """The same events with the same ids: those that have their places are only answered again."""
        again = [p for p in self.outgoing.values() if topics is None or p.topic in topics]
        for topic in dict.fromkeys(publication.topic for publication in again):
            patience = self.patience.get(topic, 1)
            self.due[topic] = now + self.resend_s * patience
            self.patience[topic] = min(2 * patience, PATIENCE_MAX)
        self.resend_at = min((self.due[p.topic] for p in self.outgoing.values()), default=None)
        newest: dict[str, int] = {}
        return [self._create(publication, newest) for publication in again]

    def _sequenced(self, sequenced: Sequenced, now: float) -> list[Effect]:
        if not self._is_out(sequenced.id):
            return []
        del self.outgoing[sequenced.id.n]
        self._answered(sequenced)
        self.patience.pop(sequenced.topic, None)
        self.due[sequenced.topic] = now + self.resend_s
        return [Acknowledge(sequenced), *self._send(now)]

    def _answered(self, sequenced: Sequenced) -> None:
        """A repeated key is answered before what was sent before it: what comes next follows that."""
        topic = sequenced.topic
        if self.outgoing and self.newest.get(topic) == sequenced.id.n:
            self.newest[topic] = max((p.n for p in self.outgoing.values() if p.topic == topic), default=0)

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
        if self.outgoing and self.waiting and not self.strangers:
            assert list(self.waiting) == sorted(self.waiting, key=lambda publication: publication.n)
        newest: dict[str, int] = {}
        for publication in (*self.outgoing.values(), *self.waiting):
            assert newest.get(publication.topic, 0) < publication.n
            newest[publication.topic] = publication.n

    def copy(self) -> Publisher:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.outgoing, twin.waiting, twin.newest = dict(self.outgoing), self.waiting.copy(), dict(self.newest)
        twin.due, twin.patience = dict(self.due), dict(self.patience)
        twin.strangers = {topic: list(aside) for topic, aside in self.strangers.items()}
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two publishers would behave alike from now on."""
        version = None if self.control is None else self.control.version
        return (
            tuple(p.n for p in self.waiting),
            version,
            self.resend_at,
            tuple((p.n, self.due.get(p.topic), self.patience.get(p.topic)) for p in self.outgoing.values()),
            tuple((topic, len(aside)) for topic, aside in self.strangers.items()),
            (self.ask_at, self.asks),
        )
