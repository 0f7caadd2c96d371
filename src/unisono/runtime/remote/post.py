"""Puts packets and notifications on the service, those of one turn of the loop together."""

from __future__ import annotations

import asyncio
import logging

from unisono.ens.port import EventNotificationService
from unisono.model.errors import BackPressureError, ClosedError, PayloadError
from unisono.model.frames import Packet
from unisono.runtime.remote.wire import Note, encode, events_on

log = logging.getLogger("unisono")


class Post:
    """Outgoing frames of one process."""

    def __init__(self, service: EventNotificationService) -> None:
        self.frames = 0
        self.refused = 0  # frames the service did not take; links and rings repeat what was in them
        self._service = service
        self._limit = service.capabilities.frame_bytes_max
        self._packets: dict[str, list[Packet]] = {}
        self._notes: dict[str, list[Note]] = {}
        self._scheduled = False

    def send(self, topic: str, packet: Packet) -> None:
        """A packet."""
        waiting = self._packets.setdefault(topic, [])
        if waiting and waiting[-1].message is None and _is_covered(waiting[-1], packet):
            waiting[-1] = packet
        else:
            waiting.append(packet)
        self._schedule()

    def announce(self, topic: str, note: Note) -> None:
        """A notification for the subscribers of a topic."""
        self._notes.setdefault(events_on(topic), []).append(note)
        self._schedule()

    def publish(self, topic: str, frame: bytes) -> None:
        """A frame of its own."""
        try:
            self._service.publish((topic,), frame)
            self.frames += 1
        except (BackPressureError, ClosedError, PayloadError) as error:
            self.refused += 1
            log.debug("a frame on %s was not taken: %s", topic, error)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Hand over everything that waits."""
        self._scheduled = False
        notes, self._notes = self._notes, {}
        packets, self._packets = self._packets, {}
        for topic, notices in notes.items():  # events first: who is told of its place may look for it
            self._publish_many(topic, notices)
        for topic, parcels in packets.items():
            self._publish_many(topic, parcels)

    def _publish_many(self, topic: str, items: list[Packet] | list[Note]) -> None:
        frame = encode(items)
        if len(frame) <= self._limit or len(items) == 1:
            self.publish(topic, frame)
            return
        half = len(items) // 2
        self._publish_many(topic, items[:half])
        self._publish_many(topic, items[half:])


def _is_covered(earlier: Packet, later: Packet) -> bool:
    """Whether an acknowledgement is in a later packet too."""
    return (earlier.life, earlier.to) == (later.life, later.to) and earlier.acknowledged <= later.acknowledged
