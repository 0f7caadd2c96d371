"""`unisono.connect`: a URL and some options become a bus."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from unisono.engines.takeover.control import Sequencer
from unisono.ens.port import EventNotificationService
from unisono.ens.registry import open_service
from unisono.history.record import Record
from unisono.model.durability import Durability, check_durability
from unisono.model.errors import ConfigError
from unisono.observability.metrics import Registry
from unisono.observability.tracing import Tracing
from unisono.runtime.bus import PAYLOAD_BYTES_MAX, Bus
from unisono.runtime.deadline.settings import Deadlines
from unisono.runtime.exchange import Exchange
from unisono.runtime.hub import hub_of
from unisono.runtime.naming import made_up_name
from unisono.runtime.nobody import Nobody
from unisono.runtime.observer import Observer
from unisono.runtime.options import check_number
from unisono.runtime.recorder import make_recorder
from unisono.runtime.traced import TracedBus

if TYPE_CHECKING:
    from unisono.journal.options import Journal  # it needs pyarrow, and not everybody has it

FRAME_ROOM = 64 * 1024  # of a frame, for everything but the payload


def _open(url: str) -> EventNotificationService:
    if isinstance(url, str) and url.startswith("udp:"):
        from unisono.runtime.overlay.service import open_udp  # not everybody needs it

        return open_udp(url)
    return open_service(url)


def connect(
    url: str = "memory://",
    *,
    name: str | None = None,
    record: list[Record] | str | Path | None = None,
    journal: Journal | str | Path | None = None,
    outbox: int = 65536,
    payload_max: int = PAYLOAD_BYTES_MAX,
    publish_timeout: float = 30.0,
    node_timeout: float = 5.0,
    causal: bool = False,
    durability: Durability | None = None,
    sequencer: Sequencer | None = None,
    metrics: Registry | None = None,
    trace: Tracing | float = 0.0,
    nodes: bool = True,
    deadlines: Deadlines | None = None,
    peers: bool = False,
) -> Bus:
    """A bus on the service behind `url`. Lazy: nothing happens before `async with bus`.

    `name` is who publishes (made up if left out); `record` takes the history, in a list or a file of JSON
    lines, `journal` in a folder of Parquet segments; `outbox` is how many events may wait to be sent,
    `payload_max` how many bytes one may have, `publish_timeout` how many seconds `publish` waits for its
    confirmation, `node_timeout` how many opening waits for a node to answer where nodes sequence.
    `causal` makes an event wait until those before it on other topics have their places, also where they were
    published without waiting; in one process that is always so.
    `durability` is the least that stored must mean: a system that offers less is refused (docs/durability.md).
    `sequencer` is how the nodes must share their work ("topics" or "atoms", docs/protocols/atoms.md): a system begun
    otherwise is refused; in one process both mean the same.
    `metrics` is where the bus counts (`unisono.observability.metrics.Registry`), `trace` the share of its events
    that is followed from process to process by OpenTelemetry.
    `nodes=False` asks for no nodes: the bus has order="causal" with deadline=, which needs none, and no other.
    `deadlines` says how far clocks may differ and how long an event can be of use (`unisono.Deadlines`); it must be the
    same in all processes.
    `peers` lets subscriptions ask those of other processes for what no node has any more, before it is declared lost,
    and answer them (docs/guarantees.md).
    """
    if name is not None and (not isinstance(name, str) or not name or "/" in name or name != name.strip()):
        raise ConfigError(f"name={name!r}; a bus has a name without slashes or spaces around it")
    check_number("outbox", outbox, whole=True, least=1)
    check_number("payload_max", payload_max, whole=True, least=1)
    check_number("publish_timeout", publish_timeout, positive=True)
    check_number("node_timeout", node_timeout, positive=True)
    if sequencer not in (None, *get_args(Sequencer)):
        raise ConfigError(f"sequencer={sequencer!r}; it is 'topics' or 'atoms'")
    if deadlines is not None and not isinstance(deadlines, Deadlines):
        raise ConfigError(f"deadlines={deadlines!r:.80}; it is unisono.Deadlines(skew_s=..., ...)")
    limits = deadlines or Deadlines()
    service = _open(url)
    said = getattr(getattr(service, "options", None), "durability", None)  # the URL may say it as well
    wanted = check_durability(durability or said or "none")
    name = name or made_up_name(service)
    recorder = make_recorder(name, record, journal)
    observer = Observer(name, metrics, trace) if metrics is not None or trace else None
    kind = TracedBus if observer is not None and observer.traces else Bus
    if not service.capabilities.sequenced:
        payload_max = min(payload_max, service.capabilities.frame_bytes_max)
    if peers and (service.capabilities.carries_objects or not service.capabilities.sequenced or not nodes):
        raise ConfigError(
            f"peers=True is for subscriptions that nodes order; {url} has no nodes, leave it out"
        )
    if service.capabilities.carries_objects:
        if not nodes:
            raise ConfigError(f"nodes=False: {url} has no nodes anyway; leave it out")
        if wanted != "none":
            raise ConfigError(f"durability='{wanted}': {url} keeps nothing beyond this process; leave it out")
        return kind(
            service,
            partial(hub_of, service),
            name,
            recorder,
            outbox,
            payload_max,
            publish_timeout,
            observer,
            limits,
        )
    from unisono.runtime.remote.client import Client  # not everybody needs it
    from unisono.runtime.remote.wire import check_name

    check_name(name)
    payload_max = min(payload_max, service.capabilities.frame_bytes_max - FRAME_ROOM)
    exchange: Callable[[], Exchange] = partial(
        Client,
        service,
        name,
        node_timeout,
        causal=causal,
        durability=wanted,
        sequencer=sequencer,
        peers=peers,
    )
    if not nodes:
        if durability is not None or sequencer is not None:
            raise ConfigError("nodes=False: nobody stores or sequences; leave out durability= and sequencer=")
        exchange = partial(Nobody, service)
    return kind(service, exchange, name, recorder, outbox, payload_max, publish_timeout, observer, limits)
