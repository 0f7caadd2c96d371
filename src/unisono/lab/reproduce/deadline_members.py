"""Paper 004's baseline: deadline-constrained causal order among all members, over reliable group communication.

No brokers: whoever publishes sends to every member, with its whole past, and sends again what nobody acknowledged. It
keeps an event until all have acknowledged it (or, more kindly, until its deadline is over), and it keeps no more than
a window of them: then its application waits. That is the flow control of group communication, and why one who sleeps
slows down all. Members hold back with our own engine's rules (`HoldBack`); what is different is who talks to whom.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import NamedTuple, TypeAlias

from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.holdback import Deliver, HoldBack, Outcome
from unisono.engines.deadline_causal.stamps import HybridClock, Past, forget, merge, round_of
from unisono.lab.experiments import Figures
from unisono.lab.reproduce.deadline_worlds import LAN, SLEEP_S, TOPIC, Counts, Setting
from unisono.model.frames import Publication
from unisono.sim.kernel import Kernel
from unisono.sim.network import Network

TIME_BYTES = 8
GONE_S = 4.0  # a crashed member is out of the group after so long


class Data(NamedTuple):
    """An event, from who published it to a member."""

    source: int
    to: int
    event: Event


class Ack(NamedTuple):
    """A member has it."""

    source: int
    to: int
    stamp: int


class Say(NamedTuple):
    """An application publishes."""

    who: int


class Turn(NamedTuple):
    """A round begins."""

    round: int


class Sleep(NamedTuple):
    """A member sleeps for a round."""

    who: int


class Crash(NamedTuple):
    """A member is gone; the others are told after a while."""

    who: int


class Removed(NamedTuple):
    """The others are told."""

    who: int


Occurrence: TypeAlias = Data | Ack | Say | Turn | Sleep | Crash | Removed


class Member:
    """One member."""

    def __init__(self, setting: Setting) -> None:
        self.hold = HoldBack(setting.causal(), [TOPIC])
        self.clock = HybridClock()
        self.past: Past = {}
        self.unstable: dict[int, tuple[Event, set[int]]] = {}  # stamp -> who has not acknowledged it
        self.waiting: deque[tuple[str, float]] = deque()  # what the application may not send yet
        self.said = 0
        self.asleep_until = 0.0
        self.mail: list[Data | Ack] = []


class Members:
    """One run of the baseline."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting, self.settings = setting, setting.causal()
        random = Random(f"{seed} members")
        self.kernel: Kernel[Occurrence] = Kernel()
        self.network = Network(LAN, Random(f"{seed} network"))
        self.members = {i: Member(setting) for i in range(setting.members)}
        self.alive = set(self.members)
        healthy = set(range(setting.healthy))
        self.counts = Counts(setting, {str(i) for i in healthy})
        for at, i in setting.publications(random):
            self.kernel.schedule(at, Say(i))
        tired = [str(i) for i in self.members if i not in healthy]
        for at, name in setting.sleepers(tired, random):
            self.kernel.schedule(at, Sleep(int(name)))
        everybody = [str(i) for i in self.members if i >= setting.publishers]
        for at, name in setting.crashes(everybody, random):
            self.kernel.schedule(at, Crash(int(name)))
        for round in range(int(setting.ends_at / setting.round_s)):
            self.kernel.schedule(round * setting.round_s, Turn(round))

    def run(self) -> Figures:
        """From the beginning to the end."""
        self.kernel.run(self._happen, self.setting.ends_at)
        figures = self.counts.figures([str(i) for i in sorted(self.alive)])
        return figures | {"order_bytes_per_broker": figures["order_bytes"] / self.setting.members}

    @property
    def round(self) -> int:
        """The round it is."""
        return self.settings.round_at(self.kernel.now)

    def _happen(self, occurrence: Occurrence) -> None:
        match occurrence:
            case Data(_, to) | Ack(_, to):
                self._arrive(self.members[to], occurrence)
            case Say(who):
                member = self.members[who]
                member.said += 1
                id = f"{who}/0/{member.said}"
                self.counts.published(id, self.kernel.now)
                member.waiting.append((id, self.kernel.now + self.setting.lives_s))
                self._send_waiting(who)
            case Turn(round):
                for who in sorted(self.alive):
                    if self.members[who].asleep_until <= self.kernel.now:
                        self._turn(who, round)
            case Sleep(who):
                self.members[who].asleep_until = self.kernel.now + SLEEP_S
            case Crash(who):
                self.alive.discard(who)
                self.kernel.schedule(self.kernel.now + GONE_S, Removed(who))
            case Removed(who):
                for other in self.alive:
                    for stamp in list(self.members[other].unstable):
                        self._acknowledged(other, stamp, who)

    def _arrive(self, member: Member, mail: Data | Ack) -> None:
        if mail.to not in self.alive:
            return
        if member.asleep_until > self.kernel.now:
            member.mail.append(mail)
        elif isinstance(mail, Ack):
            self._acknowledged(mail.to, mail.stamp, mail.source)
        else:
            self._post(Ack(mail.to, mail.source, mail.event.stamp))
            self.counts.acknowledgements += 1
            self._settle(mail.to, member.hold.take([mail.event], self.round))

    def _turn(self, who: int, round: int) -> None:
        """A round begins: what came meanwhile is read, what has to go goes, what nobody acknowledged is sent again."""
        member = self.members[who]
        mail, member.mail = member.mail, []
        for letter in mail:
            self._arrive(member, letter)
        self._settle(who, member.hold.pump(round))
        forget(member.past, self.settings.oldest_told(round))
        for stamp, (event, missing) in list(member.unstable.items()):
            if event.last < round and self.setting.gives_up:
                del member.unstable[stamp]
            elif round_of(stamp) < round:
                for other in sorted(missing):
                    self._send(who, other, event)
        self._send_waiting(who)

    def _send_waiting(self, who: int) -> None:
        member, setting = self.members[who], self.setting
        while member.waiting and len(member.unstable) < setting.window:
            id, deadline = member.waiting.popleft()
            last = self.settings.last_round(deadline)
            if last < self.round:
                self.counts.refused += 1
                continue
            stamp = member.clock.next(self.round)
            last = min(last, round_of(stamp) + self.settings.lifetime)
            publication = Publication(str(who), 0, int(id.rpartition("/")[2]), TOPIC)
            event = Event(str(who), TOPIC, stamp, last, dict(member.past), publication)
            member.past[event.stream] = stamp
            others = set(self.members) - {who}  # who has crashed is missed until the others are told
            member.unstable[stamp] = (event, others)
            for other in sorted(others):
                self._send(who, other, event)
            self._settle(who, member.hold.take([event], self.round))

    def _send(self, who: int, to: int, event: Event) -> None:
        self.counts.order_bytes.append(TIME_BYTES * (len(event.past) + 2))  # its stamp and its deadline, too
        self.counts.entries.append(len(event.past))
        self._post(Data(who, to, event))

    def _post(self, mail: Data | Ack) -> None:
        self.counts.messages += 1
        for at in self.network.arrivals(str(mail.source), str(mail.to), self.kernel.now):
            self.kernel.schedule(at, mail)

    def _acknowledged(self, who: int, stamp: int, by: int) -> None:
        member = self.members[who]
        if stamp in member.unstable:
            missing = member.unstable[stamp][1]
            missing.discard(by)
            if not missing:
                del member.unstable[stamp]
                self._send_waiting(who)

    def _settle(self, who: int, outcomes: list[Outcome]) -> None:
        member, counts = self.members[who], self.counts
        for outcome in outcomes:
            event = outcome.event
            if isinstance(outcome, Deliver):
                merge(member.past, event.past)
                merge(member.past, {event.stream: event.stamp})
                member.clock.observe(event.stamp)
                counts.deliver(str(who), str(event.publication.id), self.kernel.now)
                counts.keep(str(who), len(member.hold.known), len(member.hold.pending))
            else:
                counts.drop(str(who), outcome.reason)


def run_members(setting: Setting, seed: int) -> Figures:
    """The baseline."""
    return Members(setting, seed).run()
