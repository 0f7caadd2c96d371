"""A subscriber whose topics change: joins, leaves, and the epochs in between.

A join climbs the plan from the lowest topic the subscriber holds to the highest, takes no number, and comes back
with how far each topic is. Its registration names everything the subscriber has held in this epoch, also what it
has left: two subscriptions that never overlapped in time must still be told one order. One join is under way at
a time; what is wanted meanwhile waits. Leaving tells nobody: the next epoch starts from what is held then.

Where the topics do not lie on one path of the plan, or do not exist, the subscriber asks for an epoch that puts
them there. A pattern always takes an epoch: with it the subscriber is registered for every topic the pattern stands
for, now and whenever one is made, before a number of it is taken. Who holds a pattern keeps asking for the notices
of epochs that the control record tells of: a new topic begins with one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from unisono.engines.effects import Admit, Confirm, Effect, Fail, Ignore, Listen, Send
from unisono.engines.inputs import Change, Controlled, Input, Lost, Notified, Received, Tick
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import split
from unisono.engines.topic_managers.addresses import topic_of
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.recalling import Recalling, Start
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.bundles import StampedBundle
from unisono.model.errors import LeaseError, QuotaError
from unisono.model.frames import (
    Heartbeat,
    Join,
    Joined,
    Nack,
    Recalled,
    Refused,
    Registration,
    Repair,
    Replan,
    Report,
    Routed,
    Stamped,
)

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
        start: Start | None = None,
    ) -> None:
        """`start`: begin in the past, with what is wanted first."""
        self.name = name
        self.weight = weight
        self.join_s = join_s  # how long a join may take before it is sent again
        self.report_s = report_s
        self.inner = MovingSubscriber(name, settings)
        self.control: Control | None = None
        self.active: int = -1  # the newest epoch that we know to have begun
        self.topics: frozenset[str] = frozenset()  # wanted now
        self.held: frozenset[str] = frozenset()  # held at any time in this epoch
        self.version = 0
        self.new: frozenset[str] = frozenset()  # being joined
        self.later: deque[tuple[str, ...]] = deque()  # joins that wait for the one under way
        self.retry_at: float | None = None
        self.tries = 0
        self.report_at: float | None = None
        self.entered = 0  # the epoch that `held` speaks of
        self.patterns: dict[str, int] = {}  # wanted now, and at which version that was said
        self.ask_at: float | None = None  # when to ask again for patterns to be counted
        self.asks = 0
        self.notice_at: float | None = None  # when to ask again for a notice
        self.notices = 0
        self.recalling = None if start is None else Recalling(name, start, join_s)  # until the past is told
        self.told: frozenset[str] = frozenset()  # topics that are owed from somewhere in the past on

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.inner.failed:
            return []
        if type(input) is Notified and self.recalling is None:  # first: this is what comes all the time
            return self._enter(self._inner(input, now), now)
        match input:
            case Change(add, remove):
                effects = self._change(split(add), split(remove), now)
            case Received(_, Joined() as joined):
                effects = self._joined(joined, now)
            case Received(_, Refused(reason)):
                effects = self._refuse(reason)
            case Controlled(control):
                effects = self._controlled(control, now)
            case Received(_, Recalled() as answer):
                effects = self._recalled(answer, now)
            case Notified((Stamped() | StampedBundle() | Heartbeat()) as note) if self.recalling is not None:
                self.recalling.note(note)
                effects = []
            case Received(source, Repair(topic, _, _, _, epochs)) if self.recalling is not None:
                effects = self._inner(Received(source, Repair(topic, (), (), 0, epochs)), now)
            case Lost():
                effects = (self._send_join(now) if self.new else []) + self._ask(now)
            case Tick():
                effects = self._tick(now)
            case _:
                effects = self._inner(input, now)
        return self._enter(effects, now)

    def hand_over(self, event: Stamped) -> bool:
        """Take an event that only has to be delivered, without effects; False, and nothing happens, if there is more."""
        return self.recalling is None and not self.patterns and self.inner.hand_over(event)

    def next_timer(self) -> float | None:
        """When something is to be sent again, or the subscriber wants to be called."""
        if self.inner.failed:
            return None
        past = None if self.recalling is None else self.recalling.ask_at
        soonest = self.inner.next_timer()
        for time in (self.retry_at, self.report_at, self.ask_at, self.notice_at, past):
            if time is not None and (soonest is None or time < soonest):
                soonest = time
        return soonest

    def _tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        due = self.inner.next_timer()
        if due is not None and due <= now:
            effects += self._inner(Tick(), now)
        if self.retry_at is not None and self.retry_at <= now:
            effects += self._send_join(now)
        if self.report_at is not None and self.report_at <= now:
            effects += self._report(now)
        if self.ask_at is not None and self.ask_at <= now:
            effects += self._ask(now)
        if self.notice_at is not None and self.notice_at <= now:
            effects += self._ask_for_notices(now)
        past = self.recalling
        if past is not None and past.ask_at is not None and past.ask_at <= now:
            effects += self._recall(now)
        return effects

    # Joining and leaving.

    def _change(
        self,
        add: tuple[tuple[str, ...], tuple[str, ...]],
        remove: tuple[tuple[str, ...], tuple[str, ...]],
        now: float,
    ) -> list[Effect]:
        effects: list[Effect] = []
        if self.recalling is not None and not self.patterns:
            return self._hope((*add[0], *add[1]), now)  # it counts from the beginning of an epoch on
        if remove[1]:
            effects += self._drop(remove[1], now)
        effects += self._leave(remove[0], now)
        if add[1]:
            effects += self._hope(add[1], now)
        return effects + self._want(add[0], now)

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
            fresh = frozenset(topic for topic in fresh if not self.inner.covers(topic))
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
        held = self.held | control.matched(self.name)  # what we are registered for by patterns counts as held
        path = control.join_path(held)
        if path is None:
            return [Send(control.leader, Replan(control.epoch, tuple(sorted(held))))]
        new = tuple(sorted(self.new))
        join = Join(self.registration(held), new, control.epoch, {}, path[1:])
        return [Send(control.owner[path[0]], Routed(path[0], join))]

    def registration(self, topics: frozenset[str]) -> Registration:
        """What the nodes are to know."""
        return Registration(self.name, self.version, tuple(sorted(topics)), self.weight)

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        if not self.new or joined.version != self.version or not self.new <= joined.reached.keys():
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
            elif topic in self.inner.clock and not self.inner.covers(topic):
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
        held = self.topics | self.new | self.inner.clock.keys()
        return [Send(self.control.leader, Report(self.registration(held), tuple(sorted(self.patterns))))]

    def _refuse(self, reason: str) -> list[Effect]:
        if self.inner.failed:
            return []
        self.inner.failed = True
        return [Fail(QuotaError(f"subscription '{self.name}': {reason}"))]

    # The past.

    def _recall(self, now: float) -> list[Effect]:
        """Ask for more of the past, unless that would be too much."""
        assert self.recalling is not None
        if self.has_enough():
            self.recalling.pause(now)
            return []
        return self.recalling.ask(self.control, now)

    def has_enough(self) -> bool:
        """Whether the application should not be told more for the moment."""
        return False

    def _recalled(self, answer: Recalled, now: float) -> list[Effect]:
        recalling = self.recalling
        if recalling is None or answer.asked != (recalling.epoch, recalling.index):
            return []
        effects = recalling.take(answer)
        if any(isinstance(effect, Fail) for effect in effects):
            self.inner.failed = True
            return effects
        if not recalling.is_done:
            return effects + self._recall(now)
        self.recalling = None
        for note in recalling.noted():
            effects += self._inner(Notified(note), now)
        return effects

    # Patterns.

    def _hope(self, patterns: tuple[str, ...], now: float) -> list[Effect]:
        """Want more patterns; they count when an epoch says so."""
        fresh = tuple(sorted(set(patterns) - self.patterns.keys()))
        if not fresh:
            return []
        self.version += 1
        self.patterns |= dict.fromkeys(fresh, self.version)
        self.asks = 0
        self.report_at = now + self.report_s if self.report_at is None else self.report_at
        resent = self._send_join(now) if self.new else []  # under the new version
        return [Listen(fresh), *self._ask(now), *resent]

    def _ask(self, now: float) -> list[Effect]:
        """Ask the leader to count our patterns, if some do not yet."""
        self._set_gate()
        if not self.inner.hoped or self.inner.failed:
            self.ask_at = None
            return []
        self.ask_at = now + self.join_s * min(2**self.asks, TRIES_APART_MAX)
        self.asks += 1
        control = self.control
        if control is None or control.state == "sealing":
            return []
        held = Registration(self.name, self.version, tuple(sorted(self.patterns)), self.weight)
        return [Send(control.leader, Replan(control.epoch, patterns=held))]

    def _set_gate(self) -> None:
        hoped = [pattern for pattern in self.patterns if pattern not in self.inner.patterns]
        self.inner.hope(hoped, self.active)

    def _drop(self, patterns: tuple[str, ...], now: float) -> list[Effect]:
        """Want fewer patterns; what is wanted by name, or by another pattern, stays."""
        gone = [pattern for pattern in sorted(set(patterns)) if pattern in self.patterns]
        for pattern in gone:
            del self.patterns[pattern]
            self.inner.drop(pattern)
        if not gone:
            return []
        effects: list[Effect] = [Listen(named)] if (named := tuple(sorted(self.topics))) else []
        left = [t for t in sorted(self.inner.clock) if t not in self.topics and not self.inner.covers(t)]
        for topic in left:
            effects += self._reroute(self.inner.dismiss(topic))
        self._set_gate()
        effects.append(Ignore((*gone, *left)))
        lost = tuple(sorted(self.topics - self.inner.clock.keys() - self.new))
        self.later.extend([lost] if lost else [])
        return effects + self._reroute(self.inner.settle(now)) + self._join_next(now)

    def _count(self, control: Control, now: float) -> list[Effect]:
        """See which patterns count in the epoch of an active control record."""
        held = control.patterns.get(self.name)
        if held is None and self.inner.patterns and control.epoch > max(self.inner.patterns.values()):
            self.inner.failed = True
            return [Fail(LeaseError(self.name, control.epoch))]
        counted = () if held is None else held.topics
        fresh = tuple(
            pattern
            for pattern in counted
            if pattern in self.inner.hoped and held is not None and self.patterns[pattern] <= held.version
        )
        if self.inner.epoch >= control.epoch:
            return []
        for pattern in fresh:
            self.inner.count(pattern, control.epoch)
        self.new = frozenset(self.inner.joining)
        self.retry_at = self.retry_at if self.new else None
        if fresh and self.recalling is not None and self.recalling.until is None:
            self.recalling.counts(tuple(sorted(self.patterns)), control)
            self.told = self.recalling.topics
            return [Confirm(fresh), *self._recall(now)]
        return [Confirm(fresh)] if fresh else []

    def _ask_for_notices(self, now: float) -> list[Effect]:
        """Ask how epochs began that we have only heard of: topics may have begun with them."""
        inner, control = self.inner, self.control
        if not inner.patterns or inner.failed or not inner.epochs.lacks(inner.epoch):
            self.notice_at, self.notices = None, 0
            return []
        self.notice_at = now + self.join_s * min(2**self.notices, TRIES_APART_MAX)
        self.notices += 1
        if control is None or control.state == "sealing" or not control.plan.rank:
            return []
        rank = control.plan.rank
        topic = next((t for t in rank if t in inner.clock or inner.covers(t)), rank[0])
        nack = Nack(topic, self.name, (), inner.epochs.newest(inner.epoch))
        return [Send(control.owner[topic], Routed(topic, nack))]

    # Epochs.

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        if control.state == "sealing":
            return []  # nobody could answer now
        self.tries = self.asks = self.notices = 0
        self.active = control.epoch
        effects: list[Effect] = []
        if self.patterns:
            effects += self._count(control, now)
            if self.inner.failed:
                return effects
            self.inner.epochs.hear_of(control.epoch)
            effects += self._ask(now)
            effects += self._reroute(self.inner.settle(now))
        return effects + (self._send_join(now) if self.new else self._join_next(now))

    def _enter(self, effects: list[Effect], now: float) -> list[Effect]:
        """In a new epoch only what is held now has been held."""
        if self.inner.epoch > self.entered:
            self.entered = self.inner.epoch
            self.held = frozenset(self.inner.clock) | self.new
        if self.patterns:
            self.held |= (
                self.inner.clock.keys()
            )  # who never waits may be owed a topic before it is in its epoch
        if self.inner.patterns and self.notice_at is None and self.inner.epochs.lacks(self.inner.epoch):
            self.notice_at = now + self.join_s / 4
        return effects

    # The subscriber inside.

    def _inner(self, input: Input, now: float) -> list[Effect]:
        return self._reroute(self.inner.handle(input, now))

    def _reroute(self, effects: list[Effect]) -> list[Effect]:
        """Managers are reached through the nodes that own them."""
        return [routed for effect in effects if (routed := self._route(effect)) is not None]

    def _route(self, effect: Effect) -> Effect | None:
        if isinstance(effect, Admit) and self.told:
            fresh = {topic: floor for topic, floor in effect.floors.items() if topic not in self.told}
            self.told = self.told.difference(effect.floors)
            return Admit(fresh) if fresh else None
        if not isinstance(effect, Send) or not isinstance(effect.message, Nack):
            return effect
        topic = topic_of(effect.to)
        if topic is None or self.control is None:
            return None
        owner = self.control.owner.get(topic)
        return None if owner is None else Send(owner, Routed(topic, effect.message))

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
        twin.patterns = dict(self.patterns)
        twin.recalling = None if self.recalling is None else self.recalling.copy()
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
            (self.retry_at, self.tries, self.report_at, self.entered, self.active),
            (tuple(sorted(self.patterns.items())), self.ask_at, self.asks, self.notice_at, self.notices),
            (None if self.recalling is None else self.recalling.state(), self.told),
            self.inner.state(),
        )
