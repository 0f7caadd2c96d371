"""What one node counts, traces and logs. It only looks: nothing that a node does depends on it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from unisono.engines.takeover.control import Control
from unisono.model.bundles import Bundle, StampedBundle
from unisono.model.frames import Create, EpochNotice, Fill, Packet, Publication, Repair, Routed
from unisono.model.lanes import (
    BundleRecord,
    EpochRecord,
    EventRecord,
    JoinRecord,
    LaneRecord,
    SealRecord,
    count_of,
    events_of,
)
from unisono.model.runs import creates_of
from unisono.observability.logs import fields
from unisono.observability.metrics import Metrics, Registry
from unisono.observability.tracing import HEADER, Tracing

if TYPE_CHECKING:
    from unisono.runtime.remote.node import Node

FOLLOWED_MAX = 4096  # events that are followed at once; beyond it the oldest is followed no longer

log = logging.getLogger("unisono.node")


class NodeObserver:
    """The metrics of one node, its traces, and its log."""

    def __init__(self, name: str, registry: Registry | None = None, tracing: Tracing | None = None) -> None:
        self.name = name
        self.metrics = (
            Metrics(role="node", name=name) if registry is None else registry.new(role="node", name=name)
        )
        self.tracing = tracing
        self._registry = registry
        self._newest = (-1, 0)  # epoch and index of the newest record
        self._began: dict[
            tuple[int, int], int
        ] = {}  # epoch and index -> when it was first handed to the store
        self._followed: dict[tuple[str, int, int], int] = {}  # event -> when it came, if it is followed
        self._control: Control | None = None
        self._begun = -1  # the newest epoch that has begun
        self._voided = -1  # the newest epoch whose voids were counted
        self._was_up = True

    def watch(self, node: Node) -> None:
        """The node is about to serve."""
        engine, gauge = node.engine, self.metrics.gauge
        self.metrics.when_read(lambda: self._refresh(node))
        gauge("epoch", lambda: engine.epoch)
        gauge("topics", lambda: len(engine.managers))
        gauge(
            "subscriptions",
            lambda: len(frozenset[str]().union(*(m.registry.subscribers for m in engine.managers.values()))),
        )
        gauge("nodes", lambda: 0 if node.control is None else len(node.control.live))
        gauge("peers", lambda: len(node.links.peers))
        gauge("outbox", lambda: getattr(node.service, "unsent", 0))
        gauge("lanes_unconfirmed", lambda: 0 if engine.writer is None else len(engine.writer.unconfirmed))
        on_link = getattr(node.service, "on_link", None)
        if on_link is not None:
            on_link.append(self._link)

    def close(self) -> None:
        """The node serves no more."""
        if self._registry is not None:
            self._registry.forget(self.metrics)

    def _refresh(self, node: Node) -> None:
        self.metrics.rejected = node.rejected
        self.metrics.link_retries = node.links.repeated
        self.metrics.store_troubles = node.store_troubles

    def _link(self, is_up: bool) -> None:
        self.metrics.outages += self._was_up and not is_up
        self._was_up = is_up

    # What comes in.

    def arrived(self, packets: list[Packet]) -> None:
        """Packets came from the network, and somebody wants to follow their events."""
        for packet in packets:
            for publication in _publications(packet):
                self._follow(publication)

    # What goes out.

    def announces(self, note: object) -> None:
        """Subscribers are told of something else than a single event."""
        if type(note) is StampedBundle:
            self.metrics.announced += sum([part.count for part in note.parts])
        elif isinstance(note, EpochNotice):
            self._begins(note)

    def transmits(self, packet: Packet) -> None:
        """A packet goes to a client or a node."""
        if type(packet.message) is Repair:
            self.metrics.repaired += len(packet.message.events)
        elif self.tracing is not None and self._followed:
            for publication in _publications(packet):  # another node gives it the rest of its numbers
                self._sequenced(publication)

    # Events.

    def appends(self, record: LaneRecord) -> None:
        """A record is handed to the store."""
        if type(record) is SealRecord or type(record) is EpochRecord:
            return
        key = record.epoch, record.index  # type: ignore[union-attr]
        if key <= self._newest:
            return  # it is appended again
        if record.epoch > self._newest[0]:
            self._began.clear()  # what was not confirmed in the epoch before never will be
        self._newest = key
        if type(record) is JoinRecord:
            self.metrics.joins += 1
            return
        self.metrics.sequenced += count_of(record)
        self._began[key] = time.time_ns()
        if self.tracing is not None:
            for event in events_of(record):
                self._sequenced(event.publication)

    def stored(self, record: LaneRecord) -> None:
        """The store has a record."""
        if type(record) is not EventRecord and type(record) is not BundleRecord:
            return
        began = self._began.pop((record.epoch, record.index), None)
        if began is None:
            return  # a copy of one that was confirmed
        now = time.time_ns()
        self.metrics.stored += count_of(record)
        self.metrics.store.observe((now - began) / 1e9)
        if self.tracing is not None:
            for event in events_of(record):
                self.tracing.phase("store", event.publication.headers, began, now, node=self.name)

    def _follow(self, publication: Publication) -> None:
        if publication.headers and HEADER in publication.headers:
            self._followed.setdefault(_key(publication), time.time_ns())
            if len(self._followed) > FOLLOWED_MAX:
                del self._followed[next(iter(self._followed))]

    def _sequenced(self, publication: Publication) -> None:
        began = self._followed.pop(_key(publication), None) if publication.headers else None
        if began is not None and self.tracing is not None:
            self.tracing.phase(
                "sequence", publication.headers, began, node=self.name, topic=publication.topic
            )

    # Epochs.

    def _begins(self, notice: EpochNotice) -> None:
        if notice.epoch > self._voided:
            self._voided = notice.epoch
            self.metrics.voided += sum(
                last - first + 1 for ranges in notice.voids.values() for first, last in ranges
            )

    def controlled(self, control: Control) -> None:
        """The control record has changed, or was only looked at."""
        before, self._control = self._control, control
        if before is None:
            self._begun = control.epoch
            log.info("found epoch %d", control.epoch, extra=fields(node=self.name, nodes=control.live))
            return
        if control.version <= before.version:
            self._control = before
            return
        dead = tuple(sorted(set(control.dead).difference(before.dead)))
        if dead:
            self.metrics.takeovers += control.decider == self.name
            log.info(
                "declared dead: %s",
                ", ".join(dead),
                extra=fields(node=self.name, by=control.decider, epoch=control.epoch),
            )
        for verb, nodes in (
            ("joined", set(control.live).difference(before.live)),
            ("left", set(before.nodes).difference(control.nodes)),
        ):
            if nodes:
                log.info(
                    "%s: %s",
                    verb,
                    ", ".join(sorted(nodes)),
                    extra=fields(node=self.name, epoch=control.epoch),
                )
        self._tell_takeover(before, control)
        if control.state == "active" and control.epoch > self._begun:
            self.metrics.epoch_changes += control.epoch - self._begun
            self._begun = control.epoch
            mine = sum(owner == self.name for owner in control.owner.values())
            log.info(
                "epoch %d began",
                control.epoch,
                extra=fields(node=self.name, decider=control.decider, topics=len(control.owner), mine=mine),
            )

    def _tell_takeover(self, before: Control, control: Control) -> None:
        sources: dict[str, int] = {}
        for topic, owner in control.owner.items():
            former = before.owner.get(topic)
            if owner == self.name and former is not None and former != owner:
                sources[former] = sources.get(former, 0) + 1
        for former, topics in sorted(sources.items()):
            log.info(
                "took over from %s",
                former,
                extra=fields(
                    node=self.name, topics=topics, epoch=control.epoch, was_dead=former in control.dead
                ),
            )


def _publications(packet: Packet) -> list[Publication]:
    """The events that a packet wants numbered."""
    message = packet.message
    if isinstance(message, Routed) and isinstance(message.message, Create | Fill):
        return [message.message.publication]
    return [publication for publication, _ in creates_of(message)] if isinstance(message, Bundle) else []


def _key(publication: Publication) -> tuple[str, int, int]:
    return publication.publisher, publication.incarnation, publication.n
