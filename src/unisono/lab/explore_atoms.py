"""The sweep of atoms: every interleaving of three events in every membership of four members and three groups.

Memberships and events that differ in names only are one. Each is explored as the bus does it, a topic manager on a
node of its own for every group (that is the most that work can be spread) with a receiver of paper 003 beside every
subscriber, and as the paper does it, an engine for every atom. Then two groups on nodes that share the work, while
members join and leave, a topic is deleted, the rank changes, a node dies or is taken for dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations
from time import perf_counter
from typing import TypeAlias

from unisono.engines.sequencing_atoms import check_graph, forest_of_atoms, line_of_atoms
from unisono.lab.explore import Exploration, Progress, Sweep
from unisono.sim.explore import LIVENESS, SAFETY, Planned, TopicManagerScenario, forest
from unisono.sim.explore.atoms import AtomScenario
from unisono.sim.explore.moving import Harm, MovingScenario
from unisono.sim.explore.moving_ends import explore_moving
from unisono.sim.moving.oracle import WatchedSubscriber
from unisono.testing.planted_bugs.atom_table import SPREAD

GROUPS = ("G", "H", "K")
MEMBERS = ("A", "B", "C", "D")
EVENTS = 3
STATES = 20_000  # of a world that moves: it is searched up to so many
SMALL = ("nobody changes", "join")  # worlds that move, searched to their ends in a second
QUICK = 24  # of a quick sweep, every so many configurations one

Held: TypeAlias = tuple[tuple[str, ...], ...]
"""The groups of each member."""


def memberships() -> Iterator[tuple[Held, tuple[str, ...]]]:
    """What four members hold, some of them perhaps nothing, and the groups of three events: each once."""
    sets = [held for size in range(len(GROUPS) + 1) for held in combinations(GROUPS, size)]
    seen = set()
    for held in combinations_with_replacement(sets, len(MEMBERS)):
        for events in combinations_with_replacement(GROUPS, EVENTS):
            if (same := min(_renamed(held, events))) not in seen:
                seen.add(same)
                yield same


def _renamed(held: Held, events: tuple[str, ...]) -> Iterator[tuple[Held, tuple[str, ...]]]:
    """The same under other names of groups and members."""
    for names in permutations(GROUPS):
        called = dict(zip(GROUPS, names, strict=True))
        mine = tuple(sorted(tuple(sorted(called[group] for group in groups)) for groups in held))
        yield mine, tuple(sorted(called[group] for group in events))


def explore_atoms(*, quick: bool = False, progress: Progress | None = None) -> Exploration:
    """Explore every membership with every choice of events, or a few of them."""
    sweep = Sweep(progress or (lambda what, done, of: None))
    started = perf_counter()
    worlds = list(memberships())[:: QUICK if quick else 1]
    for done, (held, events) in enumerate(worlds):
        sweep.progress("memberships", done, len(worlds))
        planned = tuple(Planned("abc"[i], group) for i, group in enumerate(events))
        about = f"{' '.join('+'.join(groups) or '-' for groups in held)}; {events}"
        _managers(sweep, held, planned, about)
        _atoms(sweep, held, planned, about)
    sweep.progress("memberships", len(worlds), len(worlds))
    moving = [(row, world) for row, world in _moving() if row in SMALL or not quick]
    for done, (row, world) in enumerate(moving):
        sweep.progress("moving", done, len(moving))
        sweep.add(f"work is spread; {row}", row, explore_moving(world, STATES, cut=True))
    return sweep.result(perf_counter() - started)


def _moving() -> Iterator[tuple[str, MovingScenario]]:
    yield "nobody changes", SPREAD
    yield "swap", SPREAD.but(harm=Harm(ranks=(("H", "G"),)))
    yield "deletion", SPREAD.but(harm=Harm(closes=("G",)))
    yield "drain", SPREAD.but(harm=Harm(drains=("N1",)))
    yield "crash", SPREAD.but(harm=Harm(crashes=1))
    yield "zombie", SPREAD.but(harm=Harm(zombies=1))
    joining = {"s": frozenset({"H"})}
    yield "join", SPREAD.but(members=joining, scripts={"s": (("add", ("G",)),)})
    yield "join and leave", SPREAD.but(members=joining, scripts={"s": (("add", ("G",)), ("remove", ("H",)))})
    yield "a new topic", SPREAD.but(events=(*SPREAD.events, Planned("c", "K")))


def _managers(sweep: Sweep, held: Held, events: tuple[Planned, ...], about: str) -> None:
    for threshold in (1, 2):
        scenario = TopicManagerScenario(
            GROUPS,
            {name: frozenset(groups) for name, groups in zip(MEMBERS, held, strict=True) if groups},
            events,
            threshold=threshold,
            plan=forest,
            make_subscriber=WatchedSubscriber,
            promises=(*SAFETY, *LIVENESS, *(("acyclic_order",) if threshold == 1 else ())),
        )
        row = f"managers on the forest, watched; threshold {threshold}"
        sweep.add(row, f"{row}; {about}", sweep.explorer.explore(scenario))


def _atoms(sweep: Sweep, held: Held, events: tuple[Planned, ...], about: str) -> None:
    inside = {g: frozenset(m for m, mine in zip(MEMBERS, held, strict=True) if g in mine) for g in GROUPS}
    for name, graph in (("line", line_of_atoms(inside)), ("forest", forest_of_atoms(inside))):
        check_graph(graph)
        row = f"atoms on the {name}"
        sweep.add(row, f"{row}; {about}", sweep.explorer.explore(AtomScenario(graph, events)))
