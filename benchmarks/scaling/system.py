"""One system of `unisono bench scaling`: `python -m benchmarks.scaling.system ROLE WORK`, with WORK as JSON.

Roles as in benchmarks/peers/kit.py, but for any number of topics and nodes, with a payload of any size, and with
subscribers that hold some of the topics. A run has phases; in each the publisher waits for a line on its input.

    serve       {"url", "monitor", "server": pid, "nodes": [pid]}
    subscribe   {"ready": true}; {"done": true} when a phase is heard; of all phases, in the end, a list of Heard
    publish     {"ready": true}; of each phase what a Publishing is

`benchmarks.scaling.jetstream` plays the same roles without us.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import combinations
from pathlib import Path

import msgspec

import unisono
from benchmarks.peers.kit import HEAD, Publishing, Row, last_latencies_ms, quantiles, say, told, until_heard
from benchmarks.peers.kit import Load as PeerLoad
from benchmarks.peers.kit import Work as PeerWork
from benchmarks.peers.unisono import READY_S
from unisono.cli.bench_peers_runs import Heard
from unisono.cli.loop import run_loop
from unisono.runtime.remote.admin import rerank
from unisono.server import BundledServer, ServerSettings
from unisono.server.child import Child

STOP_S = 10.0
Heads = Sequence[tuple[int, int, int]]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of a run is to do."""

    url: str = ""
    folder: str = ""
    topics: int = 1
    holdings: list[list[int]] = []  # of each subscriber: the topics that it holds
    payload_bytes: int = 100
    nodes: int = 1
    store: str = "local"
    flush_every: int = 4096
    sequencer: str = ""  # by which the nodes share the topics; none: topics are dealt to them in turns
    phases: list[tuple[int, int]] = []  # events, and events/s; 0: as fast as it goes

    @property
    def names(self) -> list[str]:
        """The topics."""
        return [f"topic.{i}" for i in range(self.topics)]


class Load(PeerLoad):
    """The events of one phase, over the topics in turns."""

    def __init__(self, work: Work, events: int, rate: int) -> None:
        self._names, self._pad = work.names, bytes(max(0, work.payload_bytes - HEAD.size))
        super().__init__(PeerWork(events=events, rate=rate))

    def _event(self, n: int, now_ns: int) -> tuple[str, bytes]:
        return self._names[n % len(self._names)], HEAD.pack(now_ns, 0, n) + self._pad


async def serve(work: Work) -> None:
    """A server and nodes, until our input ends."""
    settings = ServerSettings(data=Path(work.folder) / "nats", monitor_port=0)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(BundledServer(settings))
        url = f"{server.url}?store=local" if work.store == "local" else f"{server.url}?durability=disk"
        pids = []
        for n in range(1, work.nodes + 1):
            command = [sys.executable, "-m", "unisono", "node", "--json", "--url", url, "--name", f"n{n}"]
            if work.sequencer:
                command += ["--sequencer", work.sequencer]
            node = await Child.start(command, name=f"node n{n}", stdout=asyncio.subprocess.PIPE)
            stack.push_async_callback(node.stop, STOP_S)
            async with asyncio.timeout(READY_S):
                said = await node.output.readline()
            if not said or not msgspec.json.decode(said)["ready"]:
                raise RuntimeError(f"node n{n} said {said!r}")
            pids.append(node.pid)
        say({"url": url, "monitor": server.monitor_url, "server": server.pid, "nodes": pids})
        await told()


async def subscribe(work: Work) -> None:
    """Subscribe, spread the topics over the nodes, and say of each phase what was heard."""
    phases = phases_of(work)
    async with AsyncExitStack() as stack:
        listening: list[asyncio.Future[None]] = []
        for i, held in enumerate(work.holdings):
            bus = await stack.enter_async_context(unisono.connect(work.url, name=f"s{i}"))
            names = [work.names[topic] for topic in held]
            events = await stack.enter_async_context(bus.subscribe(*names, order="total"))
            listening.append(asyncio.ensure_future(_listen(events, [phase.rows[i] for phase in phases])))
        if work.nodes > 1 and not work.sequencer:
            await rerank(work.url, (), {name: f"n{i % work.nodes + 1}" for i, name in enumerate(work.names)})
        await hear(phases, listening)
    say([phase.judge(work) for phase in phases])
    await told()  # not before what we spent has been counted


def phases_of(work: Work) -> list[Phase]:
    """What the subscribers are to have, phase by phase."""
    return [Phase(work, events, rate) for events, rate in work.phases]


async def hear(phases: Sequence[Phase], listening: Sequence[asyncio.Future[None]]) -> None:
    """Say that all are subscribed, and of each phase when it is heard."""
    gc.collect()
    gc.freeze()
    say({"ready": True})
    for phase in phases:
        await until_heard(phase.rows, listening, phase.count)
        say({"done": True})
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)


class Phase:
    """What the subscribers have of one phase."""

    def __init__(self, work: Work, events: int, rate: int) -> None:
        self.events, self.rate = events, rate
        self.due = [sum(_share(events, work.topics, topic) for topic in held) for held in work.holdings]
        self.rows = [Row(due, timed=bool(rate)) for due in self.due]

    def count(self) -> int:
        """Events that were heard so far."""
        return sum(len(row.payloads) for row in self.rows)

    def judge(self, work: Work) -> Heard:
        """What came of it, and whether any two subscribers had what both hold in one order."""
        heads = [[HEAD.unpack_from(payload) for payload in row.payloads] for row in self.rows]
        faults = []
        for i, (due, had) in enumerate(zip(self.due, heads, strict=True)):
            if len(had) != due or len({n for _, _, n in had}) != due:
                faults.append(f"subscriber {i}: {len(had)} events, {due} were due")
        p50_ms = p99_ms = None
        if self.rate:
            p50_ms, p99_ms = quantiles(last_latencies_ms(heads, [row.times for row in self.rows]))
        return Heard(
            last_ns=max(row.done_ns for row in self.rows) if all(row.done_ns for row in self.rows) else 0,
            heard=self.events,
            one_order=all(agree(work, i, j, heads[i], heads[j]) for i, j in _to_compare(work)),
            faults=faults,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
        )


def agree(work: Work, i: int, j: int, ours: Heads, theirs: Heads) -> bool:
    """Whether subscribers i and j had the events of the topics that both hold in one order."""
    common = set(work.holdings[i]) & set(work.holdings[j])

    def shared(heads: Heads) -> list[int]:
        return [n for _, _, n in heads if n % work.topics in common]

    return shared(ours) == shared(theirs)


def _to_compare(work: Work) -> Iterator[tuple[int, int]]:
    """Every two subscribers; those that hold the same are compared with their neighbours only."""
    held = [frozenset(topics) for topics in work.holdings]
    for i, j in combinations(range(len(held)), 2):
        if j == i + 1 or (held[i] != held[j] and held[i] & held[j]):
            yield i, j


def _share(events: int, topics: int, topic: int) -> int:
    """How many of so many events, over the topics in turns, are on one topic."""
    return len(range(topic, events, topics))


async def _listen(events: unisono.Subscription, rows: Sequence[Row]) -> None:
    """The rows of the phases, one after the other: a phase begins when everybody has the one before."""
    source = aiter(events)
    for row in rows:
        take = row.take
        while not row.done_ns:
            take((await anext(source)).data)


async def publish(work: Work) -> None:
    """Of each phase: wait for the word, publish one by one, say when."""
    loads = [Load(work, events, rate) for events, rate in work.phases]
    async with unisono.connect(work.url, name="p0") as bus:
        gc.collect()
        gc.freeze()
        say({"ready": True})
        for load in loads:
            await told()
            n = 0
            async for burst in load.bursts():
                for topic, payload in burst:
                    bus.publish_nowait(topic, payload)
                    n += 1
                    if n % work.flush_every == 0:
                        await bus.flush()
            await bus.flush()
            say(Publishing(first_ns=load.first_ns, last_ns=time.monotonic_ns()))
        await told()


if __name__ == "__main__":
    roles = {"serve": serve, "subscribe": subscribe, "publish": publish}
    run_loop(roles[sys.argv[1]](msgspec.json.decode(sys.argv[2], type=Work)))
