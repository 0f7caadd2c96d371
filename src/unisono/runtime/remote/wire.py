"""What travels between processes: on which topics of the service, and how it is written.

    e.<topic>                        stamped events, heartbeats and epochs: nodes to subscribers
    in.<node>.<client>.<part>        packets of a client for a node; the last two words say who sends
    in.<node>.node.<name>            packets of another node
    in._.<client>.ask                a client asks whoever is there for the control record
    in._.<client>.describe           and for a description of every node
    in.<node>.<client>._telling      a bus tells of itself, if somebody watches (telling.py)
    in.<node>.admin.rerank           an operator wants other ranks or owners
    out.<client>.<part>.<node>       packets for a part of a client
    p.<client>.<topic>               subscribers that ask each other for what no node has any more, and answer
    ctl                              the control record, when it has changed
    beat                             a node is alive, and knows this version of the control record

The words that say who sends are what a server's permissions can check. A frame is a version byte and a list: many
packets or notifications of one turn travel together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import msgspec

from unisono.engines.takeover.control import Control
from unisono.engines.takeover.wire import decode_control, encode_control
from unisono.engines.topic_managers.describing import NodeDescription
from unisono.model.bundles import StampedBundle
from unisono.model.codec import FRAME_BYTES_MAX, VERSION, decode_versioned
from unisono.model.errors import ConfigError, TopicError
from unisono.model.frames import EpochNotice, Heartbeat, Packet, PeerAsk, PeerTell, Replan, Stamped
from unisono.model.ids import check_topic
from unisono.model.memo import Memo
from unisono.runtime.remote.pieces import Delta, Piece, read

CONTROL = "ctl"
BEATS = "beat"
ANYBODY = "_"
ASK = "ask"
DESCRIBE = "describe"
RERANK = "rerank"
NODE = "node"  # where a client's name would be, if a node sends; no client can be called so
VOICE = "pub"  # the part of a client that publishes, if its name is one word

Note: TypeAlias = Stamped | Piece | Heartbeat | EpochNotice
"""A notification as it travels."""
Heard: TypeAlias = Stamped | StampedBundle | Delta | Heartbeat | EpochNotice
"""The same once it is read."""
Whole: TypeAlias = Stamped | StampedBundle | Heartbeat | EpochNotice
"""The same as engines take it."""

_PREFIX = bytes([VERSION])
_encoder = msgspec.msgpack.Encoder()


class Beat(msgspec.Struct, frozen=True, array_like=True):
    """A node is alive."""

    node: str
    life: int
    world: int  # which everything it knows is of
    version: int  # of the control record it knows; 0: none yet
    speaks: int = 1  # its release of what is said; see `unisono.model.release`
    oldest: int = 1  # the oldest that it works beside
    trouble: str = ""  # why it cannot store anything now
    latest: int = 0  # the latest life of a client that was heard of
    watched: bool = False  # whether buses are to tell this node how they are


class Told(msgspec.Struct, frozen=True, array_like=True):
    """The control record, and the world it is of: a store that has lost everything begins another one."""

    world: int
    control: bytes
    durability: str = ""  # what stored means here; "": a node that does not say
    speaks: int = 1  # the oldest release that a node here speaks
    oldest: int = 1  # the oldest that a client may speak
    latest: int = (
        0  # the latest life of a client that was heard of: a new one begins later, whatever its clock says
    )


HEARD_BYTES_MAX = 1024 * 1024
HEARD_BY = 128  # bytes at both ends of a frame, by which it is looked for: to hash all of it for everybody takes long
_heard: Memo[bytes, tuple[bytes, list[Heard]]] = Memo(128, HEARD_BYTES_MAX)
_last: tuple[bytes, list[Heard]] = (b"", [])  # what was asked for last: mostly the next one asks for the same

_packets: msgspec.msgpack.Decoder[list[Packet]] = msgspec.msgpack.Decoder(list[Packet])
_notes: msgspec.msgpack.Decoder[list[Note]] = msgspec.msgpack.Decoder(list[Note])
_peers: msgspec.msgpack.Decoder[PeerAsk | PeerTell] = msgspec.msgpack.Decoder(PeerAsk | PeerTell)
_beats: msgspec.msgpack.Decoder[Beat] = msgspec.msgpack.Decoder(Beat)

_nodes: msgspec.msgpack.Decoder[NodeDescription] = msgspec.msgpack.Decoder(NodeDescription)
_replans: msgspec.msgpack.Decoder[Replan] = msgspec.msgpack.Decoder(Replan)
_told: msgspec.msgpack.Decoder[Told] = msgspec.msgpack.Decoder(Told)


def check_word(what: str, name: str) -> str:
    """Return a name that can be one word of a topic; ConfigError otherwise."""
    try:
        if "." in name or name in (ANYBODY, NODE):
            raise TopicError
        return check_topic(name)
    except TopicError:
        raise ConfigError(
            f"{what} '{name}': between processes a name is one word without '.', '*', '>', '/', '+', '#' or spaces, "
            f"and not '{NODE}' or '{ANYBODY}'"
        ) from None


def check_name(name: str) -> str:
    """Return the name of a bus: a client's, or a client's and which of its buses it is (`desk.7`)."""
    for word in name.split(".", 1):
        check_word("bus", word)
    return name


def part_of(name: str) -> str:
    """The address of the part of a client that publishes."""
    return name if "." in name else f"{name}.{VOICE}"


def events_on(topic: str) -> str:
    """Where the stamped events of a topic, or of a pattern, travel."""
    return f"e.{topic}"


def told_by(client: str, topic: str) -> str:
    """Where a client speaks to the other subscribers of a topic."""
    return f"p.{client}.{topic}"


def peers_on(topic: str) -> str:
    """Where subscribers of a topic, or of a pattern, hear each other."""
    return f"p.*.{topic}"


def inbox_of(node: str) -> str:
    """Where a node listens."""
    return f"in.{node}.*.*"


def inbox_of_all() -> str:
    """Where every node listens."""
    return f"in.{ANYBODY}.*.*"


def question(client: str, part: str = ASK) -> str:
    """Where a client asks whoever is there."""
    return f"in.{ANYBODY}.{client}.{part}"


def outbox_of(client: str) -> str:
    """Where a client listens."""
    return f"out.{client}.*.*"


def to_node(source: str, node: str) -> str:
    """Where a packet of a part of a client for a node travels."""
    return f"in.{node}.{source}"


def between_nodes(source: str, node: str) -> str:
    """Where a packet from node to node travels."""
    return f"in.{node}.{NODE}.{source}"


def to_client(address: str, node: str) -> str:
    """Where a packet from a node to a part of a client travels."""
    return f"out.{part_of(address)}.{node}"


def source_of(topic: str) -> tuple[str, bool]:
    """The address a packet in a node's inbox came from, and whether a node's."""
    _, _, client, part = topic.split(".")
    if client == NODE:
        return part, True
    return (client if part == VOICE else f"{client}.{part}"), False


def ends_of(topic: str) -> tuple[str, str]:
    """The address a packet in a client's inbox is for, and the node it came from."""
    _, client, part, node = topic.split(".")
    return (client if part == VOICE else f"{client}.{part}"), node


def encode(items: object) -> bytes:
    """The bytes that carry packets, notifications or a beat."""
    return _PREFIX + _encoder.encode(items)


def decode_packets(data: bytes) -> list[Packet]:
    """The packets that the bytes carry."""
    return decode_versioned(data, _packets, FRAME_BYTES_MAX, "packets")


def decode_notes(data: bytes) -> list[Heard]:
    """The notifications that the bytes carry; subscriptions of one process that hear the same share them."""
    global _last
    if data == _last[0]:
        return _last[1]
    key = data if len(data) <= HEARD_BY else data[:HEARD_BY] + data[-HEARD_BY:]
    known = _heard.get(key)
    if known is not None and known[0] == data:
        _last = known
        return known[1]
    notes = decode_versioned(data, _notes, FRAME_BYTES_MAX, "notifications")
    heard: list[Heard] = [read(note) if isinstance(note, Piece) else note for note in notes]
    _last = data, heard
    _heard.put(key, _last, len(data))
    return heard


def decode_peer(data: bytes) -> PeerAsk | PeerTell:
    """What another subscriber asks or tells."""
    return decode_versioned(data, _peers, FRAME_BYTES_MAX, "a word of a peer")


def decode_beat(data: bytes) -> Beat:
    """The beat that the bytes carry."""
    return decode_versioned(data, _beats, FRAME_BYTES_MAX, "a beat")


def decode_description(data: bytes) -> NodeDescription:
    """The node that the bytes describe."""
    return decode_versioned(data, _nodes, FRAME_BYTES_MAX, "a description")


def decode_replan(data: bytes) -> Replan:
    """What an operator wants."""
    return decode_versioned(data, _replans, FRAME_BYTES_MAX, "a wish")


def for_clients(control: Control) -> bytes:
    """A control record without what nodes mean to make of it, which is not for clients."""
    return encode_control(replace(control, intent=None))


def decode_told(data: bytes) -> tuple[Told, Control]:
    """What the bytes tell, and the control record in it."""
    told = decode_versioned(data, _told, FRAME_BYTES_MAX, "a control record")
    return told, decode_control(told.control)
