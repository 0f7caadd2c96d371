"""Beside every member in exact mode a receiver of paper 003, given the same events by the numbers of their atoms.

It judges: nothing may be delivered that the paper's rule would hold, and nothing be held that it would deliver, after
any step. What the paper does not know is taken from the member: which topics are being joined, and which epoch it is
in. Beyond that, where subscriptions change the paper's rule needs to be told what is an atom's first message:

- Whoever joins a group takes part in its atoms from what the join met, or what the epoch began with: the messages
  numbered before are no part of the atoms, and what is numbered after them waits until those are delivered.
- A number that nobody will see (it died with an epoch, or is not kept any more) counts for no atom.
- An atom that an event's stamp does not name is none yet for that event, but counts it.
- Several events that become deliverable at once and that no atom orders may go in any order; there ours is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.engines.effects import DeliverRun, Effect
from unisono.engines.sequencing_atoms import AtomGraph, Receiver, atom_name, atom_numbers
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import Entries, EpochNotice, Joined, Run, Stamped
from unisono.sim.moving.processes import Makers

NOBODY: frozenset[str] = frozenset()


class Oracle:
    """A receiver of the paper whose groups change."""

    def __init__(self, name: str) -> None:
        self.rule = Receiver(name, AtomGraph({}, {}))
        self.floors: Entries = {}  # group -> from where on it is owed
        self.met: dict[str, Mapping[str, int]] = {}  # group -> how far others were when it was admitted
        self.began: dict[str, Entries] = {}  # atom -> how far its two groups were
        self.gone: dict[str, set[int]] = {}  # group -> numbers that nobody will see
        self.done: dict[str, set[int]] = {}  # group -> numbers that were delivered
        self.held: dict[tuple[str, int], Stamped] = {}

    def admit(self, group: str, floor: int, met: Mapping[str, int]) -> None:
        """One more group, from after `floor` on; `met` says how far the others were then."""
        self.floors[group], self.met[group] = floor, met
        self.gone[group], self.done[group] = set(), set()
        self.rule.last[group] = 0
        for other in self.floors:
            if other != group:
                start = max(self.floors[other], met.get(other, 0))
                own = max(floor, self.met[other].get(group, 0))
                self.began[atom := atom_name(group, other)] = {group: own, other: start}
                self.rule.last[atom] = sum(n > start for n in self.done[other])

    def dismiss(self, group: str) -> None:
        """One group less, and its atoms."""
        for table in (self.floors, self.met, self.gone, self.done, self.rule.last):
            table.pop(group, None)
        for atom in [atom for atom, pair in self.began.items() if group in pair]:
            del self.began[atom], self.rule.last[atom]
        self.held = {key: event for key, event in self.held.items() if key[0] != group}

    def lose(self, group: str, numbers: Iterable[int]) -> None:
        """Nobody will see these numbers."""
        self.gone[group].update(set(numbers) - self.done[group])

    def take(self, event: Stamped) -> None:
        """An event has come."""
        if event.number > self.floors[event.topic] and event.number not in self.done[event.topic]:
            self.held[event.topic, event.number] = event

    def deliver(self, event: Stamped) -> str | None:
        """The member delivers an event; what the paper would have waited for, if anything."""
        self.take(event)
        blocker = self.blocker(event)
        numbers = self.numbers(event).entries
        self.held.pop((event.topic, event.number), None)
        self.done[event.topic].add(event.number)
        for entry, pair in [(event.topic, self.floors), *self.began.items()]:
            if event.number > pair.get(event.topic, event.number):
                self.rule.last[entry] = numbers.get(entry, self.rule.last[entry] + 1)
        return blocker

    def blocker(self, event: Stamped) -> str | None:
        """A group or an atom of which something before this event is missing, by the rule of the paper."""
        converted = self.numbers(event)
        for atom in converted.entries.keys() & self.began.keys():
            if any(self.reached(group) < number for group, number in self.began[atom].items()):
                return atom  # its groups are not at its beginning yet
        self.rule.relevant = {event.topic: tuple(converted.entries)}
        return self.rule.blocker(converted)

    def numbers(self, event: Stamped) -> Stamped:
        """The event by the numbers of its group and of the atoms that it is part of."""
        topic, entries = event.topic, event.entries
        atoms = {
            atom: (topic, other)
            for other in self.floors
            if other != topic and other in entries
            if event.number > self.began[atom := atom_name(topic, other)][topic]
        }
        graph = AtomGraph(dict.fromkeys(self.floors, NOBODY), {}, pairs=atoms)
        starts = {atom: self.began[atom] for atom in atoms} | {topic: {topic: self.floors[topic]}}
        passed = {
            entry: {group: start + self._lost(group, start, entries[group]) for group, start in pair.items()}
            for entry, pair in starts.items()
        }
        return atom_numbers(event, graph, passed)

    def _lost(self, group: str, start: int, end: int) -> int:
        return sum(start < number <= end for number in self.gone[group])

    def reached(self, group: str) -> int:
        """Up to where everything of a group is delivered, or will never come."""
        number, behind = self.floors[group], self.done[group] | self.gone[group]
        while number + 1 in behind:
            number += 1
        return number

    def copy(self) -> Oracle:
        """An independent twin."""
        twin = Oracle(self.rule.name)
        twin.rule.last, twin.held = dict(self.rule.last), dict(self.held)
        twin.floors, twin.met, twin.began = dict(self.floors), dict(self.met), dict(self.began)
        twin.gone = {group: set(numbers) for group, numbers in self.gone.items()}
        twin.done = {group: set(numbers) for group, numbers in self.done.items()}
        return twin


class Watching(Subscriber):
    """A subscriber with an oracle beside it; `check` tells where they disagree."""

    oracle: Oracle
    quarrel = ""

    def _take_exactly(self, event: Stamped, now: float) -> None:
        self.oracle.take(event)
        super()._take_exactly(event, now)

    def _lose(self, topic: str, numbers: tuple[int, ...]) -> None:
        self.oracle.lose(topic, numbers)
        super()._lose(topic, numbers)

    def _deliver(self, event: Stamped) -> None:
        self._compare(event)
        super()._deliver(event)

    def _take_run(self, run: Run, now: float) -> None:
        before = len(self._out)
        super()._take_run(run, now)
        if any(isinstance(effect, DeliverRun) for effect in self._out[before:]):
            for place in run.places(self.topics):
                self._compare(run.stamped(place))

    def _compare(self, event: Stamped) -> None:
        if self.exact and (waits_for := self.oracle.deliver(event)) is not None:
            self.quarrel = self.quarrel or f"{event} is delivered, and 003 would wait for '{waits_for}'"

    def _is_due(self, event: Stamped) -> bool:
        return True

    def check(self) -> None:
        """They have delivered the same, and hold the same."""
        assert not self.quarrel, self.quarrel
        super().check()
        if self.exact and not self.failed:
            for event in self.oracle.held.values():
                ready = self._is_due(event) and self.oracle.blocker(event) is None
                assert not ready, f"{event} is held, and 003 would deliver it"

    def copy(self) -> Subscriber:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, Watching)
        twin.oracle = self.oracle.copy()
        return twin


class WatchedSubscriber(Watching):
    """One whose topics never change."""

    def __init__(self, name: str, floors: Mapping[str, int], settings: SubscriberSettings) -> None:
        super().__init__(name, floors, settings)
        self.oracle = Oracle(name)
        for topic, floor in floors.items():
            self.oracle.admit(topic, floor, {})

    def copy(self) -> WatchedSubscriber:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, WatchedSubscriber)
        return twin


class Watched(Watching, MovingSubscriber):
    """One in a world that moves."""

    def __init__(self, name: str, settings: SubscriberSettings) -> None:
        MovingSubscriber.__init__(self, name, settings)
        self.oracle = Oracle(name)
        self.met: Mapping[str, int] = {}  # how far topics were where the join that ends now went by

    def admit(self, topic: str, floor: int) -> None:
        """Owe the events of one more topic."""
        self.oracle.admit(topic, floor, self.met)
        super().admit(topic, floor)

    def dismiss(self, topic: str) -> list[Effect]:
        """Owe nothing of a topic any more."""
        self.oracle.dismiss(topic)
        return super().dismiss(topic)

    def _admit_matches(self, notice: EpochNotice) -> None:
        self.met = notice.numbers
        super()._admit_matches(notice)

    def _skip_voids(self, topic: str, notice: EpochNotice) -> None:
        for first, last in notice.voids.get(topic, ()):
            self.oracle.lose(topic, range(first, last + 1))
        super()._skip_voids(topic, notice)

    def _is_due(self, event: Stamped) -> bool:
        return event.epoch <= self.epoch and self.joining.keys().isdisjoint(event.entries)

    def copy(self) -> Watched:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, Watched)
        return twin


class WatchedMember(Member):
    """A member whose subscriber is watched."""

    def __init__(self, name: str, settings: SubscriberSettings, **more: object) -> None:
        super().__init__(name, settings, **more)  # type: ignore[arg-type]
        self.inner: MovingSubscriber = Watched(name, settings)

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        if isinstance(self.inner, Watched):
            self.inner.met = joined.reached
        return super()._joined(joined, now)


WATCHED = Makers(member=WatchedMember)
