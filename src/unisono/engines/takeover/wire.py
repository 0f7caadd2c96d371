"""The control record as bytes: one version byte, then MessagePack; bad bytes are a FrameError, never a crash.

A record may hold thousands of topics, and every part of it names them: so each name is written once, and all
that follows speaks of places in that list. Groups of topics that are ordered together are written once as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Control, Intent, PlanKind, Sequencer
from unisono.engines.takeover.volumes import Mark, Volume
from unisono.model.codec import VERSION, decode_versioned
from unisono.model.errors import FrameError, PlanError
from unisono.model.frames import Registration

CONTROL_BYTES_MAX = 64 * 1024 * 1024

_T = TypeVar("_T")
_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Intent(msgspec.Struct, frozen=True, array_like=True):
    kind: PlanKind
    rank: tuple[_Place, ...]
    wants: tuple[tuple[_Place, ...], ...]
    reports: tuple[Registration, ...]
    gone: tuple[str, ...] = ()


class _Volume(msgspec.Struct, frozen=True, array_like=True):
    epoch: _Count
    began_at: float
    begins: dict[str, _Count]
    records: _Count


class _Control(msgspec.Struct, frozen=True, array_like=True):
    version: _Count
    epoch: _Count
    state: Literal["active", "sealing"]
    topics: tuple[str, ...]  # every name once; the rank of the plan first
    ranked: _Count  # so many of them are in the plan
    plan_epoch: _Count
    parents: tuple[_Place | None, ...]
    groups: tuple[tuple[_Place, ...], ...]  # each once
    group: tuple[_Place, ...]  # of each ranked topic, its place among the groups
    owners: dict[str, tuple[_Place, ...]]  # node -> its topics
    nodes: tuple[str, ...]
    lanes: tuple[str, ...]
    sealed: tuple[str, ...]
    archive: tuple[str, ...]
    dead: tuple[str, ...]
    intent: _Intent | None
    decider: str
    patterns: tuple[Registration, ...] = ()
    begins: dict[str, _Count] = {}
    marks: dict[str, tuple[_Count, _Count, _Count]] = {}
    retained: bool = False
    began_at: float = 0.0
    volumes: tuple[_Volume, ...] = ()
    views: tuple[Registration, ...] = ()
    closed: tuple[str, ...] = ()
    extra: dict[str, _Count] = {}  # of marks, where there is some
    sequencer: Sequencer = "topics"


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder: msgspec.msgpack.Decoder[_Control] = msgspec.msgpack.Decoder(_Control)


def encode_control(control: Control) -> bytes:
    """The bytes of a control record; equal records have equal bytes."""
    plan, intent = control.plan, control.intent
    known = dict.fromkeys(plan.rank)
    known |= dict.fromkeys(sorted(control.owner))
    if intent is not None:
        known |= dict.fromkeys((*intent.rank, *(t for wants in intent.wants for t in wants)))
    place = {topic: i for i, topic in enumerate(known)}
    groups: dict[tuple[int, ...], int] = {}
    group = [
        groups.setdefault(tuple(sorted(place[x] for x in plan.group[topic])), len(groups))
        for topic in plan.rank
    ]
    parents = tuple(None if (up := plan.parent[topic]) is None else place[up] for topic in plan.rank)
    owners: dict[str, list[int]] = {}
    for topic, node in control.owner.items():
        owners.setdefault(node, []).append(place[topic])
    wire = _Control(
        version=control.version,
        epoch=control.epoch,
        state=control.state,
        topics=tuple(known),
        ranked=len(plan.rank),
        plan_epoch=plan.epoch,
        parents=parents,
        groups=tuple(groups),
        group=tuple(group),
        owners={node: tuple(sorted(held)) for node, held in owners.items()},
        nodes=control.nodes,
        lanes=control.lanes,
        sealed=control.sealed,
        archive=control.archive,
        dead=control.dead,
        intent=None if intent is None else _pack_intent(intent, place),
        decider=control.decider,
        patterns=tuple(control.patterns[name] for name in sorted(control.patterns)),
        begins=dict(control.begins),
        marks={lane: (mark.older, mark.newer, mark.last) for lane, mark in control.marks.items()},
        began_at=control.began_at,
        views=tuple(control.views[name] for name in sorted(control.views)),
        retained=control.retained,
        closed=control.closed,
        sequencer=control.sequencer,
        extra={lane: mark.extra for lane, mark in control.marks.items() if mark.extra},
        volumes=tuple(_Volume(c.epoch, c.began_at, dict(c.begins), c.records) for c in control.volumes),
    )
    return bytes([VERSION]) + _encoder.encode(wire)


def decode_control(data: bytes, limit: int = CONTROL_BYTES_MAX) -> Control:
    """The control record that the bytes hold."""
    wire = decode_versioned(data, _decoder, limit, "control record")
    try:
        return _unpack(wire)
    except (IndexError, PlanError, ValueError) as error:
        raise FrameError(f"not a control record: {error}") from None


def _pack_intent(intent: Intent, place: dict[str, int]) -> _Intent:
    return _Intent(
        intent.kind,
        tuple(place[topic] for topic in intent.rank),
        tuple(tuple(place[topic] for topic in wants) for wants in intent.wants),
        intent.reports,
        intent.gone,
    )


def _unpack(wire: _Control) -> Control:
    topics = wire.topics
    rank = topics[: wire.ranked]
    if len(set(topics)) != len(topics) or wire.ranked > len(topics):
        raise FrameError("not a control record: its topics are not named once each")
    if not wire.nodes or not set(wire.dead) < set(wire.nodes):
        raise FrameError("not a control record: no node in it is alive")
    if wire.retained and not wire.volumes:
        raise FrameError("not a control record: it keeps the past and does not say where")
    parents = [None if up is None else rank[up] for up in wire.parents]
    groups = [frozenset(_named(held, rank)) for held in wire.groups]
    plan = Plan(
        rank=rank,
        parent=dict(zip(rank, parents, strict=True)),
        group=dict(zip(rank, _named(wire.group, groups), strict=True)),
        epoch=wire.plan_epoch,
    )
    owner = {topic: node for node in wire.owners for topic in _named(wire.owners[node], topics)}
    return Control(
        version=wire.version,
        epoch=wire.epoch,
        state=wire.state,
        plan=plan,
        owner={topic: owner[topic] for topic in topics if topic in owner},
        nodes=wire.nodes,
        lanes=wire.lanes,
        sealed=wire.sealed,
        archive=wire.archive,
        dead=wire.dead,
        intent=None if wire.intent is None else _unpack_intent(wire.intent, topics),
        decider=wire.decider,
        patterns={held.subscriber: held for held in wire.patterns},
        begins=wire.begins,
        marks={lane: Mark(*mark, wire.extra.get(lane, 0)) for lane, mark in wire.marks.items()},
        began_at=wire.began_at,
        views={held.subscriber: held for held in wire.views},
        retained=wire.retained,
        closed=wire.closed,
        sequencer=wire.sequencer,
        volumes=tuple(Volume(c.epoch, c.began_at, c.begins, c.records) for c in wire.volumes),
    )


def _unpack_intent(wire: _Intent, topics: tuple[str, ...]) -> Intent:
    return Intent(
        wire.kind,
        tuple(_named(wire.rank, topics)),
        tuple(tuple(_named(wants, topics)) for wants in wire.wants),
        wire.reports,
        wire.gone,
    )


def _named(places: tuple[int, ...], names: Sequence[_T]) -> list[_T]:
    return [names[place] for place in places]
