"""Whether a healed world has come to rest, and if not, what keeps it busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import matching
from unisono.engines.topic_managers.member import Member
from unisono.history import Kind, Record
from unisono.model.frames import Stamped
from unisono.model.ids import matches
from unisono.sim.moving.cluster import Cluster
from unisono.sim.moving.storage import Storage


def restless(cluster: Cluster, storage: Storage) -> Iterator[str]:
    """Everything that is still to happen."""
    control = storage.control
    if control.state != "active":
        yield f"epoch {control.epoch} is being sealed"
    left = {process.name for process, node in cluster.nodes() if node.has_left}
    up = {process.name for process, _ in cluster.nodes()}
    for name in cluster.world.nodes:
        if name in up and name in control.dead:
            yield f"{name} is up and counts as dead"
        if name in up and name not in control.nodes and name not in left:
            yield f"{name} is up and does not count"
        if name not in up and name in control.live:
            yield f"{name} is down and counts as alive"
    for process, node in cluster.nodes():
        if node.epoch != control.epoch:
            yield f"{process.name} serves epoch {node.epoch}, not {control.epoch}"
    for publisher in cluster.publisher_engines():
        if publisher.outgoing or publisher.waiting or publisher.strangers:
            aside = [publication for found in publisher.strangers.values() for publication in found]
            first = next(iter([*publisher.outgoing, *publisher.waiting, *aside]))
            yield f"{first.id} on {first.topic} is not acknowledged"
    for process, member in cluster.members():
        for reason in (*_restless_member(member), *_restless_patterns(member, control)):
            yield f"{process.label} {reason}"


def _restless_member(member: Member) -> Iterator[str]:
    inner = member.inner
    if member.recalling is not None:
        yield "is still told the past"
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


def _restless_patterns(member: Member, control: Control) -> Iterator[str]:
    if member.inner.hoped:
        yield f"still asks for {', '.join(sorted(member.inner.hoped))}"
    if lacking := [
        t for t in matching(member.inner.patterns, control.plan.rank) if t not in member.inner.clock
    ]:
        yield f"is not owed {', '.join(lacking)} yet"
    if member.inner.patterns and control.plan.rank and member.inner.epochs.lacks(member.inner.epoch):
        yield "was not told of every epoch"


def missed(
    records: list[Record],
    stored: list[Stamped],
    promised: Mapping[tuple[str, str], float],
    admitted: Mapping[str, Mapping[str, int]],
) -> Iterator[str]:
    """What was published on a topic of a pattern after that was confirmed, and is not owed to its holder."""
    published = {record.event: record.at for record in records if record.kind is Kind.PUBLISHED}
    for (member, pattern), since in promised.items():
        for event in stored:
            id = str(event.publication.id)
            if matches(pattern, event.topic) and published[id] > since:
                floor = admitted.get(member, {}).get(event.topic)
                if floor is None or floor >= event.number:
                    yield f"patterns: {member} holds {pattern} and is not owed {id} on {event.topic}"
