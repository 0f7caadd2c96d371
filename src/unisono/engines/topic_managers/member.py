"""A subscriber whose topics change: joins, leaves, and the epochs in between.

A join climbs the plan from the lowest topic the subscriber holds to the highest, takes no number, and comes back
with how far each topic is. Its registration names everything the subscriber has held in this epoch, also what it
has left: two subscriptions that never overlapped in time must still be told one order. One join is under way at
a time; what is wanted meanwhile waits. Leaving tells nobody: the next epoch starts from what is held then.

Where the topics do not lie on one path of the plan the subscriber asks for an epoch that puts them there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from unisono.engines.effects import Admit, Effect, Ignore, Listen, Send
from unisono.engines.inputs import Change, Controlled, Input, Lost, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.addresses import topic_of
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.frames import Join, Joined, Nack, Registration, Replan, Report, Routed

TRIES_APART_MAX = 16  # repeated joins come further and further apart, up to so many times join_s


class Member:
    """One subscription that may change: a `MovingSubscriber`, and what it tells the nodes."""

    def __init__(
        self,
        name: str,
        settings: SubscriberSettings,
        *,
        weight: int = 1,
        join_s: float = 0.5,
        report_s: float = 3.0,
    ) -> None:
        self.name = name
        self.weight = weight
        self.join_s = join_s  # how long a join may take before it is sent again
        self.report_s = report_s
        self.inner = MovingSubscriber(name, settings)
        self.control: Control | None = None
        self.topics: frozenset[str] = frozenset()  # wanted now
        self.held: frozenset[str] = frozenset()  # held at any time in this epoch
        self.version = 0
        self.new: frozenset[str] = frozenset()  # being joined
        self.later: deque[tuple[str, ...]] = deque()  # joins that wait for the one under way
        self.retry_at: float | None = None
        self.tries = 0
        self.report_at: float | None = None
        self.entered = 0  # the epoch that `held` speaks of

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Change(add, remove):
                effects = self._leave(remove, now) + self._want(add, now)
            case Received(_, Joined() as joined):
                effects = self._joined(joined, now)
            case Controlled(control):
                effects = self._controlled(control, now)
            case Lost():
                effects = self._send_join(now) if self.new else []
            case Tick():
                effects = self._tick(now)
            case _:
                effects = self._inner(input, now)
        return self._enter(effects)

    def next_timer(self) -> float | None:
        """When a join or a report is to be sent again, or the subscriber wants to be called."""
        times = (self.inner.next_timer(), self.retry_at, self.report_at)
        return min((time for time in times if time is not None), default=None)

    def _tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        due = self.inner.next_timer()
        if due is not None and due <= now:
            effects += self._inner(Tick(), now)
        if self.retry_at is not None and self.retry_at <= now:
            effects += self._send_join(now)
        if self.report_at is not None and self.report_at <= now:
            effects += self._report(now)
        return effects

    # Joining and leaving.

    def _want(self, topics: tuple[str, ...], now: float) -> list[Effect]:
        fresh = tuple(sorted(set(topics) - self.topics))
        if not fresh:
            return []
        self.topics |= set(fresh)
        self.later.append(fresh)
        return self._join_next(now)

    def _join_next(self, now: float) -> list[Effect]:
        """Start the next join, unless one is under way."""
        if self.new:
            return []
        while self.later:
            # Some may have been left meanwhile, others left and wanted again before it was their turn.
            fresh = (frozenset(self.later.popleft()) & self.topics).difference(self.inner.clock)
            if not fresh:
                continue
            self.new = fresh
            self.version += 1
            self.tries = 0
            self.held |= fresh
            self.inner.begin_join(sorted(fresh))
            return [Listen(tuple(sorted(fresh))), *self._send_join(now)]
        return []

    def _send_join(self, now: float) -> list[Effect]:
        self.retry_at = now + self.join_s * min(2**self.tries, TRIES_APART_MAX)
        self.tries += 1
        control = self.control
        if control is None or control.state == "sealing" or not self.new:
            return []  # nobody could answer now
        path = control.join_path(self.held)
        if path is None:
            wants = tuple(sorted(self.held))
            return [Send(control.leader, Replan(control.epoch, wants))]
        new = tuple(sorted(self.new))
        join = Join(self.registration(self.held), new, control.epoch, {}, path[1:])
        return [Send(control.owner[path[0]], Routed(path[0], join))]

    def registration(self, topics: frozenset[str]) -> Registration:
        """What the nodes are to know."""
        return Registration(self.name, self.version, tuple(sorted(topics)), self.weight)

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        if not self.new or joined.version != self.version:
            return []  # of a join that was given up
        floors = {topic: joined.reached[topic] for topic in sorted(self.new)}
        self.new = frozenset()
        self.retry_at = None
        if self.report_at is None:
            self.report_at = now + self.report_s
        effects: list[Effect] = [Admit(floors)]
        effects += self._reroute(self.inner.end_join(floors, joined.epoch, now))
        return effects + self._join_next(now)

    def _leave(self, topics: tuple[str, ...], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for topic in sorted(set(topics) & self.topics):
            self.topics -= {topic}
            if topic in self.new:
                self.new -= {topic}
                effects += self._reroute(self.inner.cancel_join(topic))
                effects.append(Ignore((topic,)))
            elif topic in self.inner.clock:
                effects += self._reroute(self.inner.dismiss(topic))
                effects.append(Ignore((topic,)))
        if self.new:
            return effects
        self.retry_at = None
        return effects + self._join_next(now)

    def _report(self, now: float) -> list[Effect]:
        self.report_at = now + self.report_s
        if self.control is None:
            return []
        return [Send(self.control.leader, Report(self.registration(self.topics | self.new)))]

    # Epochs.

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        if control.state == "sealing":
            return []  # nobody could answer now
        self.tries = 0
        return self._send_join(now) if self.new else self._join_next(now)

    def _enter(self, effects: list[Effect]) -> list[Effect]:
        """In a new epoch only what is held now has been held."""
        if self.inner.epoch > self.entered:
            self.entered = self.inner.epoch
            self.held = frozenset(self.inner.clock) | self.new
        return effects

    # The subscriber inside.

    def _inner(self, input: Input, now: float) -> list[Effect]:
        return self._reroute(self.inner.handle(input, now))

    def _reroute(self, effects: list[Effect]) -> list[Effect]:
        """Managers are reached through the nodes that own them."""
        return [routed for effect in effects if (routed := self._route(effect)) is not None]

    def _route(self, effect: Effect) -> Effect | None:
        if not isinstance(effect, Send) or not isinstance(effect.message, Nack):
            return effect
        topic = topic_of(effect.to)
        if topic is None or self.control is None:
            return None
        return Send(self.control.owner[topic], Routed(topic, effect.message))

    # For the explorer and the simulator.

    def check(self) -> None:
        """What is joined is wanted; what is delivered has been registered."""
        assert self.new <= self.topics
        assert self.inner.clock.keys() <= self.held
        assert self.inner.joining.keys() == self.new
        self.inner.check()

    def copy(self) -> Member:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.inner = self.inner.copy()
        twin.later = self.later.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (
            None if self.control is None else self.control.version,
            self.version,
            tuple(sorted(self.topics)),
            tuple(sorted(self.held)),
            tuple(sorted(self.new)),
            tuple(self.later),
            (self.retry_at, self.tries, self.report_at, self.entered),
            self.inner.state(),
        )
