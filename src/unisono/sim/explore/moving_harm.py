"""What a moving world may do to itself, and need not: everything `Harm` has left, at every moment.

Storage is as bad as a replicated one can be where a leader changes: an append that was accepted is stored only later,
wherever the lane ends then, and answered then; or it is stored once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from unisono.engines.inputs import TICK, Controlled, Received, Suspected
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.node import ManagerNode
from unisono.model.frames import Replan
from unisono.sim.explore.search import Step

if TYPE_CHECKING:
    from unisono.sim.explore.moving_world import MovingWorld


def offered(world: MovingWorld) -> Iterator[Step]:
    """Everything that may happen or not."""
    yield from _to_nodes(world)
    yield from _to_storage(world)
    harm = world.harm
    if harm.ticks:
        names = harm.ticking or tuple(world.engines)
        for name in names:
            if name in world.engines and world.engines[name].next_timer() is not None:
                yield ("tick", name)
    for name, engine in world.engines.items():
        if isinstance(engine, Member):
            if harm.reports and engine.report_at is not None:
                yield ("report", name)
            if harm.expiries and _expires(engine) is not None:
                yield ("expire", name)


def _to_nodes(world: MovingWorld) -> Iterator[Step]:
    harm, control = world.harm, world.storage.control
    nodes = harm.mortal or world.scenario.nodes
    alive = [node for node in nodes if node not in world.dead and node in control.live]
    if len([n for n in control.live if n not in world.dead]) > 1:
        if harm.crashes:
            for node in alive:
                yield ("crash", node)
                if _has_output(world, node):
                    yield ("crash silently", node)
        if harm.zombies:
            yield from (("accuse", by, node) for node in alive for by in world.accusers(node))
    for i in range(len(harm.ranks)):
        yield from (("replan", node, str(i)) for node in _planners(world))
    for leaving in harm.drains:
        yield from (("drain", node, leaving) for node in _planners(world))
    for topic in harm.closes:
        yield from (("close", node, topic) for node in _planners(world))
    if harm.finishers and control.state == "sealing":
        for name, engine in world.engines.items():
            if isinstance(engine, ManagerNode) and name != control.decider and not _finishes(world, engine):
                yield ("finish", name)


def _to_storage(world: MovingWorld) -> Iterator[Step]:
    harm, storage = world.harm, world.storage
    for (node, lane), queue in storage.appends.items():
        if queue and node not in world.dead:
            if harm.lost_appends:
                yield ("lose", node, lane)
            if harm.lost_answers:
                yield ("mute", node, lane)
        if queue and storage.accepts(node, lane):
            if harm.late_appends:
                yield ("delay", node, lane)
            if harm.double_appends:
                yield ("double", node, lane)
    if harm.stale_reads:
        for node, asked in storage.reads.items():
            if any(read.tail is None for read in asked):
                yield ("look", node)


def do_harm(world: MovingWorld, step: Step) -> None:
    """Do one of them."""
    match step:
        case ("crash" | "crash silently" as what, node):
            _spend(world, "crashes")
            _crash(world, node, silently=what == "crash silently")
        case ("accuse", by, node):
            _spend(world, "zombies")
            world.handle(by, Suspected(node))
        case ("replan", node, i):
            ranks = world.harm.ranks
            world.harm = msgspec.structs.replace(world.harm, ranks=ranks[: int(i)] + ranks[int(i) + 1 :])
            world.handle(node, Received(node, Replan(world.storage.control.epoch, (), ranks[int(i)])))
        case ("drain", node, leaving):
            left = tuple(name for name in world.harm.drains if name != leaving)
            world.harm = msgspec.structs.replace(world.harm, drains=left)
            world.handle(node, Received(node, Replan(world.storage.control.epoch, leaving=leaving)))
        case ("close", node, topic):
            left = tuple(name for name in world.harm.closes if name != topic)
            world.harm = msgspec.structs.replace(world.harm, closes=left)
            world.handle(node, Received(node, Replan(world.storage.control.epoch, close=(topic,))))
        case ("finish", node):
            _spend(world, "finishers")
            _finish(world, node)
        case ("tick", name):
            _spend(world, "ticks")
            world.tick(name)
        case ("report" | "expire" as what, name):
            _spend(world, "reports" if what == "report" else "expiries")
            member = world.engines[name]
            assert isinstance(member, Member)
            due = member.report_at if what == "report" else _expires(member)
            world.now = max(world.now, due or 0.0)
            world.handle(name, TICK)
        case _:
            _harm_storage(world, step)


def _harm_storage(world: MovingWorld, step: Step) -> None:
    storage = world.storage
    match step:
        case ("lose", node, lane):
            _spend(world, "lost_appends")
            storage.append(node, lane, lost=True)
        case ("mute", node, lane):
            _spend(world, "lost_answers")
            storage.append(node, lane)
        case ("delay", node, lane):
            _spend(world, "late_appends")
            storage.delay(node, lane, answers=True)
        case ("double", node, lane):
            _spend(world, "double_appends")
            storage.delay(node, lane, answers=False)
            world.take(("store", node, lane))
        case ("look", node):
            _spend(world, "stale_reads")
            storage.look_at(node)


def _crash(world: MovingWorld, node: str, *, silently: bool) -> None:
    world.dead |= {node}
    if silently:
        world.storage.forget(node)
        world.links = {link: queue for link, queue in world.links.items() if link[0] != node}
    world.links = {link: queue for link, queue in world.links.items() if link[1] != node}
    world.storage.reads.pop(node, None)
    del world.engines[node]
    world.states.pop(node, None)


def _finish(world: MovingWorld, name: str) -> None:
    """A node finds that an epoch takes too long, and finishes it as well."""
    world.handle(name, Controlled(world.storage.control))
    node = world.engines[name]
    assert isinstance(node, ManagerNode)
    if node.finish_at is not None:
        world.now = max(world.now, node.finish_at)
        world.handle(name, TICK)


def _finishes(world: MovingWorld, node: ManagerNode) -> bool:
    return node.finisher is not None and node.finisher.control.version == world.storage.control.version


def _planners(world: MovingWorld) -> list[str]:
    leader = world.storage.control.leader
    active = world.storage.control.state == "active"
    return [leader] if active and leader not in world.dead and not world.has_news(leader) else []


def _has_output(world: MovingWorld, node: str) -> bool:
    storage = world.storage
    return (
        any(queue for link, queue in world.links.items() if link[0] == node)
        or any(queue for key, queue in storage.appends.items() if key[0] == node)
        or bool(storage.decides.get(node))
    )


def _expires(member: Member) -> float | None:
    """When the event that a member has held longest has been held too long."""
    hold, oldest = member.inner.settings.max_hold, member.inner.held.oldest()
    return None if hold is None or oldest is None else oldest.since + hold


def _spend(world: MovingWorld, what: str) -> None:
    left = max(0, getattr(world.harm, what) - 1)
    world.harm = msgspec.structs.replace(world.harm, **{what: left})
