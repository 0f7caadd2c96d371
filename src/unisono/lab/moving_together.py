"""Moving worlds in which things come together that are rarely looked at together.

Two nodes finish one epoch; lanes are truncated while a node dies; somebody leaves during a takeover; a forest loses a
node; three subscribers join at once; a bounded buffer overflows or expires during a join; causes and effects on both
sides of a takeover; a storage that stores late or twice; retries with a key. The table in docs/protocols/moving.md
says how large each is, and which planted bug it would show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.sim.explore.moving import EXACT, MOVING_LIVENESS, MOVING_SAFETY, Harm, MovingScenario
from unisono.sim.explore.walks import TAG
from unisono.testing.planted_bugs.moving_worlds import moving

BOUNDED = SubscriberSettings(on_gap="tag", buffer=1, max_hold=100.0, repair=True)
SHORT = NodeSettings(lane_records_kept=0)
CAUSAL = (*MOVING_SAFETY, *MOVING_LIVENESS, "acyclic_order", "causal_order")

APART, TOGETHER = "T1:N1 T2:N2", "T1:N1 T2:N1"
SWAP, AGAIN = (("T2", "T1"),), (("T1",), ("T1",))
FIRST = ("N1",)

# Searched to their ends; the larger ones a little way, and then walked through.
WHOLE, PART = 100_000, 3_000
WALKS, WALK_STEPS = 200, 200

OBSERVERS = {"o1": "T1 T2", "o2": "T1 T2", "o3": "T1 T2"}
EACH = {"o1": EXACT, "o2": TAG, "o3": BOUNDED}

ONE_TOPIC = moving(
    "T1:N1",
    "a:T1:p b:T1:p",
    observers={"o1": "T1", "o2": "T1"},
    settings={"o1": EXACT, "o2": TAG},
    spare=("N2",),
)
ONE_EVENT = ONE_TOPIC.but(events=ONE_TOPIC.events[:1])
ONE_LANE = moving(TOGETHER, "a:T1 b:T2", observers=OBSERVERS, settings=EACH, spare=("N2",))
TWO_LANES = moving(APART, "a:T1 b:T2", observers=OBSERVERS, settings=EACH)


class Together(NamedTuple):
    """One world: what comes together in it, what exactly, the world, and whether it is searched to its end."""

    row: str
    name: str
    world: MovingScenario
    whole: bool = True
    quick: bool = False


def causal_publisher() -> Publisher:
    """One that sends an event when the one before it has its place."""
    return Publisher(causal=True)


def worlds_together() -> Iterator[Together]:
    """All of them."""
    yield from _two_finishers("two finishers")
    yield from _truncation("truncation")
    yield from _leaves("leave during a takeover")
    yield from _forests("forest and takeover")
    yield from _three_joins("three subscribers join")
    yield from _bounded_joins("bounded delivery and a join")
    yield from _causes("causes across a takeover")
    yield from _replicated("replicated lanes")
    yield from _retries("retries with a key")


def _two_finishers(row: str) -> Iterator[Together]:
    three = ONE_TOPIC.but(spare=("N2", "N3"))
    yield Together(row, "crash", three.but(harm=Harm(crashes=1, finishers=1, mortal=FIRST)))
    one = moving(APART, "b:T2", observers={"o": "T1 T2"}, spare=("N3",))
    yield Together(row, "two lanes, swap", one.but(harm=Harm(ranks=SWAP, finishers=1)))
    swap = ONE_EVENT.but(harm=Harm(ranks=AGAIN[:1], finishers=1))
    yield Together(row, "same rank again", swap, quick=True)
    zombie = Harm(zombies=1, finishers=1)
    yield Together(row, "zombie", three.but(harm=replace(zombie, mortal=FIRST)), whole=False)
    yield Together(row, "two lanes, zombie", TWO_LANES.but(spare=("N3",), harm=zombie), whole=False)
    dies = Harm(zombies=1, crashes=1, finishers=1)
    yield Together(row, "a finisher dies", TWO_LANES.but(spare=("N3",), harm=dies), whole=False)
    twice = Harm(ranks=(*SWAP, ("T1", "T2")), finishers=2)
    yield Together(row, "two swaps, two finishers each", TWO_LANES.but(harm=twice), whole=False)


def _truncation(row: str) -> Iterator[Together]:
    short = ONE_TOPIC.but(nodes_are=SHORT, harm=Harm(ranks=AGAIN, late_cuts=True))
    yield Together(row, "two epochs", short, quick=True)
    crash = replace(short.harm, crashes=1, mortal=FIRST)
    yield Together(row, "two epochs, crash", ONE_EVENT.but(nodes_are=SHORT, harm=crash))
    harm = Harm(ranks=(*SWAP, ("T1", "T2")), late_cuts=True)
    reader = moving(TOGETHER, "a:T1 b:T2", members={"s": "T1 T2"}, nodes_are=SHORT, spare=("N2",))
    yield Together(row, "two swaps, a member reads", reader.but(harm=harm), whole=False)
    both = TWO_LANES.but(nodes_are=SHORT)
    yield Together(row, "two lanes, two swaps", both.but(harm=harm), whole=False)
    yield Together(row, "two lanes, two swaps, crash", both.but(harm=replace(harm, crashes=1)), whole=False)


def _leaves(row: str) -> Iterator[Together]:
    holder = moving(
        TOGETHER,
        "a:T1:p b:T2:p",
        observers={"o": "T1 T2"},
        members={"s": "T1 T2"},
        scripts={"s": "-T1"},
        spare=("N2",),
    )
    crash, zombie = Harm(crashes=1, reports=1, mortal=FIRST), Harm(zombies=1, mortal=FIRST)
    yield Together(row, "crash, one event", holder.but(events=holder.events[:1], harm=crash), quick=True)
    yield Together(row, "crash", holder.but(harm=crash))
    yield Together(row, "zombie", holder.but(events=moving(TOGETHER, "b:T2").events, harm=zombie))
    node = moving(APART, "b:T2", observers={"o": "T1 T2"}, spare=("N3",))
    yield Together(row, "a node leaves, another dies", node.but(harm=Harm(crashes=1, drains=("N2",))))
    returns = holder.but(scripts={"s": (("remove", ("T1",)), ("add", ("T1",)))})
    yield Together(row, "and returns, crash", returns.but(harm=crash), whole=False)
    yield Together(row, "and returns, zombie", returns.but(harm=zombie), whole=False)


def _forests(row: str) -> Iterator[Together]:
    held = {"o1": "R A", "o2": "R B"}
    branches = moving(
        "R:N1 A:N2 B:N1", "a:A b:B", observers={**held, "o3": "R A", "o4": "R B"}, kind="forest"
    )
    yield Together(row, "two branches, crash", branches.but(harm=Harm(crashes=1)), quick=True)
    yield Together(row, "two branches, zombie", branches.but(harm=Harm(zombies=1)), whole=False)
    join = moving(
        "R:N1 A:N1 B:N1",
        "b:B",
        observers=held,
        members={"s": "R B"},
        scripts={"s": "+A"},
        kind="forest",
        spare=("N2",),
    )
    name = "join across branches"
    yield Together(row, f"{name}, crash", join.but(harm=Harm(crashes=1, mortal=FIRST)), whole=False)
    yield Together(row, f"{name}, zombie", join.but(harm=Harm(zombies=1, mortal=FIRST)), whole=False)


def _three_joins(row: str) -> Iterator[Together]:
    everybody = ("s1", "s2", "s3")
    upper = moving(
        TOGETHER, "a:T1", members=dict.fromkeys(everybody, "T1"), scripts=dict.fromkeys(everybody, "+T2")
    )
    yield Together(row, "the lower, an event of the upper", upper)
    yield Together(row, "the lower, an event of it", upper.but(events=moving(TOGETHER, "b:T2").events))
    members, scripts = {"s1": "T1", "s2": "T2", "s3": "T2"}, {"s1": "+T2", "s2": "+T1", "s3": "+T1"}
    yield Together(row, "no event", moving(TOGETHER, "", members=members, scripts=scripts), quick=True)
    apart = moving(APART, "a:T1 b:T2", members=members, scripts=scripts)
    yield Together(row, "two lanes, 2 events", apart, whole=False)
    yield Together(row, "two lanes, 2 events, tag", apart.but(subscribers=TAG), whole=False)
    yield Together(row, "two lanes, 2 events, crash", apart.but(harm=Harm(crashes=1)), whole=False)


def _bounded_joins(row: str) -> Iterator[Together]:
    for name, held, script in (("adds the upper", "T2", "+T1"), ("adds the lower", "T1", "+T2")):
        world = moving(
            APART,
            "a:T1 b:T2",
            observers={"o": "T1 T2"},
            members={"s": held},
            scripts={"s": script},
            settings={"s": BOUNDED},
        )
        yield Together(row, name, world.but(harm=Harm(expiries=2)), quick=True)
        third = world.but(events=moving(APART, "a:T1 b:T2 c:T2").events)
        yield Together(row, f"{name}, 3 events", third.but(harm=Harm(expiries=1)), "lower" in name)
        swap, crash = Harm(expiries=1, ranks=SWAP), Harm(expiries=1, crashes=1)
        yield Together(row, f"{name}, swap", world.but(harm=swap), whole=False)
        yield Together(row, f"{name}, crash", world.but(harm=crash), whole=False)


def _causes(row: str) -> Iterator[Together]:
    held = {"o1": "T1 T2", "o2": "T2 T3", "o3": "T1 T3"}
    two = moving("T1:N1 T2:N2 T3:N1", "a:T1:p b:T2:p c:T3:q", observers=held, threshold=1).but(
        promises=CAUSAL, order="total_causal", make_publisher=causal_publisher
    )
    one = two.but(events=moving(APART, "a:T1:p b:T2:p c:T3:p").events)
    yield Together(row, "crash", one.but(harm=Harm(crashes=1)), quick=True)
    yield Together(row, "swap, two publishers", two.but(harm=Harm(ranks=(("T3", "T2", "T1"),))))
    yield Together(row, "crash, two publishers", two.but(harm=Harm(crashes=1)), whole=False)
    yield Together(row, "zombie", one.but(harm=Harm(zombies=1)), whole=False)


def _replicated(row: str) -> Iterator[Together]:
    late, twice = Harm(late_appends=1, mortal=FIRST), Harm(double_appends=1, mortal=FIRST)
    looks = replace(late, ticks=2, ticking=FIRST)
    yield Together(row, "late, the writer looks", ONE_TOPIC.but(harm=looks), quick=True)
    yield Together(row, "late and twice", ONE_TOPIC.but(harm=replace(looks, double_appends=1)))
    yield Together(row, "late, zombie", ONE_TOPIC.but(harm=replace(late, zombies=1)))
    yield Together(row, "late, crash", ONE_TOPIC.but(harm=replace(looks, ticks=1, crashes=1)))
    yield Together(row, "twice, same rank again", ONE_TOPIC.but(harm=replace(twice, ranks=AGAIN[:1])))
    yield Together(row, "twice, zombie", ONE_TOPIC.but(harm=replace(twice, zombies=1)), whole=False)
    both = Harm(late_appends=1, double_appends=1)
    yield Together(row, "two lanes, zombie", TWO_LANES.but(harm=replace(both, zombies=1)), whole=False)
    yield Together(row, "two lanes, crash", TWO_LANES.but(harm=replace(both, crashes=1)), whole=False)
    short = replace(both, ranks=(*SWAP, ("T1", "T2")), late_cuts=True)
    yield Together(row, "truncation, two swaps", ONE_LANE.but(harm=short, nodes_are=SHORT), whole=False)


def _retries(row: str) -> Iterator[Together]:
    world = TWO_LANES.but(events=moving(APART, "a:T2:p:k b:T2:q:k").events)
    yield Together(row, "crash", world.but(harm=Harm(crashes=1)), quick=True)
    yield Together(row, "swap", world.but(harm=Harm(ranks=SWAP)))
    yield Together(row, "zombie", world.but(harm=Harm(zombies=1)))
    third = TWO_LANES.but(events=moving(APART, "a:T2:p:k b:T2:q:k c:T2:q").events)
    yield Together(row, "and what follows, crash", third.but(harm=Harm(crashes=1)))
    late = Harm(late_appends=1, zombies=1, mortal=FIRST)
    one = ONE_LANE.but(events=moving(APART, "a:T2:p:k b:T2:q:k c:T1").events)
    yield Together(row, "one lane, stored late, zombie", one.but(harm=late), whole=False)
