"""The processes of one run of `bench scaling`, what they cost, and the CPU quota of nodes."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from unisono.cli.bench_peers_runs import HEAR_S, PUBLISH_S, READY_S, Heard, Script, script, watched
from unisono.model.errors import ConfigError

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 10_000
SETTLE_S = 0.2  # between what starts and what is measured
WARM_EVENTS = 10_000  # before what is measured, where nodes are short: what they do once would take long

Mark = tuple[dict[str, float], dict[str, Any]]  # CPU by kind of process, and what the server says of itself


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One system, and what it is to do."""

    topics: int
    holdings: tuple[tuple[int, ...], ...]  # of each subscriber: the topics that it holds
    payload_bytes: int = 100
    nodes: int = 1
    store: str = "local"
    quota: float = 0.0  # of a core, for each node; 0: no limit
    flush_every: int = 4096
    sequencer: str = ""  # by which nodes share the topics; none: topics are dealt to them in turns
    script: str = "system"  # who plays the roles


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run of it."""

    events_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    one_order: bool = False
    cpu_us: dict[str, float] = {}  # per event, of all processes of a kind and of each node; as fast as it can
    slow_cpu_us: dict[str, float] = {}  # the same at the low rate, where every event goes alone
    frames: float | None = None  # that the server took, per event; likewise
    bytes_in: float | None = None  # that the server took, per event; likewise
    slow_bytes_in: float | None = None  # the same at the low rate, where every event goes alone
    faults: list[str] = []
    stall_s: float = 0.0  # for which the machine stood still


async def run(cell: Cell, events: int, rate: int, seconds: float) -> Point:
    """One run; what goes wrong is among its faults."""
    warm = [(WARM_EVENTS, 0)] if cell.quota else []
    phases = [*warm, (events, 0)] + ([(max(2, round(rate * seconds)), rate)] if rate else [])
    return await watched(
        lambda folder: _run(cell, phases, len(warm), folder), lambda fault: Point(faults=[fault])
    )


@asynccontextmanager
async def system(
    cell: Cell, phases: Sequence[tuple[int, int]], folder: Path
) -> AsyncIterator[tuple[dict[str, Any], Script, Script]]:
    """The server and the nodes as they say they are, the subscribers, and the publisher; all of them ready."""
    work = msgspec.to_builtins(cell) | {"phases": list(phases), "package": "benchmarks.scaling"}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(script(cell.script, "serve", folder, **work))
        served = await server.line(READY_S)
        work["url"] = served["url"]
        subscribers = await stack.enter_async_context(script(cell.script, "subscribe", folder, **work))
        await subscribers.line(READY_S)
        publisher = await stack.enter_async_context(script(cell.script, "publish", folder, **work))
        await publisher.line(READY_S)
        yield served, subscribers, publisher


async def _run(cell: Cell, phases: Sequence[tuple[int, int]], warm: int, folder: Path) -> Point:
    """One run, of which the first phases are not measured, only judged."""
    async with system(cell, phases, folder) as (served, subscribers, publisher):
        pids = {
            "publisher": [publisher.pid],
            "server": [served["server"]],
            "nodes": served["nodes"],
            "subscribers": [subscribers.pid],
        } | {f"n{i}": [pid] for i, pid in enumerate(served["nodes"], start=1)}
        firsts, marks = [], []
        with quotas(served["nodes"], cell.quota):
            for _ in phases:
                await asyncio.sleep(SETTLE_S)
                before = spent_s(pids), await _taken(served["monitor"])
                publisher.go()
                _, published = await asyncio.gather(subscribers.line(HEAR_S), publisher.line(PUBLISH_S))
                firsts.append(published["first_ns"])
                marks.append((before, (spent_s(pids), await _taken(served["monitor"]))))
        all_heard = msgspec.convert(await subscribers.line(HEAR_S), list[Heard])
    phases, firsts, marks = phases[warm:], firsts[warm:], marks[warm:]
    fast, *slow = all_heard[warm:]
    (_, taken), (_, taken_then) = marks[0]
    events = phases[0][0]
    return Point(
        events_s=events / ((fast.last_ns - firsts[0]) / 1e9) if fast.last_ns else None,
        p50_ms=slow[0].p50_ms if slow else None,
        p99_ms=slow[0].p99_ms if slow else None,
        one_order=all(heard.one_order for heard in all_heard),
        cpu_us=_cpu_us(marks[0], events),
        slow_cpu_us=_cpu_us(marks[1], phases[1][0]) if slow else {},
        frames=(taken_then["in_msgs"] - taken["in_msgs"]) / events,
        bytes_in=(taken_then["in_bytes"] - taken["in_bytes"]) / events,
        slow_bytes_in=_alone(marks[1], phases[1][0]) if slow else None,
        faults=[fault for heard in all_heard for fault in heard.faults],
    )


def _cpu_us(marks: tuple[Mark, Mark], events: int) -> dict[str, float]:
    (spent, _), (then, _) = marks
    return {kind: (then[kind] - spent[kind]) / events * 1e6 for kind in spent}


def _alone(marks: tuple[Mark, Mark], events: int) -> float:
    (_, taken), (_, then) = marks
    return float((then["in_bytes"] - taken["in_bytes"]) / events)


async def _taken(monitor: str) -> dict[str, Any]:
    """What the server says of itself."""

    def ask() -> dict[str, Any]:
        with urllib.request.urlopen(f"{monitor}/varz", timeout=5) as answer:
            document: dict[str, Any] = msgspec.json.decode(answer.read())
            return document

    return await asyncio.to_thread(ask)


def spent_s(pids: dict[str, list[int]]) -> dict[str, float]:
    """Seconds of CPU that processes have had, by kind; nothing where the system does not tell (not Linux)."""
    with suppress(OSError):
        return {kind: sum(map(_spent_s, mine)) for kind, mine in pids.items()}
    return {}


def _spent_s(pid: int) -> float:
    spent_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends while we look
            spent_ns += int((task / "schedstat").read_text().split()[0])
    return spent_ns / 1e9


def quota_folder() -> Path:
    """Where CPU quotas are made; raises ConfigError where that cannot be done."""
    for root in (CGROUPS, CGROUPS / "cpu"):
        listed = root / "cgroup.subtree_control"
        has_quotas = "cpu" in listed.read_text().split() if listed.exists() else False
        if (has_quotas or (root / "cpu.cfs_quota_us").exists()) and os.access(root, os.W_OK):
            return root
    raise ConfigError("CPU quotas need Linux, root, and a control group with the cpu controller")


@contextmanager
def quotas(pids: Sequence[int], cores: float) -> Iterator[None]:
    """Each process has at most so much of a core; 0: no limit."""
    if not cores:
        yield
        return
    root, quota_us = quota_folder(), max(1000, round(cores * PERIOD_US))
    period_us = round(quota_us / cores)
    folders = [root / f"unisono-bench-{pid}" for pid in pids]
    try:
        for pid, folder in zip(pids, folders, strict=True):
            folder.mkdir()
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text(f"{quota_us} {period_us}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(period_us))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
            (folder / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid, folder in zip(pids, folders, strict=True):
            with suppress(OSError):
                (root / "cgroup.procs").write_text(str(pid))
            with suppress(OSError):
                folder.rmdir()
