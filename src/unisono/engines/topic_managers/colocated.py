"""All managers of a node at once, when whole components of topics live on it.

Where every manager on a path is on one node, a chain is a function call and nothing is ever between two
managers. What a manager then knows of a lower-ranked topic is simply that topic's newest number (each event
passed it the moment it was numbered), so one clock serves all and a stamp is a reading of that clock. The
chain of `TopicManager`s run to its end after each request writes the very same stamps: a test compares them.

Many requests become one `Run`, with the clock before it instead of a stamp for each event.
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy

from unisono.engines.effects import AcknowledgeRun, Announce, Effect, Reject, Send
from unisono.engines.inputs import Input, Publish, Received, Tick
from unisono.engines.plan import Overlaps
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.errors import FrameError
from unisono.model.frames import Nack, Run, count_topics


class ColocatedManagers:
    """The managers of every topic registered here; subscriptions may come at any time."""

    def __init__(
        self, settings: ManagerSettings = ManagerSettings(), threshold: int = 2, epoch: int = 0
    ) -> None:
        self.settings = settings
        self.epoch = epoch
        self.overlaps = Overlaps(threshold)
        self.index: dict[str, int] = {}  # topic -> place in the clock
        self.clock: list[int] = []
        self.groups: dict[str, tuple[str, ...]] = {}  # topic -> entries of its stamps; only ever grows
        self.emitter = Emitter(settings, epoch)

    def register(self, topics: frozenset[str], weight: int = 1) -> dict[str, int]:
        """Take in a subscription; return the clock from which on it is owed events."""
        for topic in sorted(topics):
            self._know(topic)
        self.overlaps.add(topics, weight)
        for topic in topics:
            group = set(self.groups[topic]) | self.overlaps.conflicts(topic)
            if len(group) > len(self.groups[topic]):
                self.groups = self.groups | {topic: tuple(sorted(group))}  # earlier runs keep theirs
        return {topic: self.clock[self.index[topic]] for topic in topics}

    def unregister(self, topics: frozenset[str], weight: int = 1) -> None:
        """A subscription has ended; its groups stay as they are."""
        self.overlaps.discard(topics, weight)

    def _know(self, topic: str) -> None:
        """Give a topic its place in the clock, if it has none."""
        if topic not in self.index:
            self.index[topic] = len(self.clock)
            self.clock.append(0)
            self.groups[topic] = (topic,)

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
        run = Run(self.epoch, index, base, self.groups, publish.publications, counts)
        if self.settings.ring_events:
            self._keep(run, now)
        return [Announce(tuple(counts), run), AcknowledgeRun(run)]

    def _keep(self, run: Run, now: float) -> None:
        reached = dict.fromkeys(run.counts, 0)
        for place, publication in enumerate(run.publications):
            topic = publication.topic
            reached[topic] += 1
            number = run.base[self.index[topic]] + reached[topic]
            self.emitter.keep_later(topic, number, lambda place=place: run.stamped(place), now)  # type: ignore[misc]

    def check(self) -> None:
        """Clocks never go back, every group holds its own topic."""
        assert len(self.clock) == len(self.index) == len(self.groups)
        assert all(number >= 0 for number in self.clock)
        assert all(topic in group for topic, group in self.groups.items())

    def copy(self) -> ColocatedManagers:
        """An independent twin."""
        twin = ColocatedManagers(self.settings, self.overlaps.threshold, self.epoch)
        twin.overlaps = deepcopy(self.overlaps)
        twin.index, twin.clock, twin.groups = dict(self.index), list(self.clock), dict(self.groups)
        twin.emitter = self.emitter.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two nodes would behave alike from now on."""
        return (tuple(self.clock), tuple(sorted(self.groups.items())), self.emitter.state())
