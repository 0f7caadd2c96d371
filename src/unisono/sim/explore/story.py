"""What happened in one run, told as a history, and judged.

A log is what happened to one process, in its order, as plain tuples: they are part of a state's identity, so
they must be cheap to compare. Only a run that has ended becomes records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import Deliver, DeliverRun, Drop, Effect, Fail, Lose, Reject
from unisono.engines.sequencing_atoms.receiver import Receiver
from unisono.engines.topic_managers.moving import EPOCH, JOIN
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.history import Kind, Outcome, Record, judge
from unisono.model.frames import Entries, Publication, Stamped
from unisono.model.ids import EventId
from unisono.sim.explore.moving import MOVING_LIVENESS
from unisono.sim.explore.scenario import LIVENESS, Scenario
from unisono.sim.explore.search import Step


class Entry(NamedTuple):
    """One line of a log."""

    kind: Kind
    event: EventId | None
    topic: str
    number: int
    in_order: bool = True
    reason: str = ""


Log: TypeAlias = tuple[Entry, ...]


class Finding(msgspec.Struct, frozen=True):
    """A promise that was broken, the contradiction in words, and the steps that led to it."""

    promise: str
    explanation: str
    trace: tuple[Step, ...] = ()

    @property
    def is_stuck(self) -> bool:
        """Whether something never came, rather than came wrongly."""
        return self.promise in (*LIVENESS, *MOVING_LIVENESS)


class Broken(Exception):
    """An engine denied its own invariants, or refused what a well-meaning world brought it."""


def published(publication: Publication) -> Entry:
    """An application published."""
    return Entry(Kind.PUBLISHED, publication.id, publication.topic, 0)


def told(effects: Iterable[Effect]) -> Log:
    """What a subscriber's application is told."""
    log: list[Entry] = []
    for effect in effects:
        match effect:
            case Deliver(events, in_order):
                log += [_entry(Kind.DELIVERED, event, in_order) for event in events]
            case DeliverRun():
                log += [_entry(Kind.DELIVERED, event) for event in effect.events]
            case Drop(event, reason):
                log.append(_entry(Kind.DROPPED, event, reason=reason))
            case Lose(topic, numbers):
                log += [Entry(Kind.LOST, None, topic, n, reason="no ring holds it any more") for n in numbers]
            case Reject(error) | Fail(error):
                raise Broken(str(error))
    return tuple(log)


def waiting(engine: Engine) -> Log:
    """The events a subscriber holds back, and what each of them waits for."""
    log: list[Entry] = []
    if isinstance(engine, Subscriber):
        for held in engine.held:
            topic = engine.blocker(held.event)
            if topic is None:
                reason = "ready, but forgotten"
            elif topic == EPOCH:
                reason = f"waits for epoch {held.event.epoch}"
            elif topic == JOIN:
                reason = "waits for a join"
            elif topic == held.event.topic:
                reason = f"waits for {topic} #{engine.reached[topic] + 1}"
            else:
                reason = f"waits for {topic} #{held.event.entries[topic]}"
            log.append(_entry(Kind.HELD, held.event, reason=reason))
    elif isinstance(engine, Receiver):
        for event in engine.held:
            name = engine.blocker(event)
            reason = "ready, but forgotten" if name is None else f"waits for {name} #{engine.last[name] + 1}"
            log.append(_entry(Kind.HELD, event, reason=reason))
    return tuple(log)


def tell(
    scenario: Scenario,
    stamped: Iterable[Stamped],
    logs: Mapping[str, Log],
    *,
    subscribers: Mapping[str, frozenset[str]],
) -> list[Record]:
    """The history of a run: what was published and sequenced, and the logs of these subscribers."""
    records: list[Record] = []
    seqs: dict[str, int] = {}
    stamps: dict[tuple[EventId | None, int], Entries] = {}

    def add(process: str, entry: Entry, order: str = "", on_gap: str = "") -> None:
        seqs[process] = seqs.get(process, 0) + 1
        kind, event, topic, number, in_order, reason = entry
        name, stamp = "" if event is None else str(event), stamps.get((event, number))
        records.append(
            Record(
                kind,
                process,
                seqs[process],
                0.0,
                name,
                topic,
                number,
                stamp,
                0,
                in_order,
                order,
                on_gap,
                reason,
            )
        )

    for event in stamped:
        stamps[event.publication.id, event.number] = event.entries
        add("sequencers", _entry(Kind.SEQUENCED, event))
    for name, topics in subscribers.items():
        for topic in sorted(topics):
            add(name, Entry(Kind.SUBSCRIBED, None, topic, 0), scenario.order, scenario.on_gap)
    for process, log in logs.items():
        for entry in log:
            add(process, entry)
    add("world", Entry(Kind.HEALED, None, "", 0))
    return records


def judged(records: list[Record], promises: Iterable[str]) -> Finding | None:
    """The first of these promises that the run broke."""
    for verdict in judge(records, promises):
        if verdict.outcome is Outcome.VIOLATED:
            return Finding(verdict.promise, verdict.explanation + _knot(verdict.promise, records))
    return None


def _knot(promise: str, records: list[Record]) -> str:
    """Where a subscriber waits for ever, the rest of what it holds: usually each waits for another."""
    held = [r for r in records if r.kind is Kind.HELD]
    if promise != "no_endless_wait":
        return ""
    mine = [r for r in held[1:] if r.process == held[0].process]
    return "".join(f", and {r.event} ({r.reason})" for r in mine)


def _entry(kind: Kind, event: Stamped, in_order: bool = True, reason: str = "") -> Entry:
    return Entry(kind, event.publication.id, event.topic, event.number, in_order, reason)
