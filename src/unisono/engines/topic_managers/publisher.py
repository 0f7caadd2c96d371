"""A publisher's side: what it has sent and not yet heard of, and when it may send the next.

In *forward* mode the last manager publishes, and the publisher only learns that its event has its place. In
*return* mode (papers) the stamp comes back and the publisher publishes: a publisher that dies in between
leaves a number nobody will ever see, which is why it is not the default.

With `causal` the next event waits until the ones before it have their places, unless both travel in one lane,
where nothing can overtake: then causes come before effects across topics too (000's future work).

Events that are ready together travel together, as one bundle for each node. While some bundles have no answer yet, what
comes waits and makes the next one larger: nobody waits while little is under way, and much takes few frames.

Events on a topic that does not exist yet wait until the leader has made it; events on other topics do not wait for
them, unless they must follow them. Should it be refused, so are they.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Hashable, Sequence
from itertools import accumulate
from operator import attrgetter

from unisono.engines.effects import Acknowledge, AcknowledgeRun, Announce, Effect, Refuse, Reject, Send
from unisono.engines.inputs import Controlled, Input, Lost, Publish, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.line import Line
from unisono.engines.topic_managers.outgoing import Outgoing, Sent
from unisono.model.bundles import BYTES_MAX, EVENT_BYTES, EVENTS_MAX, SequencedBundle, group_names
from unisono.model.bundles import TOPICS_MAX as BUNDLE_TOPICS_MAX
from unisono.model.errors import DeletedError, FrameError, QuotaError
from unisono.model.frames import (
    Completed,
    Create,
    Publication,
    Refused,
    Replan,
    Routed,
    Run,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId
from unisono.model.runs import bundle_of, cut

PATIENCE_MAX = 16
PATIENCE_FIRST = 4  # a part of the usual, in a new epoch
TOPICS_MAX = 1000  # topics asked for at once
UNDER_WAY_MAX = (
    1024  # events of a topic from the first without an answer on; nodes remember more of each publisher
)
ALONE_MAX = 512  # the same where a node does not take bundles: those of release 2 remember less
NODE_MAX = 4096  # events without an answer, of one node
SENDS_MAX = 4  # bundles and single events without an answer, of one node


def own_lane(topic: str) -> str:
    """Each topic is a lane of its own: only events of one topic cannot overtake each other."""
    return topic


class Publisher:
    """One life of one publisher."""

    def __init__(
        self,
        *,
        causal: bool = False,
        lane: Callable[[str], str] = own_lane,
        resend_s: float = 1.0,
        bundles: bool = True,
    ) -> None:
        self.causal = causal
        self.bundles = bundles  # whether nodes take many events at once
        self.lane = lane
        self.resend_s = resend_s
        self.control: Control | None = None  # who owns which topic, where nodes do
        self.resend_at: float | None = None  # when to look whether something has waited for too long
        self.due: dict[str, float] = {}  # topic -> when what is on its way there is sent again
        self.patience: dict[str, int] = {}  # doubles each time nothing comes of asking again
        self.outgoing = Outgoing()  # sent, no answer yet
        self.serial = 0
        # What waits for its turn, by node: one that does not answer holds up no other. What is causal has one queue.
        self.queues: dict[str, Line] = {}
        self.strangers: dict[str, list[Publication]] = {}  # events on topics that do not exist yet
        self.has_met = False  # one that has not been asked for
        self.ask_at: float | None = None  # when to ask for those topics again
        self.asks = 0

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if type(input) is Publish:
            publications = input.publications
            if len(publications) == 1 and (effect := self._send_next(publications[0], now)) is not None:
                return [effect]  # mostly, while little is published
            self._enqueue(publications)
            return self._send(now)
        if type(input) is Received and type(input.message) is Sequenced:
            return self._sequenced(input.message, now)
        match input:
            case Controlled(control):
                return self._controlled(control, now)
            case Lost():
                return self._resend(now) + self._ask(now)
            case Tick():
                return self._tick(now)
            case Received(_, Refused(reason, topics, ids)):
                return self._deleted(reason, ids) + self._refused(reason, topics, now)
            case Received(_, SequencedBundle() as answer):
                return self._bundle_sequenced(answer, now)
            case Received(_, Completed() as completed):
                return self._completed(completed, now)
        return [Reject(FrameError(f"a publisher cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """When to ask again. Links repeat what the network loses; what a node loses only we can repeat."""
        if self.resend_at is None or self.ask_at is None:
            return self.ask_at if self.resend_at is None else self.resend_at
        return min(self.resend_at, self.ask_at)

    def _tick(self, now: float) -> list[Effect]:
        effects = self._resend_late(now) if self.resend_at is not None and self.resend_at <= now else []
        return effects + (self._ask(now) if self.ask_at is not None and self.ask_at <= now else [])

    def may_send(self, publication: Publication) -> bool:
        """Whether nothing that this publication must follow is still on its way."""
        if not self.causal or not self.outgoing.count:
            return True
        lane = self.lane(publication.topic)
        return all(self.lane(topic) == lane for topic in self.outgoing.load)

    @property
    def waiting(self) -> list[Publication]:
        """What has not been sent, in its order."""
        return sorted((p for queue in self.queues.values() for p in queue), key=lambda p: p.n)

    def _enqueue(self, publications: Sequence[Publication]) -> None:
        """Put events where they wait for their turn, or for their topics."""
        control, queues = self.control, self.queues
        if self.causal or control is None:
            queues.setdefault("", Line()).extend(publications)
            return
        existing, owner, strangers = control.plan.parent, control.owner, self.strangers
        topics = {publication.topic for publication in publications}
        nodes = {owner[topic] for topic in topics if topic in existing and topic not in strangers}
        if len(nodes) == 1 and not strangers and topics <= existing.keys():
            queues.setdefault(nodes.pop(), Line()).extend(publications)
            return
        for publication in publications:
            topic = publication.topic
            if topic in strangers or topic not in existing:
                self._estrange(topic).append(publication)
            else:
                queues.setdefault(owner[topic], Line()).extend((publication,))

    def _estrange(self, topic: str) -> list[Publication]:
        """The events of a topic that does not exist: it is asked for."""
        if topic not in self.strangers:
            self.strangers[topic] = []
            self.has_met = True
        return self.strangers[topic]

    def _send(self, now: float) -> list[Effect]:
        """Send what may go."""
        effects: list[Effect] = []
        for queue in self.queues.values():
            while queue and (effect := self._next(queue, now)) is not None:
                effects.append(effect)
        if self.control is not None:
            self.resend_at = (self.resend_at or now + self.resend_s) if self.outgoing.count else None
        return effects + self._ask(now) if self.has_met else effects

    def _next(self, queue: Line, now: float) -> Effect | None:
        """Send as many events as may travel together now; None if the first has to wait."""
        to = self._ready(queue.first)
        if to is None:
            return None
        batch = queue.front(self._most(to, queue.first))
        by_topic = cut(batch)
        count = self._how_many_go(to, batch, by_topic)
        if count < len(batch):
            del batch[count:]
            by_topic = cut(batch)
        queue.leave(count)
        return self._dispatch(to, batch, by_topic, now)

    @property
    def _room(self) -> int:
        """How many events of a topic may be sent from the first on that has no answer, whatever the others have."""
        return UNDER_WAY_MAX if self.bundles else ALONE_MAX

    def _most(self, to: str, first: Publication) -> int:
        """How many events may travel together at most, if all are like this one, which may."""
        if not self.bundles or self.control is None:
            return 1
        room = NODE_MAX - self.outgoing.at.get(to, 0)
        return min(EVENTS_MAX, room, 1 + BYTES_MAX // (len(first.body) + EVENT_BYTES))

    def _how_many_go(self, to: str, batch: list[Publication], by_topic: dict[str, list[Publication]]) -> int:
        """How many of these events may travel together, from the first on, which may."""
        span, stays = self.outgoing.span, batch[-1].n + 1  # the first event that may not
        for topic, events in by_topic.items():
            room = self._room - span(topic)
            if room < len(events):
                stays = min(stays, events[room].n)
        if len(by_topic) > BUNDLE_TOPICS_MAX:
            stays = min(stays, list(by_topic.values())[BUNDLE_TOPICS_MAX][0].n)
        if self.causal and len(by_topic) > 1:
            lane = self.lane(batch[0].topic)
            other = (p.n for p in batch if self.lane(p.topic) != lane or self._ready(p) != to)
            stays = min(stays, next(other, stays))
        sizes = [len(publication.body) for publication in batch]
        if sum(sizes) > BYTES_MAX - EVENT_BYTES * len(batch) and len(batch) > 1:
            reached = [size + EVENT_BYTES * i for i, size in enumerate(accumulate(sizes), 1)]
            stays = min(stays, batch[max(1, bisect_right(reached, BYTES_MAX))].n)
        return bisect_left(batch, stays, key=attrgetter("n"))

    def _ready(self, publication: Publication) -> str | None:
        """Where an event may be sent now; None: nowhere."""
        topic, control, outgoing = publication.topic, self.control, self.outgoing
        if outgoing.span(topic) >= self._room:
            return None
        if self.causal and not self.may_send(publication):
            return None
        if control is None:
            return "" if outgoing.count < NODE_MAX else None
        if topic not in control.plan.parent:
            self._estrange(topic)  # it stays where it is: whatever comes next must follow it
            return None
        to = control.owner[topic]
        if outgoing.at.get(to, 0) >= NODE_MAX:
            return None
        return None if self.bundles and outgoing.busy.get(to, 0) >= SENDS_MAX else to

    def _dispatch(
        self, to: str, batch: list[Publication], by_topic: dict[str, list[Publication]], now: float
    ) -> Effect:
        """Send events, which are out from now on."""
        outgoing = self.outgoing
        if len(batch) == 1:
            return self._dispatch_alone(to, batch[0], now)
        self.serial += 1
        after = {topic: outgoing.newest(topic) for topic in by_topic}
        for topic in by_topic:
            if topic not in outgoing.load:
                self.due[topic] = now + self.resend_s
        outgoing.add(Sent(self.serial, to, batch, by_topic))
        return Send(to, bundle_of(batch, self.serial, outgoing.lowest, after, by_topic))

    def _dispatch_alone(self, to: str, publication: Publication, now: float) -> Effect:
        """Send an event by itself, which is out from now on."""
        topic, outgoing = publication.topic, self.outgoing
        after = outgoing.newest(topic)
        if topic not in outgoing.load:
            self.due[topic] = now + self.resend_s
        outgoing.add_alone(to, publication)
        return self._create(publication, after, outgoing.lowest)

    def _send_next(self, publication: Publication, now: float) -> Effect | None:
        """Send an event that has nothing in its way; None, and nothing is done, if it has."""
        control, topic = self.control, publication.topic
        if control is None or self.causal or self.strangers or any(map(len, self.queues.values())):
            return None
        if topic not in control.plan.parent:
            return None
        to = self._ready(publication)
        if to is None:
            return None
        self.resend_at = self.resend_at or now + self.resend_s
        return self._dispatch_alone(to, publication, now)

    def _exists(self, topic: str) -> bool:
        """Whether somebody numbers this topic; where there are no nodes, its manager does."""
        # The owners of a record that is being sealed are those to come; its plan is still the one in force.
        return self.control is None or topic in self.control.plan.parent

    def _ask(self, now: float) -> list[Effect]:
        """Ask the leader to make the topics that do not exist."""
        self.has_met = False
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
        met = [topic for topic in self.strangers if self._exists(topic)]
        self._sort([publication for topic in met for publication in self.strangers.pop(topic)])
        self.asks = 0
        return self._send(now) + self._ask(now)

    def _sort(self, more: list[Publication]) -> None:
        """Put everything that waits, and some more, where it belongs now."""
        waiting = sorted((*self.waiting, *more), key=lambda publication: publication.n)
        self.queues.clear()
        self._enqueue(waiting)

    def _refused(self, reason: str, topics: tuple[str, ...], now: float) -> list[Effect]:
        """A topic will not be made: its events will never have a place."""
        effects: list[Effect] = []
        for topic in topics:
            aside = self.strangers.pop(topic, None)
            if aside is None or self._exists(topic):
                continue
            queue = self.queues.get("")
            while self.causal and queue and queue.first.topic == topic:
                aside.append(queue.first)
                queue.leave(1)
            error = QuotaError(f"topic '{topic}' cannot be made: {reason}")
            effects += [Refuse(publication.id, error) for publication in aside]
        return effects + self._send(now)

    def _deleted(self, reason: str, ids: tuple[EventId, ...]) -> list[Effect]:
        """Events came too late for their topics."""
        gone = [id for id in ids if self._is_out(id)]
        for id in gone:
            self.outgoing.drop(id.n)
        return [Refuse(id, DeletedError(f"{reason}; its name is not given again")) for id in gone]

    def _create(self, publication: Publication, after: int, lowest: int) -> Effect:
        topic = publication.topic
        create = Create(publication, lowest, after)
        if self.control is None:
            return Send(manager_address(topic), create)
        return Send(self.control.owner[topic], Routed(topic, create))

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        """A new epoch: what has no answer yet may have died with its node."""
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        self.patience.clear()
        self._sort([])  # owners may have changed
        if control.state != "active":
            return []
        effects = self._resend_moved(control, now)
        return effects + (self._meet_topics(now) if self.strangers else self._send(now))

    def _resend_moved(self, control: Control, now: float) -> list[Effect]:
        """Send again at once what was sent to somebody else than the owner; an owner that stays may still answer."""
        moved = {topic for to, topic in self.outgoing.sent_to() if to != control.owner[topic]}
        for topic in self.outgoing.load.keys() - moved:
            self.due[topic] = now + self.resend_s / PATIENCE_FIRST
        return self._resend(now, moved)

    def _resend_late(self, now: float) -> list[Effect]:
        """Send again what is on topics of which nothing was heard for too long; others may do well."""
        late = {topic for topic in self.outgoing.load if self.due[topic] <= now}
        if late:
            return self._resend(now, late)
        self.resend_at = min((self.due[topic] for topic in self.outgoing.load), default=None)
        return []

    def _resend(self, now: float, topics: Container[str] | None = None) -> list[Effect]:
        """The same events with the same ids: those that have their places are only answered again."""
        newest: dict[str, int] = {}
        effects: list[Effect] = []
        for unit in self.outgoing.again(topics, self._may_go_again):
            if isinstance(unit, Sent):
                effects.append(self._send_again(unit, newest))
            else:
                if self.control is not None:
                    self.outgoing.move(unit, self.control.owner[unit.topic])
                before, newest[unit.topic] = newest.get(unit.topic, 0), unit.n
                effects.append(self._create(unit, before, self.outgoing.lowest))
        for topic in newest:
            patience = self.patience.get(topic, 1)
            self.due[topic] = now + self.resend_s * patience
            self.patience[topic] = min(2 * patience, PATIENCE_MAX)
        self.resend_at = min((self.due[topic] for topic in self.outgoing.load), default=None)
        return effects

    def _may_go_again(self, sent: Sent) -> bool:
        """Whether a bundle can be sent as it was: one node must own all of its topics."""
        control = self.control
        return (
            control is not None
            and self.bundles
            and len({control.owner[topic] for topic in sent.by_topic}) == 1
        )

    def _send_again(self, sent: Sent, newest: dict[str, int]) -> Effect:
        """A bundle as it was, behind what was sent again before it."""
        assert self.control is not None
        to, by_topic = self.control.owner[sent.publications[0].topic], sent.by_topic
        self.outgoing.move(sent, to)
        after = {topic: newest.get(topic, 0) for topic in by_topic}
        newest.update((topic, events[-1].n) for topic, events in by_topic.items())
        return Send(to, bundle_of(sent.publications, sent.serial, self.outgoing.lowest, after, by_topic))

    def _sequenced(self, sequenced: Sequenced, now: float) -> list[Effect]:
        topic = sequenced.topic
        if not self._is_out(sequenced.id):
            return []
        self.outgoing.drop(sequenced.id.n)
        self._answered(topic, sequenced.id.n, now)
        return [Acknowledge(sequenced), *self._send(now)]

    def _bundle_sequenced(self, answer: SequencedBundle, now: float) -> list[Effect]:
        """All of a bundle have their places; some may have been told already, one by one."""
        sent = self.outgoing.sent.get(answer.serial)
        if sent is None or sent.publications[0].incarnation != answer.incarnation:
            return []
        counts = sent.counts
        if not answer.fits(counts):
            return [Reject(FrameError("an answer to another bundle"))]
        self.outgoing.drop_all(answer.serial)
        for topic, events in sent.by_topic.items():
            self._answered(topic, events[-1].n, now)
        index = {topic: i for i, topic in enumerate(answer.clock)}
        groups = group_names(answer.clock, answer.groups, tuple(counts))
        run = Run(answer.epoch, index, list(answer.clock.values()), groups, sent.publications, counts)
        return [AcknowledgeRun(run), *self._send(now)]

    def _answered(self, topic: str, n: int, now: float) -> None:
        """An event has its answer: those that were sent after it are not late yet. One before it may have lost its own."""
        if self.patience:
            self.patience.pop(topic, None)
        if not 0 < self.outgoing.oldest(topic) < n:
            self.due[topic] = now + self.resend_s

    def _is_out(self, id: EventId) -> bool:
        """Whether it is one of ours that has no answer yet; answers to a former life may still come."""
        publication = self.outgoing.find(id.n)
        return publication is not None and (publication.publisher, publication.incarnation) == id[:2]

    def _completed(self, completed: Completed, now: float) -> list[Effect]:
        if not self._is_out(completed.id):
            return []
        publication = self.outgoing.drop(completed.id.n)
        assert publication is not None
        stamped = Stamped(publication, completed.epoch, completed.entries)
        sequenced = Sequenced(completed.topic, completed.id, completed.epoch, completed.entries)
        return [Announce((completed.topic,), stamped), Acknowledge(sequenced), *self._send(now)]

    def check(self) -> None:
        """What is out is counted; each queue is in order, and so is what follows it of a topic."""
        self.outgoing.check()
        for queue in self.queues.values():
            newest: dict[str, int] = {}
            for publication in (*self.outgoing, *queue):
                assert newest.get(publication.topic, 0) < publication.n
                newest[publication.topic] = publication.n

    def copy(self) -> Publisher:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.outgoing = self.outgoing.copy()
        twin.due, twin.patience = dict(self.due), dict(self.patience)
        twin.queues = {to: queue.copy() for to, queue in self.queues.items()}
        twin.strangers = {topic: list(aside) for topic, aside in self.strangers.items()}
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two publishers would behave alike from now on."""
        version = None if self.control is None else self.control.version
        return (
            tuple((to, tuple(p.n for p in queue)) for to, queue in sorted(self.queues.items()) if queue),
            version,
            self.resend_at,
            tuple((topic, self.due.get(topic), self.patience.get(topic)) for topic in self.outgoing.load),
            self.outgoing.state(),
            tuple((topic, len(aside)) for topic, aside in self.strangers.items()),
            (self.ask_at, self.asks),
        )
