"""Puts packets and notifications on the service, those of one turn of the loop together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from unisono.ens.port import EventNotificationService
from unisono.model.errors import BackPressureError, ClosedError, PayloadError
from unisono.model.frames import Packet, Stamped
from unisono.runtime.remote.pieces import Piece
from unisono.runtime.remote.wire import Note, encode, events_on

ACKNOWLEDGE_S = 0.02  # far less than after which a link repeats itself

log = logging.getLogger("unisono")


class Post:
    """Outgoing frames of one process."""

    def __init__(self, service: EventNotificationService) -> None:
        self.frames = 0
        self.refused = 0  # frames the service did not take; links and rings repeat what was in them
        self._service = service
        # When what follows from everything that was read at once is known, or in the next turn of the loop.
        self.soon: Callable[[Callable[[], None]], object] = (
            getattr(service, "soon", None) or asyncio.get_running_loop().call_soon
        )
        self._push: Callable[[], None] | None = getattr(service, "push", None)
        self._publish_now: Callable[[str, bytes], bool] = getattr(service, "publish_now", _not_now)
        self._limit = service.capabilities.frame_bytes_max
        self._packets: dict[str, list[Packet]] = {}
        self._notes: dict[str, list[Note]] = {}
        self._has_pieces = False  # of bundles, among the notes
        self._scheduled = False
        self._acknowledgements: dict[str, Packet] = {}  # by topic, the last one
        self._timer: asyncio.TimerHandle | None = None  # when they are sent

    def send(self, topic: str, packet: Packet) -> None:
        """A packet."""
        self.put(topic, packet)
        if not self._scheduled and self._packets:
            self._schedule()

    def put(self, topic: str, packet: Packet) -> None:
        """A packet, for whoever flushes by themselves."""
        waiting = self._packets.get(topic)
        if packet.message is None and packet.acknowledged:
            if waiting is None or not _is_covered(packet, waiting[-1]):
                self._acknowledge(topic, packet)
            return
        held = self._acknowledgements.pop(topic, None) if self._acknowledgements else None
        if waiting is None:
            waiting = self._packets[topic] = []
        if held is not None and not _is_covered(held, packet):
            waiting.append(held)
        waiting.append(packet)

    def _acknowledge(self, topic: str, packet: Packet) -> None:
        """That something was heard can wait a little: mostly a packet goes the same way soon, and says it too."""
        held = self._acknowledgements.get(topic)
        if held is not None and not _is_covered(held, packet):
            self._packets.setdefault(topic, []).append(held)
            self._schedule()
        self._acknowledgements[topic] = packet
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACKNOWLEDGE_S, self._send_acknowledgements)

    def _send_acknowledgements(self) -> None:
        self._timer = None
        held, self._acknowledgements = self._acknowledgements, {}
        for topic, packet in held.items():
            self._packets.setdefault(topic, []).append(packet)
        self.flush()

    def close(self) -> None:
        """Send nothing later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def announce(self, topic: str, note: Note) -> None:
        """A notification for the subscribers of a topic."""
        if type(note) is Piece:
            self._has_pieces = True
        elif self._has_pieces and type(note) is Stamped:
            self._publish_notes()  # else it would overtake pieces of an earlier bundle, which are on other topics
        waiting = self._notes.get(topic)
        if waiting is None:
            self._notes[topic] = [note]
            self._schedule()
        else:
            waiting.append(note)

    def publish(self, topic: str, frame: bytes) -> None:
        """A frame of its own."""
        if len(frame) <= self._limit and self._publish_now(topic, frame):
            self.frames += 1
            return
        try:
            self._service.publish((topic,), frame)
            self.frames += 1
        except (BackPressureError, ClosedError, PayloadError) as error:
            self.refused += 1
            log.debug("a frame on %s was not taken: %s", topic, error)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.soon(self.flush)

    def flush(self) -> None:
        """Hand over everything that waits."""
        self._scheduled = False
        if self._notes:
            self._publish_notes()  # events first: who is told of its place may look for it
        elif not self._packets:
            return
        packets, self._packets = self._packets, {}
        for topic, parcels in packets.items():
            self._publish_many(topic, parcels)
        if self._push is not None:
            self._push()

    def _publish_notes(self) -> None:
        notes, self._notes = self._notes, {}
        self._has_pieces = False
        for topic, notices in notes.items():
            self._publish_many(events_on(topic), notices)

    def _publish_many(self, topic: str, items: list[Packet] | list[Note]) -> None:
        try:
            frame = encode(items)
        except (OverflowError, UnicodeEncodeError) as error:
            if len(items) == 1:
                self.refused += 1
                log.error("a frame on %s cannot be written: %s", topic, error)
                return
        else:
            if len(frame) <= self._limit or len(items) == 1:
                self.publish(topic, frame)
                return
        half = len(items) // 2
        self._publish_many(topic, items[:half])
        self._publish_many(topic, items[half:])


def _not_now(topic: str, frame: bytes) -> bool:
    """A service that has no short way."""
    return False


def _is_covered(earlier: Packet, later: Packet) -> bool:
    """Whether an acknowledgement is in a later packet too."""
    return (earlier.life, earlier.to) == (later.life, later.to) and earlier.acknowledged <= later.acknowledged
