"""What a node tells those who watch: its topics, what it counts, and what buses tell it of themselves.

Nobody watches, nothing is told. Somebody asks the nodes every moment (`DESCRIBE`, with TELL or TELL_BRIEFLY in the
frame); the leader says with its signs of life that somebody does; buses hear that, and tell the leader how they are,
once a second, until it says so no longer. A node of a release that knows nothing of this answers as it always did.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.engines.topic_managers.describing import NodeDescription, describe
from unisono.engines.topic_managers.node import ManagerNode
from unisono.model.codec import decode_versioned
from unisono.model.errors import FrameError
from unisono.observability.metrics import Metrics
from unisono.runtime.remote.wire import encode

TELL = b"+"  # with its topics
TELL_BRIEFLY = b"#"  # with their numbers only
PART = "_telling"  # the last word of where a bus tells a node of itself

WATCHED_S = 3.0  # after the last question nobody watches any more
TELL_S = 1.0  # between two tellings of a bus
RECENT_S = 0.35  # a brief telling has only what buses told within it; a whole one has the rest
FORGET_S = 5.0  # a bus that has said nothing for so long is not told of
BUSES_MAX = 256  # that a node tells of
BUSES_OF_CLIENT_MAX = 32
TELLING_BYTES_MAX = 16 * 1024
SUBSCRIPTIONS_MAX = 32  # of a bus that are told of
TOPICS_MAX = 32  # of a subscription


class SubscriptionTelling(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription of a bus, as it is now."""

    name: str
    order: str = ""
    on_gap: str = ""
    topics: int = 0  # that it holds
    clock: dict[str, int] = {}  # of some of them: how far they were delivered or accounted for
    waiting: int = 0  # for the application
    held: int = 0  # for earlier ones
    delivered: int = 0
    tagged: int = 0
    dropped: int = 0
    lost: int = 0
    durable: bool = False


class BusTelling(msgspec.Struct, frozen=True, kw_only=True):
    """One bus, as it is now."""

    bus: str
    told_at: float = 0.0  # by its own clock: several nodes may have heard it, at different times
    epoch: int = 0
    unconfirmed: int = 0
    open: int = 0  # subscriptions, also those that are not told of
    counts: dict[str, int] = {}  # by the names of metrics, what is not 0
    phases: dict[str, tuple[int, ...]] = {}  # how many durations fell into each class
    subscriptions: tuple[SubscriptionTelling, ...] = ()


class NodeTelling(NodeDescription, frozen=True, kw_only=True):
    """One node, and the buses that told it of themselves.

    A brief one has no topics but `numbers`: the newest of each topic, in the order in which the last whole telling
    with the same `layout` named them; and of the buses only those that have just told something.
    """

    layout: int = 0
    numbers: tuple[int, ...] = ()
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    phases: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    buses: tuple[BusTelling, ...] = ()


_tellings: msgspec.msgpack.Decoder[BusTelling] = msgspec.msgpack.Decoder(BusTelling)
_nodes: msgspec.msgpack.Decoder[NodeTelling] = msgspec.msgpack.Decoder(NodeTelling)


def decode_bus(data: bytes) -> BusTelling:
    """What a bus tells of itself."""
    return decode_versioned(data, _tellings, TELLING_BYTES_MAX, "a telling")


def decode_node(data: bytes, bytes_max: int) -> NodeTelling:
    """What a node tells, also one that tells only what it always did."""
    return decode_versioned(data, _nodes, bytes_max, "a telling")


class Watched:
    """On a node: who watches, and what buses told."""

    def __init__(self) -> None:
        self._until = 0.0
        self._buses: dict[str, tuple[float, BusTelling]] = {}
        self._layout: tuple[tuple[str, ...], int] = ((), 0)

    def is_watched(self, now: float) -> bool:
        """Whether somebody has asked lately."""
        return now < self._until

    def hear(self, source: str, frame: bytes, now: float) -> None:
        """A bus tells of itself; FrameError if it makes no sense, or is of somebody else."""
        if not self.is_watched(now):
            return
        telling = decode_bus(frame)
        client = source.partition(".")[0]
        if telling.bus.partition(".")[0] != client:
            raise FrameError(f"'{source}' tells of '{telling.bus[:100]}', which is somebody else")
        self._forget(now)
        mine = [bus for bus in self._buses if bus.partition(".")[0] == client]
        is_new = telling.bus not in self._buses
        if is_new and (len(self._buses) >= BUSES_MAX or len(mine) >= BUSES_OF_CLIENT_MAX):
            return  # there are enough to look at
        self._buses[telling.bus] = (now, telling)

    def answer(self, frame: bytes, engine: ManagerNode, metrics: Metrics, now: float) -> bytes:
        """What somebody is told who asks for a description with this frame."""
        if frame not in (TELL, TELL_BRIEFLY):
            return encode(describe(engine))
        return encode(self.tell(engine, metrics, now, briefly=frame == TELL_BRIEFLY))

    def tell(self, engine: ManagerNode, metrics: Metrics, now: float, *, briefly: bool) -> NodeTelling:
        """The node as it is now, for somebody who watches."""
        self._until = now + WATCHED_S
        self._forget(now)
        topics = tuple(sorted(engine.managers))
        if topics != self._layout[0]:
            self._layout = (topics, self._layout[1] + 1)
        metrics.refresh()
        told = describe(engine) if not briefly else _without_topics(engine)
        return NodeTelling(
            *(getattr(told, name) for name in NodeDescription.__struct_fields__),
            layout=self._layout[1],
            numbers=tuple(engine.managers[topic].number for topic in topics) if briefly else (),
            counts=some_counts(metrics.counters()),
            phases={"store": tuple(metrics.store.counts)},
            buses=tuple(t for at, t in self._buses.values() if not briefly or now - at < RECENT_S),
        )

    def _forget(self, now: float) -> None:
        late = [bus for bus, (at, _) in self._buses.items() if now - at > FORGET_S]
        for bus in late:
            del self._buses[bus]


def some_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Those that are not 0."""
    return {name: count for name, count in counts.items() if count}


def _without_topics(engine: ManagerNode) -> NodeDescription:
    writer = engine.writer
    unconfirmed = 0 if writer is None else len(writer.unconfirmed)
    return NodeDescription(engine.name, engine.epoch, writer is not None, unconfirmed, ())
