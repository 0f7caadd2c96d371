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

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable
from itertools import islice
from typing import NamedTuple

from unisono.engines.effects import Acknowledge, AcknowledgeRun, Announce, Effect, Refuse, Reject, Send
from unisono.engines.inputs import Controlled, Input, Lost, Publish, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.addresses import manager_address
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
    count_topics,
)
from unisono.model.ids import EventId
from unisono.model.runs import bundle_of

PATIENCE_MAX = 16
PATIENCE_FIRST = 4  # a part of the usual, in a new epoch
TOPICS_MAX = 1000  # topics asked for at once
UNDER_WAY_MAX = 512  # events of a topic without an answer; nodes remember more than that of each publisher
TOTAL_MAX = 4096  # events without an answer
SENDS_MAX = 4  # bundles and single events without an answer, of one node


def own_lane(topic: str) -> str:
    """Each topic is a lane of its own: only events of one topic cannot overtake each other."""
    return topic


class Sent(NamedTuple):
    """What was sent to a node at once."""

    to: str
    publications: list[Publication]


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
        self.outgoing: dict[int, Publication] = {}  # sent, no answer yet
        self.load: dict[str, int] = {}  # topic -> how many of them
        self.serial = 0
        self.sent: dict[int, Sent] = {}  # serial -> what was sent at once, while some of it has no answer
        self.serials: dict[int, int] = {}  # n -> with what it was sent
        self.left: dict[int, int] = {}  # serial -> how many of it have no answer
        self.busy: dict[str, int] = {}  # node -> how often something was sent that has no answer
        # What waits for its turn, by node: one that does not answer holds up no other. What is causal has one queue.
        self.queues: dict[str, deque[Publication]] = {}
        self.strangers: dict[str, list[Publication]] = {}  # events on topics that do not exist yet
        self.has_met = False  # one that has not been asked for
        self.ask_at: float | None = None  # when to ask for those topics again
        self.asks = 0
        self.newest: dict[str, int] = {}  # topic -> the last event sent

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Publish(publications):
                self._enqueue(publications)
                return self._send(now)
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
            case Received(_, Sequenced() as sequenced):
                return self._sequenced(sequenced, now)
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
        if not self.causal or not self.outgoing:
            return True
        lane = self.lane(publication.topic)
        return all(self.lane(p.topic) == lane for p in self.outgoing.values())

    @property
    def waiting(self) -> list[Publication]:
        """What has not been sent, in its order."""
        return sorted((p for queue in self.queues.values() for p in queue), key=lambda p: p.n)

    def _enqueue(self, publications: Iterable[Publication]) -> None:
        """Put events where they wait for their turn, or for their topics."""
        control, queues = self.control, self.queues
        if self.causal or control is None:
            queues.setdefault("", deque()).extend(publications)
            return
        existing, owner, strangers = control.plan.parent, control.owner, self.strangers
        for publication in publications:
            topic = publication.topic
            if topic in strangers or topic not in existing:
                self._estrange(topic).append(publication)
                continue
            try:
                queues[owner[topic]].append(publication)
            except KeyError:
                queues[owner[topic]] = deque((publication,))

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
            while queue and (batch := self._next_batch(queue, now)):
                effects.append(self._dispatch(batch))
        if self.control is not None:
            self.resend_at = (self.resend_at or now + self.resend_s) if self.outgoing else None
        return effects + self._ask(now) if self.has_met else effects

    def _next_batch(self, queue: deque[Publication], now: float) -> list[Publication]:
        """As many events as may travel together now."""
        if (to := self._ready(queue[0])) is None:
            return []
        batch: list[Publication] = []
        load, outgoing, topics, size = self.load, self.outgoing, set[str](), 0
        most = EVENTS_MAX if self.bundles and self.control is not None else 1
        if most > 1 < len(queue) and not self.causal and (many := self._many(queue, most, now)):
            return many
        while queue and len(batch) < most and len(outgoing) < TOTAL_MAX:
            publication = queue[0]
            topic = publication.topic
            size += len(publication.body) + EVENT_BYTES
            if load.get(topic, 0) >= UNDER_WAY_MAX or (batch and size > BYTES_MAX):
                break
            if self.causal and batch and self._ready(publication) != to:
                break
            if topic not in topics:
                if len(topics) == BUNDLE_TOPICS_MAX:
                    break
                topics.add(topic)
                if topic not in load:
                    self.due[topic] = now + self.resend_s
            load[topic] = load.get(topic, 0) + 1
            outgoing[publication.n] = publication
            batch.append(queue.popleft())
        return batch

    def _many(self, queue: deque[Publication], most: int, now: float) -> list[Publication]:
        """As many events as there are, if all of them may travel together; else none."""
        batch = list(islice(queue, max(0, min(most, TOTAL_MAX - len(self.outgoing)))))
        load, counts = self.load, count_topics(batch)
        size = sum([len(publication.body) for publication in batch]) + EVENT_BYTES * len(batch)
        if size > BYTES_MAX or len(counts) > BUNDLE_TOPICS_MAX:
            return []
        if any(load.get(topic, 0) + count > UNDER_WAY_MAX for topic, count in counts.items()):
            return []
        for topic, count in counts.items():
            if topic not in load:
                self.due[topic] = now + self.resend_s
            load[topic] = load.get(topic, 0) + count
        self.outgoing.update({publication.n: publication for publication in batch})
        for _ in batch:
            queue.popleft()
        return batch

    def _ready(self, publication: Publication) -> str | None:
        """Where an event may be sent now; None: nowhere."""
        topic, control = publication.topic, self.control
        if self.causal and not self.may_send(publication):
            return None
        if control is None:
            return ""
        if topic not in control.plan.parent:
            self._estrange(topic)  # it stays where it is: whatever comes next must follow it
            return None
        to = control.owner[topic]
        return None if self.bundles and self.busy.get(to, 0) >= SENDS_MAX else to

    def _dispatch(self, batch: list[Publication]) -> Effect:
        """Send events that are out from now on."""
        control, self.serial = self.control, self.serial + 1
        to = "" if control is None else control.owner[batch[0].topic]
        self.sent[self.serial], self.left[self.serial] = Sent(to, batch), len(batch)
        self.busy[to] = self.busy.get(to, 0) + 1
        if len(batch) == 1:
            self.serials[batch[0].n] = self.serial
            return self._create(batch[0], self.newest, min(self.outgoing))
        self.serials.update(dict.fromkeys([publication.n for publication in batch], self.serial))
        topics = dict.fromkeys([publication.topic for publication in batch])
        after = {topic: self._before(topic, self.newest) for topic in topics}
        bundle = bundle_of(batch, self.serial, min(self.outgoing), after)
        for part in bundle.parts:
            self.newest[part.topic] = part.ns[-1]
        return Send(to, bundle)

    def _before(self, topic: str, newest: dict[str, int]) -> int:
        """The event of a topic before the next one, if it has no answer yet."""
        before = newest.get(topic, 0)
        return before if before in self.outgoing else 0

    def _drop(self, n: int) -> Publication:
        """An event is not out any more."""
        publication = self.outgoing.pop(n)
        self.load[publication.topic] -= 1
        if not self.load[publication.topic]:
            del self.load[publication.topic]
        serial = self.serials.pop(n)
        self.left[serial] -= 1
        if not self.left[serial]:
            self._settle(serial)
        return publication

    def _drop_all(self, serial: int, publications: list[Publication]) -> None:
        """None of what was sent at once is out any more."""
        outgoing, serials, load = self.outgoing, self.serials, self.load
        for publication in publications:
            if outgoing.pop(publication.n, None) is not None:
                del serials[publication.n]
                load[publication.topic] -= 1
        for topic in [topic for topic, count in load.items() if not count]:
            del load[topic]
        self._settle(serial)

    def _settle(self, serial: int) -> None:
        """All that was sent at once has been answered."""
        del self.left[serial]
        to = self.sent.pop(serial).to
        self.busy[to] -= 1
        if not self.busy[to]:
            del self.busy[to]

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
            while self.causal and queue and queue[0].topic == topic:
                aside.append(queue.popleft())
            error = QuotaError(f"topic '{topic}' cannot be made: {reason}")
            effects += [Refuse(publication.id, error) for publication in aside]
        return effects + self._send(now)

    def _deleted(self, reason: str, ids: tuple[EventId, ...]) -> list[Effect]:
        """Events came too late for their topics."""
        gone = [id for id in ids if self._is_out(id)]
        for id in gone:
            self._drop(id.n)
        return [Refuse(id, DeletedError(f"{reason}; its name is not given again")) for id in gone]

    def _create(self, publication: Publication, newest: dict[str, int], lowest: int) -> Effect:
        topic = publication.topic
        create = Create(publication, lowest, self._before(topic, newest))
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
        self._sort([])  # owners may have changed
        if control.state != "active":
            return []
        effects = self._resend_moved(control, now)
        return effects + (self._meet_topics(now) if self.strangers else self._send(now))

    def _resend_moved(self, control: Control, now: float) -> list[Effect]:
        """Send again at once what was sent to somebody else than the owner; an owner that stays may still answer."""
        topics = [(self.sent[self.serials[n]].to, p.topic) for n, p in self.outgoing.items()]
        moved = {topic for to, topic in topics if to != control.owner[topic]}
        for topic in self.load.keys() - moved:
            self.due[topic] = now + self.resend_s / PATIENCE_FIRST
        return self._resend(now, moved)

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
        lowest = min(self.outgoing, default=0)
        return [self._create(publication, newest, lowest) for publication in again]

    def _sequenced(self, sequenced: Sequenced, now: float) -> list[Effect]:
        if not self._is_out(sequenced.id):
            return []
        self._drop(sequenced.id.n)
        self._answered(sequenced.topic)
        self.patience.pop(sequenced.topic, None)
        self.due[sequenced.topic] = now + self.resend_s
        return [Acknowledge(sequenced), *self._send(now)]

    def _bundle_sequenced(self, answer: SequencedBundle, now: float) -> list[Effect]:
        """All of a bundle have their places; some may have been told already, one by one."""
        sent = self.sent.get(answer.serial)
        if sent is None or sent.publications[0].incarnation != answer.incarnation:
            return []
        counts = count_topics(sent.publications)
        if not counts.keys() <= answer.clock.keys() or len(answer.groups) not in (0, len(counts)):
            return [Reject(FrameError("an answer to another bundle"))]
        self._drop_all(answer.serial, sent.publications)
        for topic in counts:
            self._answered(topic)
            self.patience.pop(topic, None)
            self.due[topic] = now + self.resend_s
        index = {topic: i for i, topic in enumerate(answer.clock)}
        groups = group_names(answer.clock, answer.groups, tuple(counts))
        run = Run(answer.epoch, index, list(answer.clock.values()), groups, sent.publications, counts)
        return [AcknowledgeRun(run), *self._send(now)]

    def _answered(self, topic: str) -> None:
        """A repeated key is answered before what was sent before it: what comes next follows that."""
        if self.load.get(topic) and self.newest.get(topic) not in self.outgoing:
            self.newest[topic] = max((p.n for p in self.outgoing.values() if p.topic == topic), default=0)

    def _is_out(self, id: EventId) -> bool:
        """Whether it is one of ours that has no answer yet; answers to a former life may still come."""
        publication = self.outgoing.get(id.n)
        return publication is not None and publication.id == id

    def _completed(self, completed: Completed, now: float) -> list[Effect]:
        if not self._is_out(completed.id):
            return []
        publication = self._drop(completed.id.n)
        stamped = Stamped(publication, completed.epoch, completed.entries)
        sequenced = Sequenced(completed.topic, completed.id, completed.epoch, completed.entries)
        return [Announce((completed.topic,), stamped), Acknowledge(sequenced), *self._send(now)]

    def check(self) -> None:
        """What is out is counted; each queue is in order, and so is what follows it of a topic."""
        assert sum(self.load.values()) == len(self.outgoing) == len(self.serials) == sum(self.left.values())
        for queue in self.queues.values():
            newest: dict[str, int] = {}
            for publication in (*self.outgoing.values(), *queue):
                assert newest.get(publication.topic, 0) < publication.n
                newest[publication.topic] = publication.n

    def copy(self) -> Publisher:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.outgoing, twin.newest, twin.load = dict(self.outgoing), dict(self.newest), dict(self.load)
        twin.sent, twin.serials, twin.left = dict(self.sent), dict(self.serials), dict(self.left)
        twin.due, twin.patience, twin.busy = dict(self.due), dict(self.patience), dict(self.busy)
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
            tuple((p.n, self.due.get(p.topic), self.patience.get(p.topic)) for p in self.outgoing.values()),
            tuple(self.serials.items()),
            tuple((topic, len(aside)) for topic, aside in self.strangers.items()),
            (self.ask_at, self.asks),
        )
