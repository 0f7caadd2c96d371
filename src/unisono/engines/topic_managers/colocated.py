"""All managers of a node at once, when whole components of topics live on it.

Where every manager on a path is on one node, a chain is a function call and nothing is ever between two
managers. What a manager then knows of a lower-ranked topic is simply that topic's newest number (each event
passed it the moment it was numbered), so one clock serves all and a stamp is a reading of that clock. The
chain of `TopicManager`s run to its end after each request writes the very same stamps: a test compares them.

Many requests become one `Run`, with the clock before it instead of a stamp for each event.

A join is atomic here: the holder is registered and reads the clock between two events. A topic that nobody wants
any more is forgotten after a while. Should it come back it starts above every number that was forgotten, because
events and stamps of its first life may still be under way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from unisono.engines.effects import AcknowledgeRun, Announce, Effect, Fail, Reject, Send
from unisono.engines.inputs import Input, Publish, Received, Tick
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.groups import Groups, Holder
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.errors import FrameError, GapError
from unisono.model.frames import Nack, Run, Stamped, count_topics

IDLE_TOPICS_MIN = 64  # so many topics that nobody wants are not worth tidying up


class ColocatedEmitter(Emitter):
    """An `Emitter` that can let go of a single topic."""

    def drop(self, topic: str) -> None:
        """Keep and tell nothing more of a topic that nobody listens to."""
        self.rings.pop(topic, None)
        self._beats.pop(topic, None)


class ColocatedSubscriber(Subscriber):
    """A `Subscriber` next to its managers: joins are atomic, so topics come and go between two events."""

    def admit(self, topic: str, floor: int) -> None:
        """Owe the events of one more topic, from after `floor` on."""
        super().admit(topic, floor)
        index, layout = self._layout
        if isinstance(index, dict) and topic in index:
            self._layout = (index, [*layout, (topic, index[topic])])
        else:
            self._layout = (None, [])  # it was made for other topics

    def dismiss(self, topic: str) -> list[Effect]:
        """Owe nothing of a topic any more, and let go of what waited for it."""
        self._layout = (None, [])
        self.missing.known.pop(topic, None)
        return super().dismiss(topic)

    def copy(self) -> ColocatedSubscriber:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, ColocatedSubscriber)
        return twin

    def _take(self, event: Stamped, now: float) -> None:
        """What is too far ahead to be held is rejected if it can be asked for again; else it must not vanish."""
        before = len(self._out)
        super()._take(event, now)
        if self.settings.repair or len(self._out) == before or not isinstance(self._out[-1], Reject):
            return
        for x, number in event.entries.items():
            if number > self.reached.get(x, number) + self.far:
                self.failed = True
                why = f"number {number} of '{x}' is over {self.far} ahead of {self.reached[x]}"
                self._out[-1] = Fail(GapError(f"subscription '{self.name}': {why}"))
                return


class ColocatedManagers:
    """The managers of every topic registered here; subscriptions may come, change and go at any time."""

    def __init__(
        self, settings: ManagerSettings = ManagerSettings(), threshold: int = 2, epoch: int = 0
    ) -> None:
        self.settings = settings
        self.epoch = epoch
        self.groups = Groups(threshold)
        self.index: dict[str, int] = {}  # topic -> place in the clock; a new one when topics are forgotten
        self.clock: list[int] = []
        self.floor = 0  # every number of a forgotten topic is at most this
        self.idle: set[str] = set()  # known topics that nobody wants
        self.emitter = ColocatedEmitter(settings, epoch)

    def register(self, topics: frozenset[str], weight: int = 1) -> dict[str, int]:
        """Take in a subscription that never changes; return the clock from which on it is owed events."""
        return self.join(Holder(weight), topics)

    def join(self, holder: Holder, topics: Iterable[str]) -> dict[str, int]:
        """A holder wants some topics more; return the clock from which on it is owed their events."""
        self._tidy()
        topics = sorted(topics)
        for topic in topics:
            self._know(topic)
        self.groups.join(holder, topics)
        self.idle.difference_update(topics)
        return {topic: self.clock[self.index[topic]] for topic in topics}

    def leave(self, holder: Holder, topics: Iterable[str]) -> None:
        """A holder wants some topics no longer; that it had them counts until it goes."""
        self._rest(self.groups.leave(holder, topics))

    def dismiss(self, holder: Holder) -> None:
        """A holder goes."""
        self._rest(self.groups.dismiss(holder))

    def newest(self, topic: str) -> int:
        """The newest number of a topic; of one that is not known, the largest it can ever have had."""
        place = self.index.get(topic)
        return self.floor if place is None else self.clock[place]

    def _know(self, topic: str) -> None:
        """Give a topic its place in the clock, if it has none."""
        if topic not in self.index:
            self.index[topic] = len(self.clock)
            self.clock.append(self.floor)
            self.groups.know(topic)
            self.idle.add(topic)

    def _rest(self, topics: set[str]) -> None:
        """Nobody wants these topics: whoever joins them again will not ask for what was before."""
        self.idle |= topics
        for topic in topics:
            self.emitter.drop(topic)

    def _tidy(self) -> None:
        """Forget idle topics once they are most of all, so that it costs little and bounds what is kept.

        Only at a join: runs that subscribers are being told of keep the index they were made with, but it is
        known as ours only while it is the newest.
        """
        if len(self.idle) <= max(IDLE_TOPICS_MIN, len(self.index) // 2):
            return
        self.floor = max(self.floor, max(self.newest(topic) for topic in self.idle))
        self.groups.forget(self.idle)
        kept = [topic for topic in self.index if topic not in self.idle]
        self.clock = [self.newest(topic) for topic in kept]
        self.index = {topic: place for place, topic in enumerate(kept)}
        self.idle = set()

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Publish():
                return self._sequence(input, now)
            case Received(_, Nack() as nack):
                return [Send(nack.subscriber, self.emitter.repair(nack))]
            case Tick():
                return self.emitter.heartbeats(now)
        return [Reject(FrameError(f"a node's managers cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """When the next heartbeat is due."""
        return self.emitter.next_timer()

    def _sequence(self, publish: Publish, now: float) -> list[Effect]:
        counts = count_topics(publish.publications)
        index, clock = self.index, self.clock
        if not counts.keys() <= index.keys():  # nobody subscribes to it yet; its numbers count all the same
            for topic in counts:
                self._know(topic)
        base = clock.copy()
        for topic, count in counts.items():
            clock[index[topic]] += count
        run = Run(self.epoch, index, base, self.groups.of, publish.publications, counts)
        if self.settings.ring_events:
            self._keep(run, now)
        return [Announce(tuple(counts), run), AcknowledgeRun(run)]

    def _keep(self, run: Run, now: float) -> None:
        reached = dict.fromkeys(run.counts, 0)
        for place, publication in enumerate(run.publications):
            topic = publication.topic
            if topic in self.idle:
                continue  # nobody could ask for it
            reached[topic] += 1
            number = run.base[self.index[topic]] + reached[topic]
            self.emitter.keep_later(topic, number, lambda _, place=place: run.stamped(place), now)  # type: ignore[misc]

    def check(self) -> None:
        """Clocks never go back, every topic has a group, idle topics are wanted by nobody."""
        assert len(self.clock) == len(self.index) == len(self.groups.of)
        assert all(number >= 0 for number in self.clock)
        assert self.idle == {topic for topic in self.index if not self.groups.is_wanted(topic)}
        self.groups.check()

    def copy(self) -> ColocatedManagers:
        """An independent twin, with holders of its own."""
        twin = ColocatedManagers(self.settings, self.groups.threshold, self.epoch)
        twin.groups = self.groups.copy()
        twin.index, twin.clock = dict(self.index), list(self.clock)
        twin.floor, twin.idle = self.floor, set(self.idle)
        twin.emitter = self.emitter.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two nodes would behave alike from now on."""
        return (
            tuple(self.clock),
            self.floor,
            tuple(sorted(self.groups.of.items())),
            self.emitter.state(),
        )
