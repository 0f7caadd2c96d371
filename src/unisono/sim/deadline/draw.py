"""Draws a world of deadline-causal order from a seed."""

from __future__ import annotations

from random import Random

from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.sim.deadline.world import (
    BrokerSpec,
    Crash,
    DeadlineWorld,
    Go,
    Happening,
    Say,
    Sleep,
    Start,
    SubscriberSpec,
    Switch,
)
from unisono.sim.network import Conditions

ROUND_S = 0.0625  # sums of these and of clocks' errors are exact
WORKLOAD_S = 2.0
ERROR_S = ROUND_S / 1024  # clocks are wrong by a multiple of it


def draw_deadline(seed: int) -> DeadlineWorld:
    """The world of this seed."""
    random = Random(f"{seed} deadline")
    skew = random.choice((0, 0, 1, 2))
    settings = CausalSettings(
        round_s=ROUND_S,
        lifetime=random.choice((8, 12, 16)),
        skew=skew,
        reserve=random.choice((0, 1, 2)),
        fanout=random.choice((1, 2, 3)),
        pushes=random.choice((1, 2)),
        absent=random.choice((16, 40)),
        base_rounds=random.choice((2, 6)),
    )
    topics = tuple(f"T{i + 1}" for i in range(random.randint(1, 4)))
    brokers = tuple(_draw_broker(random, f"b{i + 1}", topics, settings) for i in range(random.randint(2, 5)))
    subscribers = tuple(
        SubscriberSpec(
            f"s{i + 1}",
            random.choice(brokers).name,
            tuple(sorted(random.sample(topics, random.randint(1, len(topics))))),
            _draw_error(random, settings),
            random.choice((0.0, 0.0, 0.3)),
            _draw_patience(seed, i, settings),
        )
        for i in range(random.randint(1, 6))
    )
    said = _draw_said(random, topics, brokers, subscribers, settings)
    calm = random.random() < 0.15
    return DeadlineWorld(
        seed,
        settings,
        brokers,
        subscribers,
        tuple(
            sorted(
                said if calm else [*said, *_draw_harm(random, topics, brokers, subscribers, settings)],
                key=lambda h: h.at,
            )
        ),
        near=_draw_conditions(random, calm),
        far=_draw_conditions(random, calm),
        reply_s=ROUND_S * random.randint(skew + 4, settings.lifetime),
        ends_at=WORKLOAD_S + 3 * settings.lifetime * ROUND_S,
    )


def _draw_broker(random: Random, name: str, topics: tuple[str, ...], settings: CausalSettings) -> BrokerSpec:
    mine = sorted(random.sample(topics, random.randint(1, len(topics))))
    return BrokerSpec(
        name, tuple(mine), random.choice(("east", "east", "west")), _draw_error(random, settings)
    )


def _draw_error(random: Random, settings: CausalSettings) -> float:
    """Any two clocks differ by no more than the bound."""
    return ERROR_S * random.randint(0, 1024 * settings.skew)


def _draw_patience(seed: int, i: int, settings: CausalSettings) -> float | None:
    """In a quarter of the worlds, for some: drawn apart, so that all else of a world is what it was without."""
    random = Random(f"{seed} {i} patience")
    if seed % 4 != 3 or random.random() < 0.5:
        return None
    return ROUND_S * random.randint(settings.skew + 2, settings.lifetime)


def _draw_conditions(random: Random, calm: bool) -> Conditions:
    if calm:
        return Conditions(latency_s=0.002, spread_s=0.01 * random.random(), duplication=0.1)
    return Conditions(
        latency_s=random.choice((0.001, 0.01, 0.03)),
        spread_s=random.choice((0.0, 0.05, 0.3, 1.2)) * random.random(),
        loss=random.choice((0.0, 0.1, 0.4)) * random.random(),
        duplication=random.choice((0.0, 0.2)),
    )


def _draw_said(
    random: Random,
    topics: tuple[str, ...],
    brokers: tuple[BrokerSpec, ...],
    subscribers: tuple[SubscriberSpec, ...],
    settings: CausalSettings,
) -> list[Happening]:
    voices = [*(b.name for b in brokers), *(s.name for s in subscribers)]
    return [
        Say(
            random.randint(0, 1024) / 1024 * WORKLOAD_S,
            random.choice(voices),
            random.choice(topics),
            ROUND_S * random.randint(settings.skew + 1, settings.lifetime + 4),
        )
        for _ in range(random.randint(5, 40))
    ]


def _draw_harm(
    random: Random,
    topics: tuple[str, ...],
    brokers: tuple[BrokerSpec, ...],
    subscribers: tuple[SubscriberSpec, ...],
    settings: CausalSettings,
) -> list[Happening]:
    harm: list[Happening] = []
    everybody = [*(b.name for b in brokers), *(s.name for s in subscribers)]

    def moment() -> float:
        return random.randint(0, 1024) / 1024 * WORKLOAD_S

    if random.random() < 0.4:
        victim = random.choice(brokers)
        at = moment()
        harm.append(Crash(at, victim.name))
        if random.random() < 0.6:
            again = _draw_broker(random, victim.name + "'", topics, settings)
            harm.append(Start(at + 0.1 + 0.5 * random.random(), again))
    if random.random() < 0.3:
        harm.append(Start(moment(), _draw_broker(random, "b9", topics, settings)))
    for _ in range(random.choice((0, 0, 1, 3))):
        topic = random.choice(topics)
        add = random.random() < 0.5
        who = random.choice(everybody)
        harm.append(Switch(moment(), who, (topic,) if add else (), () if add else (topic,)))
    harm += [
        Go(moment(), random.choice(subscribers).name, random.choice(brokers).name)
        for _ in range(random.choice((0, 0, 1, 3)))
    ]
    harm += [
        Sleep(moment(), random.choice(everybody), ROUND_S * random.randint(1, 20))
        for _ in range(random.choice((0, 0, 1, 4)))
    ]
    return harm
