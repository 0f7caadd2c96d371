"""The tiny worlds in which planted bugs show themselves, with nothing wrong in them yet."""

from __future__ import annotations

from itertools import product

from unisono.engines.sequencing_atoms import AtomGraph, line_of_atoms
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.sim.explore import LIVENESS, SAFETY, Faults, Planned, TopicManagerScenario, forest
from unisono.sim.explore.atoms import AtomScenario

UPWARD = ManagerSettings(stamps="upward")
TAG = SubscriberSettings(on_gap="tag")
TAG_UPWARD = SubscriberSettings(on_gap="tag", stamps="upward")
HOLD = SubscriberSettings(on_gap="tag", max_hold=1000.0)
BUFFER_HOLD = SubscriberSettings(on_gap="tag", buffer=1, max_hold=1000.0)
ACYCLIC = (*SAFETY, *LIVENESS, "acyclic_order")
CAUSAL = (*ACYCLIC, "causal_order")


def world(subscriptions: dict[str, str], events: str, **more: object) -> TopicManagerScenario:
    """Subscribers with their topics, and events with theirs, as in "a:T1 b:T2"."""
    held = {name: frozenset(topics.split()) for name, topics in subscriptions.items()}
    planned = tuple(Planned(name, topic) for name, topic in (event.split(":") for event in events.split()))
    topics = tuple(sorted(frozenset().union(*held.values())))
    return TopicManagerScenario(topics, held, planned).but(**more)


ONE = world({"s1": "T1"}, "a:T1 b:T1")

TWO = world({"s1": "T1 T2", "s2": "T1 T2"}, "a:T1 b:T2")

PARTIAL = world({"s1": "T1 T2", "s2": "T1 T2", "s3": "T2"}, "b:T2")

# (T1, T3) is held by one subscriber only, so the stamps of T3 say nothing about T1.
THREE = world({"s1": "T1 T2 T3", "s2": "T2 T3", "s3": "T1 T2"}, "a:T1 b:T2 c:T3", subscribers=TAG)

# T2 has to pass X on its way up, T3 has not.
DETOUR = world(
    {"s1": "T1 T2 T3", "s2": "T1 T2 T3 X", "s3": "X T2"}, "a:T1 b:T2 c:T3", topics=("T1", "X", "T2", "T3")
)

# T1 - T3 - T4 - T2 - T1 is a cycle of conflicts without a chord; one subscriber sees all of it.
RING = world(
    {"s1": "T1 T2 T3 T4", "s2": "T1 T3", "s3": "T1 T2", "s4": "T3 T4", "s5": "T2 T4"},
    "a:T1 b:T2 c:T3 d:T4",
    plan=forest,
)

# The same ring, and nobody sees all of it: only together do the orders contradict each other.
RING_UNSEEN = world(
    {f"s{i}{twin}": held for i, held in enumerate(("T1 T3", "T1 T2", "T3 T4", "T2 T4")) for twin in "xy"},
    "a:T1 b:T2 c:T3 d:T4",
    plan=forest,
    promises=ACYCLIC,
)

TRIANGLE = world(
    {"s1": "T1 T2", "s2": "T2 T3", "s3": "T1 T3"}, "a:T1 b:T2 c:T3", threshold=1, promises=ACYCLIC
)

RETRY = world({"s1": "T1 T2", "s2": "T1 T2"}, "a:T1 b:T2 c:T2")

CRASH = world({"s1": "T1 T2", "s2": "T1 T2"}, "b:T2 c:T2", faults=Faults(crashes=frozenset({"b"})))

# m1 by anybody, m2 by B who saw m1, m3 by C who saw m2; A gets m1 and m3.
RUMOUR = world(
    {"A": "T1 T3", "B": "T1 T2", "C": "T2 T3"}, "a:T1", threshold=1, causal=True, promises=CAUSAL
).but(
    events=(
        Planned("a", "T1"),
        Planned("b", "T2", after=("B", "a")),
        Planned("c", "T3", after=("C", "b")),
    )
)

# One publisher, the lower topic first: the second event has the shorter way.
SEQUEL = world({"s1": "T1 T2", "s2": "T1 T2"}, "b:T2", threshold=1, causal=True, promises=CAUSAL).but(
    events=(Planned("b", "T2", publisher="p"), Planned("a", "T1", publisher="p"))
)

TWICE = world({"s1": "T1"}, "a:T1", faults=Faults(doubles=1))

AGAIN = world({"s1": "T1"}, "a:T1", faults=Faults(repeats=1))

AGAIN_RETURNED = world(
    {"s1": "T1 T2", "s2": "T1 T2"},
    "a:T1 b:T2",
    faults=Faults(repeats=1),
    managers=ManagerSettings(mode="return"),
)

# One notification is lost; the ring holds one event, so the older one is lost for ever.
LOSSY = world(
    {"s1": "T1"},
    "a:T1 b:T1",
    managers=ManagerSettings(ring_events=1),
    subscribers=SubscriberSettings(repair=True),
    faults=Faults(losses=1),
)

GROUPS = {"X": frozenset("ABD"), "Y": frozenset("ABC"), "Z": frozenset("BCD")}
_LINE = {"X": ("X&Y", "Y&Z", "X&Z"), "Y": ("X&Y", "Y&Z"), "Z": ("Y&Z", "X&Z")}


def atom_line(directions: tuple[int, int, int]) -> AtomScenario:
    """003's own example on the line XY - YZ - XZ, each group travelling forwards (1) or backwards (-1)."""
    paths = {group: _LINE[group][::way] for group, way in zip("XYZ", directions, strict=True)}
    return AtomScenario(AtomGraph(GROUPS, paths), tuple(Planned(g.lower(), g) for g in "XYZ"))


# Three groups that meet two by two on three branches; the atom of two others is where the branches join.
STAR_GROUPS = dict.fromkeys("XYZ", frozenset("AB")) | dict.fromkeys("UV", frozenset("CD"))
_STAR = {"X": ("X&Y", "U&V", "X&Z"), "Y": ("Y&Z", "U&V", "X&Y"), "Z": ("X&Z", "U&V", "Y&Z")}
_STAR_EVENTS = tuple(Planned(g.lower(), g) for g in "XYZ")


def atom_star(directions: tuple[int, int, int]) -> AtomScenario:
    """The branches travelled in these directions: no atom but the one in transit is common to all three paths."""
    paths = {group: _STAR[group][::way] for group, way in zip("XYZ", directions, strict=True)}
    return AtomScenario(AtomGraph(STAR_GROUPS, paths | dict.fromkeys("UV", ("U&V",))), _STAR_EVENTS)


STAR_AS_LINE = AtomScenario(line_of_atoms(STAR_GROUPS), _STAR_EVENTS)

DIRECTIONS: tuple[tuple[int, int, int], ...] = tuple(product((1, -1), repeat=3))  # type: ignore[arg-type]
