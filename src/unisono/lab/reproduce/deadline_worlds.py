"""Paper 004, one run: brokers that publish, subscribers of which a share sleeps in every round, and what they get.

Who never sleeps is *healthy*: all publishers, and a quarter of the others. In every round so many of the rest sleep
that the share of all members is met exactly. The judges of `sim/deadline` keep everything that ever caused anything;
here only what can be counted is kept, so that hundreds of subscribers can be run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil, log2
from random import Random

import msgspec

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import Accept, Effect, Publish, Refuse, Send
from unisono.engines.deadline_causal.frames import Attach, Detach, News
from unisono.engines.deadline_causal.holdback import OVERTAKEN, STALLED, TOO_LATE, Deliver, Discard
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.wire import order_bytes
from unisono.lab.experiments import Figures
from unisono.model.frames import Publication
from unisono.sim.deadline.simulation import AS_THEY_ARE, Arrival, DeadlineSimulation, Makers, Process
from unisono.sim.deadline.world import (
    BrokerSpec,
    Crash,
    DeadlineWorld,
    Happening,
    Say,
    Sleep,
    SubscriberSpec,
)
from unisono.sim.network import Conditions

TOPIC = "T"
SLEEP_S = 0.1  # who sleeps does so for a round of Bimodal Multicast, whose parameters the paper takes
WARM_S = 2.0  # before the first event: everybody has found a place
HEALTHY = 0.25  # of the subscribers; they never sleep
LAN = Conditions(latency_s=0.001, spread_s=0.004, loss=0.001)
CRASH = 0.001  # the probability that a process crashes during a run


class Setting(msgspec.Struct, frozen=True):
    """What a run is about."""

    members: int  # subscribers, or in the baseline all
    asleep: float  # the share of them that sleeps in each round
    brokers: int = 4
    authors: str = (
        "brokers"  # who publishes: brokers (as many members, in the baseline), or all healthy members
    )
    rate_s: float = 100.0  # events of all who publish, together
    duration_s: float = 20.0
    round_s: float = 0.1
    rounds: int = 0  # that an event lives; 0: the paper's log N + 1
    window: int = 16  # events of a publisher that not all have acknowledged; only in the baseline
    gives_up: bool = False  # whether the baseline forgets them at their deadlines

    @property
    def lifetime(self) -> int:
        """In how many rounds an event is of use."""
        return self.rounds or ceil(log2(self.members)) + 1

    @property
    def lives_s(self) -> float:
        """The deadline that applications name: as long as the lifetime leaves."""
        return (self.lifetime + 1) * self.round_s

    @property
    def healthy(self) -> int:
        """How many members never sleep: the first ones."""
        return ceil(HEALTHY * self.members)

    @property
    def publishers(self) -> int:
        """How many publish."""
        return self.brokers if self.authors == "brokers" else self.healthy

    @property
    def ends_at(self) -> float:
        """When all is over."""
        return WARM_S + self.duration_s + self.lives_s + 1.0

    def causal(self) -> CausalSettings:
        """The settings of the engines: clocks are right, brokers keep two rounds for the way to subscribers."""
        return CausalSettings(round_s=self.round_s, lifetime=self.lifetime, skew=0, reserve=2, absent=40)

    def publications(self, random: Random) -> Iterator[tuple[float, int]]:
        """When an event is published, and by which publisher."""
        for i in range(int(self.rate_s * self.duration_s)):
            yield WARM_S + (i + random.random()) / self.rate_s, random.randrange(self.publishers)

    def sleepers(self, names: list[str], random: Random) -> Iterator[tuple[float, str]]:
        """Who sleeps from when on, for a round; at most all of those named."""
        count = min(round(self.asleep * self.members), len(names))
        for i in range(int((self.ends_at - WARM_S) / SLEEP_S)):
            for name in random.sample(names, count):
                yield WARM_S + i * SLEEP_S, name

    def crashes(self, names: list[str], random: Random) -> list[tuple[float, str]]:
        """Who crashes when."""
        return [
            (WARM_S + self.duration_s * random.random(), name) for name in names if random.random() < CRASH
        ]


class Counts:
    """What is counted in a run, ours or the baseline's."""

    def __init__(self, setting: Setting, healthy: set[str]) -> None:
        self.setting = setting
        self.healthy = healthy
        self.sent_at: dict[str, float] = {}  # event -> when it was published
        self.delivered: Counter[str] = Counter()  # by member
        self.latencies: list[float] = []  # at healthy members
        self.drops: Counter[str] = Counter()  # by reason, at healthy members
        self.drops_of_others = 0
        self.refused = 0
        self.late = 0
        self.messages = 0
        self.acknowledgements = 0
        self.attaching = 0  # messages by which subscribers come and go
        self.order_bytes: list[int] = []  # for each event that was sent to a member
        self.entries: list[int] = []  # of its vector
        self.known_max: Counter[str] = Counter()  # entries that a member keeps for order
        self.held_max: Counter[str] = Counter()  # events that it holds back

    def published(self, id: str, now: float) -> None:
        """An application published."""
        self.sent_at[id] = now

    def deliver(self, who: str, id: str, now: float) -> None:
        """An event was delivered."""
        sent = self.sent_at[id]
        self.delivered[who] += 1
        self.late += now > sent + self.setting.lives_s + 1e-9
        if who in self.healthy:
            self.latencies.append(now - sent)

    def drop(self, who: str, reason: str) -> None:
        """An event was dropped."""
        if who in self.healthy:
            self.drops[reason] += 1
        else:
            self.drops_of_others += 1

    def keep(self, who: str, known: int, held: int) -> None:
        """What a member keeps now."""
        self.known_max[who] = max(self.known_max[who], known)
        self.held_max[who] = max(self.held_max[who], held)

    def figures(self, members: list[str]) -> Figures:
        """The means over members; those that crashed are left out."""
        seconds = self.setting.duration_s
        healthy = [m for m in members if m in self.healthy]
        others = [m for m in members if m not in self.healthy]
        pairs = max(1, len(self.sent_at) * len(healthy))
        at_healthy = sum(self.delivered[m] for m in healthy)
        deliveries = max(1, sum(self.delivered.values()))
        return {
            "offered_s": len(self.sent_at) / seconds,
            "throughput_s": at_healthy / seconds / max(1, len(healthy)),
            "throughput_others_s": sum(self.delivered[m] for m in others) / seconds / max(1, len(others)),
            "missed": 1 - at_healthy / pairs,  # of what was published, at healthy members
            "too_late": self.drops[TOO_LATE] / pairs,
            "overtaken": self.drops[OVERTAKEN] / pairs,
            "stalled": self.drops[STALLED] / pairs,
            "dropped_by_others": self.drops_of_others / max(1, len(self.sent_at) * len(others)),
            "refused": self.refused / max(1, len(self.sent_at)),
            "late": float(self.late),
            "latency_ms": 1000 * _mean(self.latencies),
            "latency_p99_ms": 1000 * sorted(self.latencies)[int(0.99 * len(self.latencies))]
            if self.latencies
            else 0.0,
            "messages": self.messages / deliveries,
            "acknowledgements": self.acknowledgements / deliveries,
            "order_bytes": _mean(self.order_bytes),
            "vector": _mean(self.entries),
            "entries_kept": _mean([self.known_max[m] for m in members]),
            "events_held": _mean([self.held_max[m] for m in members]),
        }


class Perturbed(DeadlineSimulation):
    """A world of brokers and subscribers that counts, and judges nothing."""

    def __init__(self, world: DeadlineWorld, counts: Counts, makers: Makers = AS_THEY_ARE) -> None:
        super().__init__(world, makers, checks=False, steps_max=100_000_000)
        self.counts = counts

    def _say(self, who: str, process: Process, topic: str, lives_s: float) -> None:
        n = self.said[who] = self.said.get(who, 0) + 1
        publication = Publication(who, 0, n, topic)
        self.counts.published(str(publication.id), self.kernel.now)
        self._step(who, Publish(publication, self.kernel.now + lives_s))

    def _watch_arrival(self, process: Process, arrival: Arrival) -> None:
        pass

    def _carry_out(self, who: str, process: Process, effect: Effect) -> None:
        counts, engine = self.counts, process.engine
        match effect:
            case Send(to, frame):
                counts.messages += 1
                counts.attaching += isinstance(frame, Attach | Detach)
                if isinstance(frame, News):
                    counts.order_bytes += map(order_bytes, frame.events)
                    counts.entries += [len(event.vector) // 3 for event in frame.events]
                for time in self.near.arrivals(who, to, self.kernel.now):
                    self.kernel.schedule(time, Arrival(who, to, frame))
            case Deliver(event) if not isinstance(engine, Broker):
                counts.deliver(who, str(event.publication.id), self.kernel.now)
                counts.keep(who, len(engine.hold.known), len(engine.hold.pending))
            case Discard(_, reason) if not isinstance(engine, Broker):
                counts.drop(who, reason)
            case Refuse():
                counts.refused += 1
            case Accept() | Deliver() | Discard():
                pass


def perturbed_world(setting: Setting, seed: int) -> tuple[DeadlineWorld, list[str], set[str]]:
    """A world of brokers and subscribers; who the subscribers are, and who of them never sleeps."""
    random = Random(f"{seed} perturbed")
    brokers = [f"broker-{i + 1}" for i in range(setting.brokers)]
    names = [f"s{i + 1}" for i in range(setting.members)]
    healthy = set(names[: setting.healthy])
    authors = brokers if setting.authors == "brokers" else names
    happenings: list[Happening] = [
        Say(at, authors[i], TOPIC, setting.lives_s) for at, i in setting.publications(random)
    ]
    happenings += [
        Sleep(at, who, SLEEP_S)
        for at, who in setting.sleepers([n for n in names if n not in healthy], random)
    ]
    happenings += [Crash(at, who) for at, who in setting.crashes(names, random)]
    world = DeadlineWorld(
        seed,
        setting.causal(),
        tuple(BrokerSpec(name, (TOPIC,)) for name in brokers),
        tuple(SubscriberSpec(name, brokers[i % len(brokers)], (TOPIC,)) for i, name in enumerate(names)),
        tuple(sorted(happenings, key=lambda h: h.at)),
        near=LAN,
        ends_at=setting.ends_at,
    )
    return world, names, healthy


def run_brokers(setting: Setting, seed: int, makers: Makers = AS_THEY_ARE) -> Figures:
    """Brokers and subscribers with our engines."""
    world, names, healthy = perturbed_world(setting, seed)
    counts = Counts(setting, healthy)
    simulation = Perturbed(world, counts, makers)
    simulation.run()
    alive = [name for name in names if name in simulation.processes]
    figures = counts.figures(alive)
    return figures | {"order_bytes_per_broker": figures["order_bytes"] / setting.brokers}


def _mean(values: list[int] | list[float]) -> float:
    return sum(values) / max(1, len(values))
