"""One moving world, from its data to what is wrong with it."""

from __future__ import annotations

from collections import Counter

from unisono.history import Kind, Outcome, Record, judge
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.ending import Ending
from unisono.sim.moving.processes import HONEST, Makers
from unisono.sim.moving.simulation import Simulation
from unisono.sim.moving.views import unordered
from unisono.sim.moving.world import MovingWorld
from unisono.sim.trial import Trial

ORDER = (
    "no_creation",
    "no_duplication",
    "publisher_fifo",
    "total_notification_order",
    "acyclic_order",
    "causal_order",
)


HAPPENED = (
    "crashes",
    "takeovers",
    "partitions",
    "pauses",
    "re-ranks",
    "swaps",
    "epochs",
    "failed subscriptions",
    "leases run out",
    "new topics",
    "moved topics",
    "late nodes",
    "drained nodes",
    "confirmed patterns",
    "truncations",
    "views",
    "volumes let go",
    "quotas met",
    "refused events",
    "deleted topics",
    "repeated keys",
    "told the past",
    "named gaps",
    "late appends",
    "doubled appends",
    "stored bundles",
    "delivered runs",
    "components on several nodes",
)


def try_moving_seed(seed: int, *, traces: bool = False) -> Trial:
    """Draw the moving world of a seed, run it and judge it."""
    return try_moving(draw_moving(seed), traces=traces)


def try_moving(world: MovingWorld, makers: Makers = HONEST, *, traces: bool = False) -> Trial:
    """Run a world and judge it."""
    ending = Simulation(world, makers, traces=traces).run()
    return Trial(
        world.seed,
        tuple(violations(world, ending)),
        tuple(stuck(world, ending)),
        ending.steps,
        ending.digest if traces else "",
        tuple(traits(world, ending)),
    )


def traits(world: MovingWorld, ending: Ending) -> list[str]:
    """What was special about a world, and what really happened in it."""
    facts = [name for name in HAPPENED if ending.facts[name]]
    if _churned(ending.records):
        facts.append("churn during publication")
    return [*world.traits(), *facts]


def violations(world: MovingWorld, ending: Ending) -> list[str]:
    """What must never happen, and did."""
    tagging = {m.name for m in world.members if m.settings.on_gap in ("tag", "skip")}
    return [
        *ending.faults,
        *_broken(ending.records, ORDER),
        *_broken(_untagged(_only(ending.records, tagging)), ("tags",)),
        *misplaced(ending),
        *unordered(ending.stored, ending.viewed),
    ]


def stuck(world: MovingWorld, ending: Ending) -> list[str]:
    """What should have happened at last, and did not."""
    if ending.faults:
        return []  # it was stopped there and then: nothing can be said about the rest
    owed = {m.name for m in world.members if m.settings.repair}
    released = owed | {m.name for m in world.members if m.settings.max_hold is not None}
    return [
        *ending.restless,
        *(() if ending.restless else ending.missed),
        *_broken(_only(ending.records, owed), ("nothing_lost",)),
        *_broken(_only(ending.records, released), ("no_endless_wait",)),
    ]


def misplaced(ending: Ending) -> list[str]:
    """Nothing is sequenced twice, nothing acknowledged is gone, nothing is delivered that is not stored."""
    problems: list[str] = []
    events = {str(event.publication.id): event for event in ending.stored}
    ids = Counter(str(event.publication.id) for event in ending.stored)
    places = Counter((event.topic, event.number) for event in ending.stored)
    problems += [f"{id} was sequenced {count} times" for id, count in ids.items() if count > 1]
    problems += [f"number {n} of {topic} was taken {c} times" for (topic, n), c in places.items() if c > 1]
    problems += [f"{id} was refused and has a place" for id in ending.refused if id in events]
    keyed = {(e.topic, e.publication.key): e for e in ending.stored if e.publication.key is not None}
    keys = Counter((e.topic, e.publication.key) for e in ending.stored if e.publication.key is not None)
    problems += [f"key {key} has {c} places on {topic}" for (topic, key), c in keys.items() if c > 1]
    for id, sequenced in ending.acknowledged.items():
        same = (sequenced.topic, ending.keys.get(id, ""))
        event = keyed.get(same) if sequenced.repeated else events.get(id)
        if event is None or event.entries != sequenced.entries:
            problems.append(f"{id} was acknowledged and is not stored as it was")
    for record in ending.records:
        if record.kind is Kind.DELIVERED:
            event = events.get(record.event)
            if event is None or event.entries != record.stamp:
                problems.append(f"{record.process} saw {record.event}, which is not stored as it was")
    return problems


def _churned(records: list[Record]) -> bool:
    """Whether somebody came or went between two publications."""
    published = [r.at for r in records if r.kind is Kind.PUBLISHED]
    changes = [r.at for r in records if r.kind in (Kind.SUBSCRIBED, Kind.UNSUBSCRIBED)]
    return bool(published) and any(min(published) < at < max(published) for at in changes)


def _broken(records: list[Record], promises: tuple[str, ...]) -> list[str]:
    verdicts = judge(records, promises)
    return [f"{v.promise}: {v.explanation}" for v in verdicts if v.outcome is Outcome.VIOLATED]


def _only(records: list[Record], members: set[str]) -> list[Record]:
    """The history without the members that are promised less; each life of a member counts."""
    about_all = (Kind.PUBLISHED, Kind.SEQUENCED, Kind.HEALED)
    return [r for r in records if r.kind in about_all or r.process.partition(".")[0] in members]


def _untagged(records: list[Record]) -> list[Record]:
    """Without the tagged deliveries: an epoch may be a reason for a tag that no record shows."""
    return [r for r in records if r.in_order]
