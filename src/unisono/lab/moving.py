"""The moving worlds of the sweep: joins, leaves, swaps, crashes and zombies racing with two or three events.

Two or three topics, on the rank line and on the forest, exactly, tagged and bounded. What has more states than
its bound is searched up to it, nearest states first; random walks through larger worlds do for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from unisono.engines.takeover.control import PlanKind
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.sim.explore.moving import EXACT, Change, Harm, MovingScenario
from unisono.sim.explore.scenario import Planned
from unisono.sim.explore.walks import TAG

# States a world is searched up to: nobody changes; somebody does; that and harm, exactly and otherwise.
STILL, CHANGING, HARMED, HARMED_TAGGED = 30_000, 8_000, 4_000, 1_500
CORE = 250_000  # the one world of a join and a crash that is searched to its end
WALK_STEPS, WALK_STEPS_QUICK = 1_000_000, 30_000

PLANS: tuple[PlanKind, ...] = ("line", "forest")
DELIVERIES = {
    "exact": EXACT,
    "tag": TAG,
    "buffer 1": SubscriberSettings(on_gap="tag", buffer=1, max_hold=1000.0, repair=True),
}

Holdings: TypeAlias = dict[str, frozenset[str]]
Script: TypeAlias = tuple[Change, ...]


class Moving(NamedTuple):
    """One configuration: its row in the breakdown, its name, its world, and how many states are searched."""

    row: str
    name: str
    world: MovingScenario
    bound: int


def moving_worlds(*, quick: bool) -> Iterator[Moving]:
    """All of them, or the smallest."""
    for kind in PLANS:
        yield from _bundled(kind, quick=quick)
        for name, world in _static(kind):
            for row, harm in _harms(world).items():
                if not quick or (name == "2 topics" and row != "zombie"):
                    # Observers are explored apart, so each kind of delivery costs next to nothing.
                    yield Moving(f"{row}; {kind}", name, _in_every_delivery(world).but(harm=harm), STILL)
        for delivery, settings in DELIVERIES.items():
            if not quick or delivery == "exact":
                yield from _with_changes(kind, delivery, settings, quick=quick)
                yield from _opened(kind, delivery, settings, quick=quick)


def _with_changes(
    kind: PlanKind, delivery: str, settings: SubscriberSettings, *, quick: bool
) -> Iterator[Moving]:
    for name, world in _changing(kind):
        changing = world.but(subscribers=settings)
        small = name.startswith("2 topics") and len(world.events) == 2
        if small or not quick:
            yield Moving(f"joins and leaves; {kind}; {delivery}", name, changing, CHANGING)
        if quick or len(world.events) > 2:
            continue
        for row in ("swap", "crash", "zombie"):
            bound = HARMED if delivery == "exact" else HARMED_TAGGED
            if (row, kind, delivery) == ("crash", "line", "exact") and "adds the upper" in name:
                bound = CORE
            harm = _harms(world)[row]
            yield Moving(f"joins and leaves, {row}; {kind}; {delivery}", name, changing.but(harm=harm), bound)


def _bundled(kind: PlanKind, *, quick: bool) -> Iterator[Moving]:
    """Events that are published at once, beside single ones, and in pieces that come in any order."""
    world = _of("T1:N1 T2:N1", "a:T1:p b:T2:p", kind, {}).but(spare=("N2",), at_once=True)
    alone = _with(world, {"s": "T1 T2"}, {}).but(threshold=1, harm=Harm(crashes=1, mortal=("N1",)))
    yield Moving(f"bundles, crash; {kind}", "a bundle for one", alone, STILL)
    two = _with(world, {"s1": "T1 T2", "s2": "T1 T2"}, {})
    beside = two.but(events=_events("a:T1:p b:T2:p c:T2:q"))
    later = _with(beside, {"s1": "T1 T2", "s2": "T2"}, {"s2": "+T1"})
    for name, made in (("a bundle", two), ("and a single event", beside), ("and a join", later)):
        if not quick or made is not later:
            yield Moving(f"bundles; {kind}", name, made, CHANGING)
        for row in ("swap", "crash", "zombie", "lost append"):
            if not quick or (made is two and row == "lost append"):
                bound = HARMED_TAGGED if made is later else HARMED
                yield Moving(f"bundles, {row}; {kind}", name, made.but(harm=_harms(made)[row]), bound)


def _opened(kind: PlanKind, delivery: str, settings: SubscriberSettings, *, quick: bool) -> Iterator[Moving]:
    """A topic is made while somebody listens to a pattern it belongs to, or comes to."""
    news = frozenset({"new.*"})
    holder = _of("T1:N1", "a:T1 n:new.1", kind, {"o": "T1 new.1"}).but(
        subscribers=settings, spare=("N2",), patterns={"o": news, "s": news}
    )
    comer = _of("T1:N1", "n:new.1", kind, {}).but(subscribers=settings, spare=("N2",))
    for name, world in (
        ("its holder listens", _with(holder, {"s": "T1"}, {})),
        ("its holder comes", _with(comer, {"s": "T1"}, {"s": "+new.*"})),
        ("its holder goes and returns", _with(comer, {"s": ""}, {"s": "+new.* -new.* +new.*"})),
    ):
        if not quick or "returns" not in name:
            yield Moving(f"new topics; {kind}; {delivery}", name, world, CHANGING)
        if not quick:
            for row, harm in {
                "crash": Harm(crashes=1, mortal=("N1",)),
                "drain": Harm(drains=("N1",)),
            }.items():
                bound = HARMED if delivery == "exact" else HARMED_TAGGED
                yield Moving(f"new topics, {row}; {kind}; {delivery}", name, world.but(harm=harm), bound)


def _in_every_delivery(world: MovingScenario) -> MovingScenario:
    names = list(world.observers)
    settings = {name: list(DELIVERIES.values())[i % len(DELIVERIES)] for i, name in enumerate(names)}
    return world.but(settings=settings)


def _harms(world: MovingScenario) -> dict[str, Harm]:
    return {
        "swap": Harm(ranks=(tuple(reversed(world.topics)),)),
        "crash": Harm(crashes=1),
        "zombie": Harm(zombies=1),
        "lost append": Harm(lost_appends=1),
        "lost answer": Harm(lost_answers=1),
        "swap, stale read": Harm(ranks=(tuple(reversed(world.topics)),), stale_reads=1),
    }


def _static(kind: PlanKind) -> Iterator[tuple[str, MovingScenario]]:
    """Nobody joins or leaves."""
    two = _of("T1:N1 T2:N2", "a:T1 b:T2", kind, dict.fromkeys(("o1", "o2", "o3"), "T1 T2"))
    yield "2 topics", two
    yield "2 topics, 3 events", two.but(events=_events("a:T1 b:T2 c:T2"))
    yield (
        "2 topics on one node",
        _of("T1:N1 T2:N1", "a:T1 b:T2", kind, dict.fromkeys(("o1", "o2", "o3"), "T1 T2")).but(
            spare=("N2",), threshold=1
        ),
    )
    all_three = dict.fromkeys(("o1", "o2", "o3"), "T1 T2 T3")
    yield "3 topics", _of("T1:N1 T2:N2 T3:N1", "b:T2 c:T3", kind, all_three)
    lanes = {"o1": "T2 T3", "o2": "T2 T3", "o3": "T1 T3", "o4": "T1 T3"}
    yield "3 topics, two lanes", _of("T1:N1 T2:N2 T3:N1", "b:T2 c:T3", kind, lanes)
    yield "3 topics, 3 events", _of("T1:N1 T2:N2 T3:N1", "a:T1 b:T2 c:T3", kind, all_three)


def _changing(kind: PlanKind) -> Iterator[tuple[str, MovingScenario]]:
    """Somebody joins or leaves."""
    both = {"o": "T1 T2"}
    for name, held, script in (
        ("adds the upper", "T2", "+T1"),
        ("adds the lower", "T1", "+T2"),
        ("leaves the upper", "T1 T2", "-T1"),
        ("leaves the lower", "T1 T2", "-T2"),
        ("one after the other", "T2", "-T2 +T1"),
    ):
        for events in ("a:T1 b:T2", "a:T1 b:T2 c:T2"):
            world = _of("T1:N1 T2:N2", events, kind, both)
            yield f"2 topics, {name}, {events}", _with(world, {"s": held}, {"s": script})
    for name, held, script in (
        ("adds the top", "T3", "+T1"),
        ("adds the middle", "T1 T3", "+T2"),
        ("adds two", "T3", "+T1,T2"),
        ("leaves and returns", "T1 T3", "-T1 +T1"),
    ):
        world = _of("T1:N1 T2:N2 T3:N1", "a:T1 c:T3", kind, {"o": "T1 T2 T3"})
        yield f"3 topics, {name}", _with(world, {"s": held}, {"s": script})
        yield (
            f"3 topics, {name}, 3 events",
            _with(world.but(events=_events("a:T1 b:T2 c:T3")), {"s": held}, {"s": script}),
        )
    two_joins = _of("T1:N1 T2:N1", "a:T1 b:T2 c:T2", kind, both)
    yield "2 topics, two joins", _with(two_joins, {"s1": "T1", "s2": "T2"}, {"s1": "+T2", "s2": "+T1"})


def _of(owner: str, events: str, kind: PlanKind, observers: dict[str, str]) -> MovingScenario:
    owners = dict(pair.split(":") for pair in owner.split())
    return MovingScenario(tuple(owners), owners, _events(events), _holdings(observers), kind=kind)


def _with(world: MovingScenario, members: dict[str, str], scripts: dict[str, str]) -> MovingScenario:
    return world.but(
        members=_holdings(members), scripts={name: _script(text) for name, text in scripts.items()}
    )


def _events(text: str) -> tuple[Planned, ...]:
    """As in "a:T1", or "a:T1:p" if it is not of a publisher of its own."""
    return tuple(_planned(*event.split(":")) for event in text.split())


def _planned(name: str, topic: str, publisher: str = "") -> Planned:
    return Planned(name, topic, publisher)


def _holdings(held: dict[str, str]) -> Holdings:
    return {name: frozenset(topics.split()) for name, topics in held.items()}


def _script(text: str) -> Script:
    return tuple(("add" if w[0] == "+" else "remove", tuple(w[1:].split(","))) for w in text.split())
