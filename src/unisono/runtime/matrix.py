"""Which order on which transport: what keeps the promise, and what happens when something is lost or dies.

`docs/transports.md` shows this table, and a test compares the two.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from unisono.runtime.options import Order

Transport: TypeAlias = Literal[
    "memory", "nats", "nats jetstream", "redis", "redis pubsub", "mqtt", "mqtt qos 0", "udp"
]

TRANSPORTS: tuple[Transport, ...] = (
    "memory",
    "nats",
    "nats jetstream",
    "redis",
    "redis pubsub",
    "mqtt",
    "mqtt qos 0",
    "udp",
)
LOSSY = ("nats", "redis pubsub", "mqtt qos 0")  # what is under way during an outage is lost
ONE_NODE = ("mqtt", "mqtt qos 0")  # no store that nodes could share, so nothing that could fence one of them


class Promise(NamedTuple):
    """What a subscription can count on."""

    engine: str  # what gives events their order
    loss: str  # what happens when the transport loses one
    crash: str  # what happens when whoever sequences dies


NOBODY = "nobody sequences"
TOGETHER = "it ends with its process"
TAKEOVER = "another node takes over; nothing acknowledged is lost"
REFUSED = "refused: a second node. Subscriptions end with ForgottenError when the one node restarts"


DEADLINES = Promise(
    "every bus, among themselves",
    "fetched from others while it is of use, else dropped",
    "nobody sequences; who is left goes on",
)
OVERLAY = Promise(
    "dispatchers", "fetched from other dispatchers; `fifo` goes on without it", "the tree heals"
)
UNSEQUENCED = Promise(
    "refused: use `causal` with `deadline=`, or a broker", "nothing is promised", "nobody sequences"
)


def promise(order: Order, transport: Transport, *, deadline: bool = False) -> Promise:
    """What this order means on this transport, with `deadline=` or without."""
    if order == "causal" and deadline:
        return DEADLINES
    if transport == "udp":
        return OVERLAY if order in ("none", "fifo") else UNSEQUENCED
    if transport == "memory":
        if order in ("none", "fifo"):
            return Promise("the bus", "lost", NOBODY)
        return Promise("topic managers in the process", "repaired from rings", TOGETHER)
    crash = REFUSED if transport in ONE_NODE else TAKEOVER
    if order == "none":
        return Promise("none: as it comes", "lost" if transport in LOSSY else "kept by the broker", crash)
    engine = "topic managers on nodes"
    if order == "fifo":
        engine += ", one topic at a time"
    return Promise(engine, "repaired from the nodes' rings", crash)


def table() -> list[str]:
    """The matrix as lines of Markdown."""
    lines = [
        "| order | transport | what orders | an event is lost | the sequencer dies |",
        "|---|---|---|---|---|",
    ]
    shown: dict[tuple[str, Promise], list[str]] = {}
    orders: tuple[tuple[str, Order], ...] = (
        ("`none`", "none"),
        ("`fifo`", "fifo"),
        ("`total`, `total_causal`, `causal`", "total"),
    )
    for name, order in orders:
        for transport in TRANSPORTS:
            shown.setdefault((name, promise(order, transport)), []).append(transport)
    shown[("`causal` with `deadline=`", DEADLINES)] = list(TRANSPORTS)
    for (name, kept), transports in shown.items():
        lines.append(f"| {name} | {', '.join(transports)} | {kept.engine} | {kept.loss} | {kept.crash} |")
    return lines
