"""Whether a healed world has come to rest, and if not, what keeps it busy."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.engines.topic_managers.member import Member
from unisono.sim.moving.cluster import Cluster
from unisono.sim.moving.storage import Storage


def restless(cluster: Cluster, storage: Storage) -> Iterator[str]:
    """Everything that is still to happen."""
    control = storage.control
    if control.state != "active":
        yield f"epoch {control.epoch} is being sealed"
    up = {process.name for process, _ in cluster.nodes()}
    for name in cluster.world.nodes:
        if name in up and name in control.dead:
            yield f"{name} is up and counts as dead"
        if name not in up and name in control.live:
            yield f"{name} is down and counts as alive"
    for process, node in cluster.nodes():
        if node.epoch != control.epoch:
            yield f"{process.name} serves epoch {node.epoch}, not {control.epoch}"
    for publisher in cluster.publisher_engines():
        if publisher.outgoing or publisher.waiting:
            first = next(iter([*publisher.outgoing.values(), *publisher.waiting]))
            yield f"{first.id} on {first.topic} is not acknowledged"
    for process, member in cluster.members():
        for reason in _restless_member(member):
            yield f"{process.label} {reason}"


def _restless_member(member: Member) -> Iterator[str]:
    inner = member.inner
    if member.new or member.later:
        yield f"is still joining {', '.join(sorted(member.topics))}"
    # Who may not ask for what was lost, and has a buffer but no bound in time, may keep it: nobody is promised more.
    if inner.held and (inner.settings.repair or inner.settings.max_hold is not None):
        first = next(iter(inner.held)).event
        yield f"holds {first.publication.id}, which waits for {inner.blocker(first)!r}"
    if inner.settings.repair and inner.missing.next_timer() is not None:
        yield "still asks for something"
    if inner.settings.repair and inner.clock and inner.epochs.lacks(inner.epoch):
        yield f"was not told of every epoch up to {inner.epochs.heard}"
