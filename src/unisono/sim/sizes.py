"""How many bytes something is on its way: as many as the bus would send, headers of the network not counted."""

from __future__ import annotations

from unisono.model.codec import encode_frame, encode_packet
from unisono.model.frames import Batch, Notification, Packet, Publication, Run


def packet_bytes(packet: Packet) -> int:
    """The size of a packet."""
    return len(encode_packet(packet))


def notification_bytes(notification: Notification) -> int:
    """The size of a notification."""
    if isinstance(notification, Run):
        places = range(len(notification))
        return sum(len(encode_frame(notification.stamped(place))) for place in places)
    assert not isinstance(notification, Publication | Batch), "only events with a stamp are announced"
    return len(encode_frame(notification))
