"""A subscriber's side: deliver now, hold, tag, drop or give up; and ask for what is missing.

What the network brings may be late, doubled, out of order or lost. What reaches the application:

    wait   exactly the order of the stamps; an event is held until all it follows is here or declared lost
    fail   the same, but the subscription ends (GapError) where `wait` would go on without something
    tag    never waits longer than `buffer` and `max_hold` allow; what comes too late is delivered, tagged
    skip   like tag, but what comes too late is dropped

Untagged deliveries obey total notification order in every mode (rules.is_clean, rules.blocker).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from unisono.engines.effects import Deliver, DeliverRun, Drop, Effect, Fail, Lose, Reject, Send
from unisono.engines.inputs import Input, Notified, Received, Tick
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.holdback import Held, HoldBack
from unisono.engines.topic_managers.missing import Missing
from unisono.engines.topic_managers.passed import Passed
from unisono.engines.topic_managers.rules import blocker, is_clean
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.errors import FrameError, GapError, StampError
from unisono.model.frames import Entries, Heartbeat, Nack, Repair, Run, Stamped


class Subscriber:
    """One subscription: fixed topics, one clock, one policy.

    `floors` gives the topics and the number after which each is owed. `emitter` says who emits a topic;
    `group` which entries a stamp of a topic must have, where that is known.
    """

    def __init__(
        self,
        name: str,
        floors: Mapping[str, int],
        settings: SubscriberSettings = SubscriberSettings(),
        *,
        epoch: int = 0,
        emitter: Callable[[str], str] = manager_address,
        group: Callable[[str], frozenset[str]] | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.epoch = epoch
        self.emitter = emitter
        self.group = group
        self.topics = frozenset(floors)
        self.floors = dict(floors)
        self.clock = dict(floors)  # how far untagged deliveries have told us to be
        self.reached = dict(floors)  # up to where nothing more is to be waited for
        self.held = HoldBack()
        self.exact = settings.on_gap in ("wait", "fail")
        self.far = 2 * settings.hold_max  # beyond what could be held: the bound of holding comes first
        # Exactly delivered topics give nothing up: what is too far ahead is never taken in.
        self.window = self.far if self.exact else settings.late_window
        self.passed = {topic: Passed(floor, self.window) for topic, floor in floors.items()}
        self.missing = Missing(settings)
        self.room = settings.buffer or (settings.hold_max if settings.holds else 0)
        self._blocked: dict[str, dict[str, None]] = {}  # topic -> topics whose next event waits for it
        self._layout: tuple[object, list[tuple[str, int]]] = (None, [])
        self._out: list[Effect] = []
        self.failed = False

    def admit(self, topic: str, floor: int) -> None:
        """Owe the events of one more topic, from after `floor` on."""
        self.topics |= {topic}
        self.floors[topic] = self.clock[topic] = self.reached[topic] = floor
        self.passed[topic] = Passed(floor, self.window)

    def dismiss(self, topic: str) -> list[Effect]:
        """Owe nothing of a topic any more, forget what was held of it, and let go of what waited for it."""
        self._out = []
        self.topics -= {topic}
        for table in (self.floors, self.clock, self.reached, self.passed):
            table.pop(topic, None)
        self.held.remove_if(lambda event: event.topic == topic)
        self.missing.closed(topic)
        for waiting in list(self._blocked.pop(topic, ())):
            self._release(waiting)
        return self._out

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.failed:
            return []
        self._out = []
        match input:
            case Notified(Run() as run):
                self._take_run(run, now)
            case Notified(Stamped() as stamped):
                self._take(stamped, now)
            case Notified(Heartbeat() as beat):
                if self.may_be_of(beat.epoch):
                    self._learn_newest(beat.topic, beat.newest, now)
            case Received(_, Repair() as repair):
                self._take_repair(repair, now)
            case Tick():
                self._expire(now)
                self._ask(now)
            case _:
                self._out.append(Reject(FrameError(f"a subscriber cannot use {type(input).__name__}")))
        return self._out

    def next_timer(self) -> float | None:
        """When something held expires, or a gap is to be asked about."""
        if self.failed:
            return None
        asks = self.missing.next_timer()
        urgent = self._urgent() if self.settings.holds else None
        if urgent is None:
            return asks
        return urgent[1] if asks is None else min(asks, urgent[1])

    def _urgent(self) -> tuple[Held, float] | None:
        """What is held and must go first, and when."""
        if self.settings.deadline_s is None:
            oldest = self.held.oldest()
            return None if oldest is None else (oldest, self._expires(oldest))
        return min(((held, self._expires(held)) for held in self.held), key=lambda h: h[1], default=None)

    def _expires(self, held: Held) -> float:
        """When a held event must go: after `max_hold`, and in time for its deadline."""
        settings, publication = self.settings, held.event.publication
        expires = float("inf") if settings.max_hold is None else held.since + settings.max_hold
        if settings.deadline_s is None:
            return expires
        until = publication.published_at + settings.deadline_s
        if publication.deadline is not None:
            until = min(until, publication.deadline)
        return min(expires, until - settings.clock_s - settings.grace_s)

    # Arrivals.

    def _take_run(self, run: Run, now: float) -> None:
        if run.epoch != self.epoch:
            self._out.append(Reject(StampError(f"a run of epoch {run.epoch} in epoch {self.epoch}")))
        elif self._continues(run):
            mine, counts = self.topics, run.counts
            for topic in mine if len(mine) < len(counts) else counts:
                if topic in mine and topic in counts:
                    count = counts[topic]
                    self.clock[topic] += count
                    self.reached[topic] += count
                    self.passed[topic].floor += count
                    self._close_if_whole(topic)
            self._out.append(DeliverRun(run, None if counts.keys() <= mine else run.places(mine)))
        else:
            for place in run.places(self.topics):
                if self.failed:
                    break
                self._take(run.stamped(place), now)

    def _continues(self, run: Run) -> bool:
        """Whether the run starts exactly where this subscriber is: then all of it is ready, in its order."""
        if self.held:
            return False
        if self._layout[0] is not run.index:
            self._layout = (run.index, [(t, run.index[t]) for t in self.topics if t in run.index])
        base, known = run.base, len(run.base)
        for topic, i in self._layout[1]:
            if i < known and not (self.clock[topic] == base[i] == self.reached[topic]):
                return False
            if i < known and (self.passed[topic].floor != base[i] or self.passed[topic].above):
                return False
        return True

    def _take(self, event: Stamped, now: float) -> None:
        topic = event.topic
        if topic not in self.clock:
            return  # unsubscribed, or a neighbour's
        fault = self._fault(event)
        if fault is not None:
            self._out.append(Reject(fault))
            return
        number = event.number
        if number in self.passed[topic]:
            return  # before we joined, or twice
        twin = self.held.get(topic, number)
        if twin is not None:
            if twin != event:
                self._out.append(
                    Reject(StampError(f"two different events claim number {number} of '{topic}'"))
                )
            return
        if self.settings.repair:
            self.missing.learn_stamp(event.entries, self._reached, now)
        if self.exact:
            self._take_exactly(event, now)
        else:
            self._take_bounded(event, now)

    def _fault(self, event: Stamped) -> StampError | None:
        entries, topic = event.entries, event.topic
        if not self.may_be_of(event.epoch):
            return StampError(f"a stamp of epoch {event.epoch} in epoch {self.epoch}")
        if entries.get(topic, 0) < 1 or min(entries.values()) < 0:
            return StampError(f"a stamp on '{topic}' without a number of its own, or with a negative one")
        if self.group is not None and entries.keys() != self.group(topic):
            return StampError(
                f"a stamp on '{topic}' names {sorted(entries)}, not {sorted(self.group(topic))}"
            )
        ours = entries if len(entries) <= len(self.reached) else self._part(entries)
        for x, number in ours.items():
            if number > self.reached.get(x, number) + self.far:
                return StampError(f"number {number} of '{x}' is over {self.far} ahead of {self.reached[x]}")
        return None

    def _part(self, entries: Entries) -> Entries:
        """What a stamp says of our topics, where it names more than those."""
        return {x: entries[x] for x in self.reached if x in entries}

    def _take_exactly(self, event: Stamped, now: float) -> None:
        if len(self.held) < self.settings.hold_max:
            self.held.put(event, now)
            self._release(event.topic)
        elif event.number == self.reached[event.topic] + 1:
            self.held.put(event, now)  # the next of its topic always has room
            self._release(event.topic)
        elif not self.settings.repair:
            self._fail(f"more than {self.settings.hold_max} events are held back")

    def _take_bounded(self, event: Stamped, now: float) -> None:
        if not self.is_clean(event):
            self._late(event)
            self._release(event.topic)
        elif not self.room:
            self._deliver(event)
        else:
            self.held.put(event, now)
            self._release(event.topic)
            while len(self.held) > self.room:
                self._force(self.held.oldest_first_in_order())

    def _take_repair(self, repair: Repair, now: float) -> None:
        for event in repair.events:
            self._take(event, now)
        if repair.topic in self.clock:
            self._learn_newest(repair.topic, repair.newest, now)
            passed = self.passed[repair.topic]
            gone = tuple(n for n in repair.gone if n not in passed and self.held.get(repair.topic, n) is None)
            if gone:
                self._lose(repair.topic, gone)

    def _learn_newest(self, topic: str, newest: int, now: float) -> None:
        if topic in self.clock and self.settings.repair:
            nearest = min(newest, self.reached[topic] + self.far)  # no claim makes us ask for more at once
            self.missing.learn(topic, nearest, self.passed[topic].floor, now)

    def _reached(self, topic: str) -> int | None:
        return self.passed[topic].floor if topic in self.passed else None

    # Rules. Separate, so that a planted bug can break one of them.

    def is_clean(self, event: Stamped) -> bool:
        """Whether it may be delivered untagged."""
        return is_clean(event.entries, event.topic, self.clock)

    def may_be_of(self, epoch: int) -> bool:
        """Whether what belongs to this epoch can concern us."""
        return epoch == self.epoch

    def blocker(self, event: Stamped) -> str | None:
        """The topic an event must wait for, if any."""
        return blocker(event.entries, event.topic, self.reached)

    # Leaving.

    def _release(self, topic: str) -> None:
        """Deliver whatever has become ready, starting with the next event of `topic`."""
        pending = [topic, *self._blocked.pop(topic, ())]
        while pending:
            topic = pending.pop()
            if topic not in self.reached:
                continue  # it waited, and was dismissed
            while (event := self.held.get(topic, self.reached[topic] + 1)) is not None:
                waits_for = self.blocker(event)
                if waits_for is not None:
                    self._blocked.setdefault(waits_for, {})[topic] = None
                    break
                self.held.pop(event)
                if self.exact or self.is_clean(event):
                    self._deliver(event)
                else:
                    self._late(event)
                pending += self._blocked.pop(topic, ())

    def _deliver(self, event: Stamped) -> None:
        """Hand over an event in its place, and move the clock."""
        clock, reached = self.clock, self.reached
        ours = event.entries if len(event.entries) <= len(clock) else self._part(event.entries)
        for x, number in ours.items():
            if clock.get(x, number) < number:
                clock[x] = number
                reached[x] = max(reached[x], number)
        self._pass(event.topic, event.number)
        last = self._out[-1] if self._out else None
        if isinstance(last, Deliver) and last.in_order:
            last.events.append(event)
        else:
            self._out.append(Deliver([event]))

    def _late(self, event: Stamped) -> None:
        """An event that others may be told in another place: tagged or dropped, as asked."""
        if self.settings.on_gap == "tag":
            self._out.append(Deliver([event], in_order=False))
        else:
            self._out.append(Drop(event, "came too late for its place"))
        self._pass(event.topic, event.number)

    def _force(self, event: Stamped) -> None:
        """Let go of an event before its time, those it follows first."""
        for member in self.held.with_predecessors(event):
            self.held.pop(member)
            if self.is_clean(member):
                self._deliver(member)
            else:
                self._late(member)
        for stale in self.held.remove_if(lambda held: not self.is_clean(held)):
            self._late(stale)
        for topic in self.clock:
            self._release(topic)

    def _pass(self, topic: str, number: int) -> None:
        passed = self.passed[topic]
        given_up = passed.add(number)
        if given_up:
            self._give_up(topic, given_up)
        self._close_if_whole(topic)
        while self.reached[topic] + 1 in passed:  # numbers already dealt with leave no gap
            self.reached[topic] += 1

    def _close_if_whole(self, topic: str) -> None:
        """Ask for nothing of a topic of which nothing is missing."""
        if self.settings.repair and self.passed[topic].floor >= self.missing.known.get(topic, 0):
            self.missing.closed(topic)

    def _give_up(self, topic: str, numbers: tuple[int, ...]) -> None:
        """The window is full: what is held of these numbers goes now, the rest counts as lost."""
        held = [event for number in numbers if (event := self.held.get(topic, number)) is not None]
        lost = tuple(number for number in numbers if self.held.get(topic, number) is None)
        if lost:
            self._out.append(Lose(topic, lost))
        for event in held:
            self.held.pop(event)
            if self.is_clean(event):
                self._deliver(event)
            else:
                self._late(event)

    def _lose(self, topic: str, numbers: tuple[int, ...]) -> None:
        self._out.append(Lose(topic, numbers))
        if self.settings.on_gap == "fail":
            self._fail(f"events {_ranges(numbers)} of '{topic}' are lost")
            return
        for number in numbers:
            self._pass(topic, number)
        self._release(topic)

    def _fail(self, why: str) -> None:
        self.failed = True
        self._out.append(Fail(GapError(f"subscription '{self.name}': {why}")))

    # Time.

    def _expire(self, now: float) -> None:
        if not self.settings.holds:
            return
        while (urgent := self._urgent()) is not None and urgent[1] <= now:
            event, hold = urgent[0].event, self.settings.max_hold
            if self.exact:
                waits_for = self.blocker(event)
                self._fail(f"event {event.publication.id} waited {hold} s for an event of '{waits_for}'")
                return
            self._force(event)

    def _ask(self, now: float) -> None:
        if self.failed:
            return
        for topic in self.missing.due(now):
            nack = self._nack(topic)
            if nack is not None:
                self._out.append(Send(self.emitter(topic), nack))
            else:
                self.missing.closed(topic)

    def _nack(self, topic: str) -> Nack | None:
        numbers = self._holes(topic)
        return Nack(topic, self.name, numbers, self.epoch) if numbers else None

    def _holes(self, topic: str) -> tuple[int, ...]:
        passed, holes = self.passed[topic], []
        for number in range(passed.floor + 1, self.missing.known.get(topic, 0) + 1):
            if number not in passed and self.held.get(topic, number) is None:
                holes.append(number)
                if len(holes) == self.settings.nack_numbers_max:
                    break
        return tuple(holes)

    # For the explorer and the simulator.

    def check(self) -> None:
        """In exact mode nothing is passed over; nothing held could have gone."""
        for topic, passed in self.passed.items():
            assert self.floors[topic] <= self.clock[topic] <= self.reached[topic]
            assert passed.floor <= self.reached[topic]
            if self.exact and not self.failed:
                assert self.reached[topic] == passed.floor
        if not self.failed:
            for held in self.held:
                assert self.blocker(held.event) is not None, f"{held.event} is ready and held"

    def copy(self) -> Subscriber:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.floors = dict(self.floors)
        twin.clock = dict(self.clock)
        twin.reached = dict(self.reached)
        twin.held = self.held.copy()
        twin.passed = {t: p.copy() for t, p in self.passed.items()}
        twin.missing = self.missing.copy()
        twin._blocked = {t: dict(w) for t, w in self._blocked.items()}
        twin._out = []
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two subscribers would behave alike from now on."""
        return (
            self.failed,
            tuple(sorted(self.clock.items())),
            tuple(sorted(self.reached.items())),
            self.held.state(),
            tuple(sorted((t, p.state()) for t, p in self.passed.items())),
            self.missing.state() if self.settings.repair else None,
        )


def _ranges(numbers: tuple[int, ...]) -> str:
    """3-5 and 9, for people."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
