"""A subscriber in a world that moves: topics are joined while events flow, and epochs follow each other.

Events of a topic that is being joined wait until it is known from where on they are owed; in exact mode, so do
events whose stamps name it. Events of a later epoch wait until everything of the one before is behind us, as the
epoch's notice tells (exact mode); who never waits compares epochs instead.

Who holds a pattern is owed every topic it stands for: each is admitted with the epoch in which it is first counted
for us, at the number that epoch's notice tells. What comes of such a topic before that waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from unisono.engines.effects import Admit, Effect, Fail
from unisono.engines.inputs import Input, Notified, Received
from unisono.engines.takeover.patterns import is_match, matching
from unisono.engines.topic_managers.assembly import Assembled, Assembly
from unisono.engines.topic_managers.epochs import Epochs
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.bundles import StampedBundle
from unisono.model.errors import LeaseError
from unisono.model.frames import EpochNotice, Heartbeat, Nack, Repair, Run, Stamped
from unisono.model.runs import run_of

EPOCH, JOIN = (
    "the next epoch",
    "the join under way",
)  # what an event may wait for beside a topic, which has no spaces


class MovingSubscriber(Subscriber):
    """A `Subscriber` whose topics and epochs change."""

    def __init__(self, name: str, settings: SubscriberSettings) -> None:
        super().__init__(name, {}, settings)
        self.epochs = Epochs(self.epoch)
        self.assembly = Assembly()
        self.joining: dict[str, list[Stamped]] = {}  # topics being joined, and what came of them meanwhile
        self.patterns: dict[str, int] = {}  # those that count, and from which epoch on
        self.hoped: frozenset[str] = frozenset()  # those that do not count yet
        self.strays: dict[str, list[Stamped]] = {}  # what came of topics that patterns stand for, too early
        self.admitted = self.epoch  # up to here epochs were looked at for topics that patterns stand for
        self.now = 0.0
        self.gate: int | None = (
            None  # no later epoch is entered before it is known whether patterns count in it
        )

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.failed:
            return []
        self.now = now
        notification = input.notification if isinstance(input, Notified) else None
        if isinstance(notification, StampedBundle):
            self._out = []
            self._take_piece(notification, now)
            return self._settle()
        if type(notification) is Stamped and self._is_next(notification):
            self._out = []
            self._deliver(notification)
            return self._settle()
        before = self._break_up(input, now) if self.assembly else []
        self._out = []
        if isinstance(notification, EpochNotice):
            self._learn_epoch(notification)
        else:
            if isinstance(notification, Heartbeat):
                self._hear_of(notification.epoch, notification.topic, now)
            super().handle(input, now)
        return before + self._settle()

    def hand_over(self, event: Stamped) -> bool:
        """Take an event that is the next one and has nothing in its way; False, and nothing happens, if it has.

        It is what `handle` would do: deliver it, and nothing else. Who is told of single events all day saves time.
        """
        if self.missing.asks or self.strays or self.failed or self.epoch + 1 in self.epochs.notices:
            return False
        if not self._is_in_turn(event):
            return False
        clock, topic, entries = self.clock, event.publication.topic, event.entries
        number = entries[topic]
        if self.group is not None or entries != clock | {
            topic: number
        }:  # else it tells nothing new of others
            if not self._is_all_here(event):
                return False
            for x, told in entries.items():
                if clock.get(x, told) < told:
                    clock[x] = told
        clock[topic] = self.reached[topic] = self.passed[topic].floor = number
        return True

    def begin_join(self, topics: Iterable[str]) -> None:
        """Events of these topics wait until it is known from where on they are owed."""
        for topic in topics:
            self.joining.setdefault(topic, [])

    def end_join(self, floors: Mapping[str, int], epoch: int, now: float) -> list[Effect]:
        """From these numbers on the topics are owed; epochs before `epoch` do not concern a newcomer."""
        self._out = []
        self.now = now
        if not self.clock and not self.patterns:
            self.epoch = max(self.epoch, epoch)
        early = []
        for topic, floor in floors.items():
            early += self.joining.pop(topic, [])
            self.admit(topic, floor)
            for notice in self.epochs.known():
                self._skip_voids(topic, notice)
        for event in early:
            self._take(event, now)
        self._release_all()
        return self._settle()

    def cancel_join(self, topic: str) -> list[Effect]:
        """A topic is not wanted after all."""
        self._out = []
        self.joining.pop(topic, None)
        self._release_all()
        return self._settle()

    def admit(self, topic: str, floor: int) -> None:
        """Owe the events of one more topic, from after `floor` on."""
        super().admit(topic, floor)
        self._layout = (None, [])  # it was made for other topics

    def dismiss(self, topic: str) -> list[Effect]:
        """Owe nothing of a topic any more; an epoch may have waited only for it."""
        self._layout = (None, [])
        super().dismiss(topic)
        return self._settle()

    # Patterns.

    def hope(self, patterns: Iterable[str], gate: int | None) -> None:
        """These patterns are asked for: they may begin to count with any epoch after `gate`."""
        self.hoped = frozenset(patterns)
        self.gate = gate if self.hoped else None

    def count(self, pattern: str, epoch: int) -> None:
        """A pattern counts from this epoch on, which has not been entered."""
        if not self.clock and not self.patterns:
            self.epoch = max(self.epoch, epoch - 1)  # what was before does not concern a newcomer
        self.admitted = max(self.epoch, min(self.admitted, epoch - 1))
        self.patterns[pattern] = epoch
        self.epochs.hear_of(epoch)
        for topic in [topic for topic in self.joining if is_match((pattern,), topic)]:
            for event in self.joining.pop(topic):
                self._stray(event)

    def covers(self, topic: str) -> bool:
        """Whether a topic is, or will be, owed because of a pattern."""
        return is_match(self.patterns, topic)

    def drop(self, pattern: str) -> None:
        """A pattern is not wanted any more."""
        self.patterns.pop(pattern, None)
        self.hoped -= {pattern}
        kept = (*self.patterns, *self.hoped)
        self.strays = {topic: found for topic, found in self.strays.items() if is_match(kept, topic)}

    def settle(self, now: float) -> list[Effect]:
        """See whether something can go on that could not."""
        self._out, self.now = [], now
        self._release_all()
        return self._settle()

    def _stray(self, event: Stamped) -> None:
        if sum(map(len, self.strays.values())) < self.settings.hold_max:
            self.strays.setdefault(event.topic, []).append(event)

    def _admit_up_to(self, epoch: int) -> None:
        """Look at every epoch once, in order, which topics begin to be owed with it."""
        for notice in self.epochs.known():
            if self.admitted < notice.epoch <= epoch:
                self._admit_matches(notice)
        self.admitted = max(self.admitted, epoch)

    def _admit_matches(self, notice: EpochNotice) -> None:
        """Topics that patterns stand for are owed from where this epoch begins."""
        if not self.patterns or self.failed:
            return
        due = [pattern for pattern, epoch in self.patterns.items() if epoch <= notice.epoch]
        floors = {
            topic: notice.numbers[topic]
            for topic in matching(due, sorted(notice.numbers))
            if topic not in self.clock and topic not in self.joining
        }
        if not floors:
            return
        self._out.append(Admit(floors))
        for topic, floor in floors.items():
            self.admit(topic, floor)

    # Arrivals.

    def _is_next(self, event: Stamped) -> bool:
        """Whether an event may be delivered at once, as nothing is in its way: mostly it is so."""
        return self._is_in_turn(event) and self._is_all_here(event)

    def _is_in_turn(self, event: Stamped) -> bool:
        """Whether an event is the next one of its topic, and nothing else is under way."""
        if event.epoch != self.epoch or self.joining or self.held.held or self.assembly.open:
            return False
        topic = event.publication.topic
        passed = self.passed.get(topic)
        if passed is None or passed.above:
            return False
        before = event.entries.get(topic, 0) - 1
        return passed.floor == before and self.reached[topic] == before

    def _is_all_here(self, event: Stamped) -> bool:
        """Whether everything that an event in turn names is behind us."""
        if not (self.exact or self.is_clean(event)):
            return False
        topic, entries, reached = event.publication.topic, event.entries, self.reached
        for x, told in entries.items():
            if told < 0 or (x != topic and reached.get(x, told) < told):
                return False
        return self.group is None or entries.keys() == self.group(topic)

    def _take_piece(self, piece: StampedBundle, now: float) -> None:
        """Part of a bundle: the rest of what concerns us is on its way, or lost."""
        self._take_assembled(self.assembly.add(piece, self._is_ours), now)

    def _take_assembled(self, bundles: list[Assembled], now: float) -> None:
        for pieces, is_whole in bundles:
            run = run_of(*pieces)
            if is_whole:
                self._take_run(run, now)
            else:
                self._take_one_by_one(run, now)

    def _is_ours(self, topic: str) -> bool:
        """Whether events of a topic are for us, now or soon."""
        if topic in self.clock or topic in self.joining:
            return True
        return bool(self.patterns or self.hoped) and is_match((*self.patterns, *self.hoped), topic)

    def _break_up(self, input: Input, now: float) -> list[Effect]:
        """Do not wait for the rest of bundles when it cannot come any more."""
        self._out = []
        match input:
            case Notified((Stamped() | Heartbeat()) as note):
                self._take_assembled(self.assembly.passed(note.topic), now)
            case Notified(EpochNotice()) | Received():
                self._take_assembled(self.assembly.give_up(), now)
        return self._out

    def _take_run(self, run: Run, now: float) -> None:
        """Many events at once: as they are if nothing is in their way."""
        is_plain = run.epoch == self.epoch and not self.joining
        if is_plain and (self.patterns or self.hoped):
            is_plain = all(topic in self.clock for topic in run.counts if self._is_ours(topic))
        if is_plain and self._continues(run):
            super()._take_run(run, now)
        else:
            self._take_one_by_one(run, now)

    def _take_one_by_one(self, run: Run, now: float) -> None:
        for place in range(len(run)):
            if self.failed:
                break
            self._take(run.stamped(place), now)

    def _take(self, event: Stamped, now: float) -> None:
        early = self.joining.get(event.topic)
        if early is None and event.topic not in self.clock and (self.patterns or self.hoped):
            if is_match((*self.patterns, *self.hoped), event.topic):
                self.epochs.hear_of(event.epoch)
                self._stray(event)
        elif early is None:
            self._hear_of(event.epoch, event.topic, now)
            super()._take(event, now)
        elif len(early) < self.settings.hold_max:
            early.append(event)

    def _take_bounded(self, event: Stamped, now: float) -> None:
        if not self.room or event.epoch <= self.epoch or self._is_told_of(event.epoch):
            super()._take_bounded(event, now)
            return
        self.held.put(event, now)  # the notice of its epoch may still come in time
        while len(self.held) > self.room:
            self._force(self.held.oldest_first_in_order())

    def _take_repair(self, repair: Repair, now: float) -> None:
        newest = self.epochs.newest(self.epoch)
        if repair.epochs and repair.epochs[0].epoch > newest + 1 and (self.clock or self.patterns):
            self.failed = True  # nobody knows any more how the epochs in between began
            self._out.append(Fail(LeaseError(self.name, repair.epochs[0].epoch)))
        for notice in repair.epochs:
            self._learn_epoch(notice)
        if not self.failed:
            super()._take_repair(repair, now)

    def _nack(self, topic: str) -> Nack | None:
        numbers = self._holes(topic)
        if not numbers and not self.epochs.lacks(self.epoch):
            return None
        return Nack(topic, self.name, numbers, self.epochs.newest(self.epoch))

    # Rules.

    def may_be_of(self, epoch: int) -> bool:
        """Any epoch may come along; the rules below sort them."""
        return True

    def is_clean(self, event: Stamped) -> bool:
        """Whether it may be delivered untagged: not if a later epoch has been heard of from its like.

        Nor before the notices up to its epoch are here: one of them may say that we are gone.
        """
        if event.epoch != self.epoch and not self._is_told_of(event.epoch):
            return False
        return super().is_clean(event)

    def _is_told_of(self, epoch: int) -> bool:
        return self.epoch < epoch <= self.epochs.newest(self.epoch) and self._is_open(epoch)

    def _is_open(self, epoch: int) -> bool:
        return self.gate is None or epoch <= self.gate

    def blocker(self, event: Stamped) -> str | None:
        """What an event must wait for, if anything: a topic, a join, or an epoch."""
        if event.epoch > self.epoch:
            return EPOCH
        if self.joining and not self.joining.keys().isdisjoint(event.entries):
            return JOIN
        return super().blocker(event)

    # Leaving.

    def _release_all(self) -> None:
        """Something other than a delivery has changed what may go."""
        for topic in list(self.clock):
            self._release(topic)

    def _deliver(self, event: Stamped) -> None:
        if event.epoch > self.epoch:
            self._enter(event.epoch)  # never while exact: there it waits for the epoch
        super()._deliver(event)

    # Epochs.

    def _learn_epoch(self, notice: EpochNotice) -> None:
        """An epoch has begun somewhere: its voids leave no gap, and we enter it once all before it is behind us."""
        if self.failed or (notice.epoch <= self.epoch and self.exact) or not self.epochs.add(notice):
            return
        if self.name in notice.gone and notice.epoch > self.epoch and (self.clock or self.patterns):
            self.failed = True
            self._out.append(Fail(LeaseError(self.name, notice.epoch)))
            return
        for topic in list(self.clock):
            self._skip_voids(topic, notice)
        if notice.epoch <= self.epoch:
            self._raise_to(notice)
        self._release_all()

    def _skip_voids(self, topic: str, notice: EpochNotice) -> None:
        for first, last in notice.voids.get(topic, ()):
            nearest = min(last, self.reached[topic] + self.far)
            for number in range(max(first, self.passed[topic].floor + 1), nearest + 1):
                self._pass(topic, number)

    def _enter_if_due(self) -> bool:
        """Enter the next epoch when everything of the one before is behind us."""
        notice = self.epochs.after(self.epoch)
        if notice is None or self.joining or self.failed or not self._is_open(notice.epoch):
            return False
        if any(self.reached[topic] < notice.numbers.get(topic, 0) for topic in self.clock):
            return False
        self._enter(notice.epoch)
        return True

    def _enter(self, epoch: int) -> None:
        self.epoch = epoch
        for notice in self.epochs.known():
            if notice.epoch <= epoch:
                self._raise_to(notice)
        self._admit_up_to(epoch)
        self.epochs.forget(epoch)

    def _raise_to(self, notice: EpochNotice) -> None:
        """What an epoch begins with is behind whoever is in it."""
        for topic in self.clock:
            number = notice.numbers.get(topic, 0)
            self.clock[topic] = max(self.clock[topic], number)
            self.reached[topic] = max(self.reached[topic], number)

    def _hear_of(self, epoch: int, topic: str, now: float) -> None:
        """Somebody is in this epoch: ask about it if we were not told."""
        self.epochs.hear_of(epoch)
        if topic in self.clock and self.epochs.lacks(self.epoch):
            self.missing.ask(topic, now)

    def _settle(self) -> list[Effect]:
        while self._enter_if_due():
            self._release_all()
        if self.patterns and not self.exact:  # who never waits does not wait for the end of an epoch either
            newest = self.epochs.newest(self.epoch)
            self._admit_up_to(newest if self.gate is None else min(newest, max(self.gate, self.epoch)))
        self._take_strays()
        return self._out

    def _take_strays(self) -> None:
        """Take what came too early of topics that have been admitted since."""
        while found := [topic for topic in self.strays if topic in self.clock]:
            for topic in found:
                for event in self.strays.pop(topic):
                    super()._take(event, self.now)
            while self._enter_if_due():
                self._release_all()

    # For the explorer and the simulator.

    def copy(self) -> MovingSubscriber:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, MovingSubscriber)
        twin.epochs = self.epochs.copy()
        twin.assembly = self.assembly.copy()
        twin.joining = {topic: list(events) for topic, events in self.joining.items()}
        twin.strays = {topic: list(events) for topic, events in self.strays.items()}
        twin.patterns = dict(self.patterns)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two subscribers would behave alike from now on."""
        joining = tuple((topic, tuple(map(str, events))) for topic, events in sorted(self.joining.items()))
        strays = tuple((topic, tuple(map(str, events))) for topic, events in sorted(self.strays.items()))
        patterns = (tuple(sorted(self.patterns.items())), tuple(sorted(self.hoped)), self.gate, self.admitted)
        return (
            super().state(),
            self.epoch,
            self.epochs.state(),
            self.assembly.state(),
            joining,
            strays,
            patterns,
        )
