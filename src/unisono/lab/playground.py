"""A small world that shows the problem and the cure: the same events, heard with and without ordering.

Simulated, with the engines that real buses use. Two subscribers of three topics hear what two publishers publish. What
reaches each of them from the network, in the order of its arrival, is what they would have heard without ordering; what
their engines hand over is what they hear with it. Both are of one run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from random import Random
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.history import Kind
from unisono.model.frames import Publication, Stamped
from unisono.sim.network import Conditions
from unisono.sim.simulation import Notice, Occurrence, Simulation
from unisono.sim.world import Burst, SubscriberSpec, World

TOPICS = ("orders", "payments", "stock")
SUBSCRIBERS = ("anna", "bruno")
PUBLISHERS = ("shop", "bank")
STEPS_MAX = 60_000
CALM_S = 0.6  # after the last event is published

Guarantee = Literal["fifo", "total", "total_causal"]


class Knobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be turned."""

    events: Annotated[int, Meta(ge=1, le=400)] = 60
    every_ms: Annotated[float, Meta(ge=5, le=1000)] = 60.0  # between two events
    delay_ms: Annotated[float, Meta(ge=0, le=1000)] = 120.0  # at most, of whatever is sent, drawn anew
    loss: Annotated[float, Meta(ge=0, le=0.5)] = 0.0
    buffer: Annotated[int, Meta(ge=0, le=64)] = 0
    guarantee: Guarantee = "total"
    on_gap: Literal["wait", "tag", "skip"] = "wait"
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 1


class Heard(msgspec.Struct, frozen=True):
    """One event at one subscriber."""

    event: str
    topic: str
    number: int
    at_ms: float
    in_order: bool = True
    disagrees: bool = False  # the other subscriber heard it on the other side of something


class Side(msgspec.Struct, frozen=True):
    """What both subscribers heard, one way."""

    heard: dict[str, list[Heard]]
    disagreements: int  # pairs of events that both heard, in opposite orders
    tagged: int
    missed: int  # events that one of them was owed and did not hear
    delay_ms: float  # on average, from publication until an event was heard
    words: str = ""  # a disagreement, in words


class Play(msgspec.Struct, frozen=True):
    """One run."""

    knobs: Knobs
    published: int
    without: Side
    ordered: Side


class _Listening(Simulation):
    """A simulation that notes what arrives from the network, before any engine has seen it."""

    def __init__(self, world: World) -> None:
        super().__init__(world, steps_max=STEPS_MAX)
        self.arrived: dict[str, dict[str, Heard]] = {name: {} for name in SUBSCRIBERS}

    def _happen(self, occurrence: Occurrence) -> None:
        if isinstance(occurrence, Notice) and isinstance(occurrence.notification, Stamped):
            event = occurrence.notification
            heard = _heard(event.publication, event.number, self.kernel.now)
            self.arrived[occurrence.to].setdefault(heard.event, heard)
        super()._happen(occurrence)


def play(knobs: Knobs) -> Play:
    """Run the world of these knobs."""
    simulation = _Listening(world_of(knobs))
    ending = simulation.run()
    handed: dict[str, list[Heard]] = {name: [] for name in SUBSCRIBERS}
    for record in ending.records:
        if record.kind is Kind.DELIVERED:
            handed[record.process].append(
                Heard(record.event, record.topic, record.number, round(1000 * record.at, 1), record.in_order)
            )
    bare = {name: list(heard.values()) for name, heard in simulation.arrived.items()}
    began = {r.event: 1000 * r.at for r in ending.records if r.kind is Kind.PUBLISHED}
    return Play(knobs, len(began), _side(bare, began), _side(handed, began))


def world_of(knobs: Knobs) -> World:
    """The world of these knobs."""
    random = Random(f"{knobs.seed} playground")
    step_s = knobs.every_ms / 1000
    bursts = tuple(
        Burst(
            round(i * step_s + 0.4 * step_s * random.random(), 4),
            random.choice(PUBLISHERS),
            (_topic(random),),
        )
        for i in range(knobs.events)
    )
    is_exact = knobs.on_gap == "wait"
    settings = SubscriberSettings(
        on_gap=knobs.on_gap,
        buffer=0 if is_exact else knobs.buffer,
        repair=is_exact or knobs.loss > 0,
        nack_retry_s_max=0.2,
    )
    return World(
        seed=knobs.seed,
        topics=TOPICS,
        subscribers=tuple(SubscriberSpec(name, TOPICS, settings) for name in SUBSCRIBERS),
        bursts=bursts,
        shape="chain",
        plan="forest",
        threshold={"fifo": 3, "total": 2, "total_causal": 1}[knobs.guarantee],
        causal=knobs.guarantee == "total_causal",
        placement=("node",) * len(TOPICS),
        managers=ManagerSettings(ring_events=1024, heartbeat_s=0.08, heartbeat_s_max=0.2),
        packets=Conditions(latency_s=0.005, spread_s=knobs.delay_ms / 1000),
        notifications=Conditions(latency_s=0.005, spread_s=knobs.delay_ms / 1000, loss=knobs.loss),
        heals_at=knobs.events * step_s + CALM_S,
    )


def disagreeing(one: Sequence[str], other: Sequence[str]) -> tuple[int, set[str]]:
    """How many pairs were heard in opposite orders, and the fewest events without which there were none."""
    place = {event: i for i, event in enumerate(one)}
    common = [event for event in other if event in place]
    places = [place[event] for event in common]
    seen: list[int] = []
    pairs = 0
    for p in places:
        at = bisect_left(seen, p)
        pairs += len(seen) - at
        seen.insert(at, p)
    agreeing = set(_longest_rise(places))
    return pairs, {event for i, event in enumerate(common) if i not in agreeing}


def _longest_rise(places: Sequence[int]) -> list[int]:
    """Where the elements of a longest rising subsequence stand."""
    tails: list[int] = []  # the least last element of a rise of each length
    ends: list[int] = []  # and where it stands
    before: list[int] = []
    for i, p in enumerate(places):
        at = bisect_left(tails, p)
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [p]
        ends[at : at + 1] = [i]
    rise, i = [], ends[-1] if ends else -1
    while i >= 0:
        rise.append(i)
        i = before[i]
    return rise[::-1]


def _side(heard: dict[str, list[Heard]], began: dict[str, float]) -> Side:
    first, second = (_untagged(heard[name]) for name in SUBSCRIBERS)
    pairs, wrong = disagreeing(first, second)
    marked = {
        name: [msgspec.structs.replace(h, disagrees=h.in_order and h.event in wrong) for h in some]
        for name, some in heard.items()
    }
    delays = [h.at_ms - began[h.event] for some in heard.values() for h in some]
    return Side(
        marked,
        pairs,
        sum(not h.in_order for some in heard.values() for h in some),
        len(SUBSCRIBERS) * len(began) - len(delays),
        round(sum(delays) / len(delays), 1) if delays else 0.0,
        _words(first, second, {h.event: f"{h.topic} {h.number}" for h in heard[SUBSCRIBERS[0]]}),
    )


def _words(first: Sequence[str], second: Sequence[str], called: dict[str, str]) -> str:
    """The first disagreement there is."""
    place = {event: i for i, event in enumerate(first)}
    latest = ""
    for event in second:
        if event in place:
            if latest and place[event] < place[latest]:
                one, other = called[event], called[latest]
                return f"{SUBSCRIBERS[0]} heard {one} before {other}, {SUBSCRIBERS[1]} heard {other} before {one}"
            latest = event
    return ""


def _untagged(heard: Sequence[Heard]) -> list[str]:
    return [h.event for h in heard if h.in_order]


def _heard(publication: Publication, number: int, now: float) -> Heard:
    return Heard(str(publication.id), publication.topic, number, round(1000 * now, 1))


def _topic(random: Random) -> str:
    return random.choices(TOPICS, weights=(5, 4, 2))[0]
