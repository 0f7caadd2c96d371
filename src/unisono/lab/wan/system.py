"""One run of unisono far apart: a NATS server, nodes, subscribers and a publisher, each behind a line of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono.lab.faults.nursery import Nursery
from unisono.lab.faults.processes import Process
from unisono.lab.wan.ends import READY, RECORD, TOPICS, WARM_UP, Phase, Work
from unisono.lab.wan.relay import HOST, Line, Relay
from unisono.model.errors import UnconfirmedError
from unisono.runtime.remote.admin import rerank
from unisono.server import BundledServer, ServerSettings
from unisono.sim.links import ADSL

LOOK_S = 0.02
START_S = 60.0
LATE = 4.0  # times what was to take: a full line carries what was published in a phase after its end
END_S = 30.0  # behind the last publication, for what is still on its way
STOP_S = 5.0
OPTIONS = "?durability=memory&connect_timeout=10"
NODE_READY = '"ready":true'

Floats = NDArray[np.float64]


class Shape(msgspec.Struct, frozen=True):
    """How many processes there are, and where."""

    nodes: int
    subscribers: int
    link_ms: float  # one way, between a process and the server
    placing: str  # "spread": topics over the nodes; "together": on one; "beside": on one at the server's side


class Heard(msgspec.Struct, frozen=True):
    """What came of one phase, over all subscribers."""

    latencies_s: Floats  # of each notification, from publication to the subscriber
    missing: int  # notifications that never came


async def run(shape: Shape, phases: Sequence[Phase], folder: Path) -> list[Heard]:
    """Start everything, publish the phases, stop everything."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(BundledServer(ServerSettings(data=folder / "nats")))
        nursery = Nursery()
        await nursery.open(folder / "nursery.log")
        stack.push_async_callback(nursery.close)
        system = _System(shape, list(phases), folder, server.url, nursery, stack)
        await system.start()
        return await system.measure()


class _System:
    """The processes of a run."""

    def __init__(
        self,
        shape: Shape,
        phases: list[Phase],
        folder: Path,
        url: str,
        nursery: Nursery,
        stack: AsyncExitStack,
    ) -> None:
        self._shape, self._phases, self._folder, self._url = shape, phases, folder, url
        self._nursery, self._stack = nursery, stack
        self._subscribers: dict[str, Process] = {}

    async def start(self) -> None:
        """Nodes, then subscribers, then the topics where they belong."""
        is_far = self._shape.placing != "beside"
        nodes: dict[str, Process] = {}
        for i in range(1, self._shape.nodes + 1):
            url = await self._far_url() if is_far else self._url
            words = ["unisono", "node", "--url", url + OPTIONS, "--name", f"n{i}", "--json"]
            nodes[f"n{i}"] = await self._started(f"n{i}", words)
        await _until(lambda: _all_say(nodes, NODE_READY), START_S, "the nodes are not ready", nodes)
        for i in range(1, self._shape.subscribers + 1):
            self._subscribers[f"s{i}"] = await self._end_started("subscribe", f"s{i}")
        ears = self._subscribers
        await _until(lambda: _all_say(ears, READY), START_S, "the subscribers are not ready", ears)
        owners = list(nodes) if self._shape.placing == "spread" else ["n1"]
        moves = {topic: owners[i % len(owners)] for i, topic in enumerate(TOPICS)}
        await rerank(self._url + OPTIONS, TOPICS, moves)

    async def measure(self) -> list[Heard]:
        """Publish, wait for everybody, read what they had."""
        lasts_s = sum(len(phase.topics) / phase.rate_s for phase in self._phases)
        publisher = {"p1": await self._end_started("publish", "p1")}
        await _until(
            lambda: not publisher["p1"].is_running,
            LATE * lasts_s + START_S,
            "the publisher has not ended",
            publisher,
        )
        if publisher["p1"].code:
            raise UnconfirmedError(
                f"the publisher ended with {publisher['p1'].code}: {_last_words(publisher)}"
            )
        await asyncio.gather(*(each.ended(END_S) for each in self._subscribers.values()))
        for each in self._subscribers.values():
            each.ask_to_stop()
        await asyncio.gather(*(each.ended(STOP_S) for each in self._subscribers.values()))
        files = [self._folder / f"{name}.heard" for name in self._subscribers]
        return collect([read_records(file) for file in files], [len(phase.topics) for phase in self._phases])

    async def _end_started(self, role: str, name: str) -> Process:
        """A publisher or subscriber; the server is at the other end of its line."""
        url = await self._far_url() + OPTIONS
        work = self._folder / f"{name}.json"
        out = str(self._folder / f"{name}.heard") if role == "subscribe" else ""
        work.write_bytes(msgspec.json.encode(Work(url, name, self._phases, out)))
        return await self._started(name, ["unisono.lab.wan.ends", role, str(work)])

    async def _started(self, name: str, words: list[str]) -> Process:
        process = Process(self._nursery, name, words, self._folder)
        await process.start()
        return process

    async def _far_url(self) -> str:
        """Where one process finds the server: behind a line of its own."""
        up, down = Line(ADSL.up_bits_s), Line(ADSL.down_bits_s)
        port = urlsplit(self._url).port
        assert port is not None
        relay = Relay((HOST, port), self._shape.link_ms / 1000, lambda _: ((up,), (down,)))
        listening = await relay.open()
        self._stack.push_async_callback(relay.close)
        return f"nats://{HOST}:{listening}"


def read_records(file: Path) -> list[tuple[int, int, int, int]]:
    """What a subscriber wrote down: published at, phase, number, had at."""
    return list(RECORD.iter_unpack(file.read_bytes())) if file.exists() else []


def collect(rows: Sequence[Sequence[tuple[int, int, int, int]]], counts: Sequence[int]) -> list[Heard]:
    """What subscribers had, by phase; an event that came twice counts when it came first."""
    by_phase: list[list[float]] = [[] for _ in counts]
    for row in rows:
        seen: set[tuple[int, int]] = set()
        for sent_ns, phase, n, had_ns in row:
            if phase != WARM_UP and (phase, n) not in seen:
                seen.add((phase, n))
                by_phase[phase].append((had_ns - sent_ns) / 1e9)
    return [
        Heard(np.array(latencies), count * len(rows) - len(latencies))
        for latencies, count in zip(by_phase, counts, strict=True)
    ]


def _all_say(processes: Mapping[str, Process], word: str) -> bool:
    return all(word in process.text for process in processes.values())


def _last_words(processes: Mapping[str, Process]) -> str:
    words = {name: process.text.strip().splitlines()[-1:] for name, process in processes.items()}
    return "; ".join(f"{name}: {said[0][:200]}" for name, said in words.items() if said) or "nothing said"


async def _until(
    is_so: Callable[[], bool], within_s: float, otherwise: str, processes: Mapping[str, Process]
) -> None:
    """Wait for a condition; raises UnconfirmedError with the last words of these processes."""
    try:
        async with asyncio.timeout(within_s):
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise UnconfirmedError(
            f"{otherwise} after {within_s:g} s; last words: {_last_words(processes)}"
        ) from None
