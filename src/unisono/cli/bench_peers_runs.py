"""The processes of one run of `bench peers`: a server, the subscribers, the publishers, each a script of the peer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import unisono
from unisono.model.errors import ConfigError, ServerError
from unisono.server import guard
from unisono.server.child import MODE, tail

T = TypeVar("T", bound=msgspec.Struct)

ROOT = Path(unisono.__file__).resolve().parents[2]
SCRIPTS = ROOT / "benchmarks" / "peers"

CHECK_S = 60.0
READY_S = 60.0
PUBLISH_S = 300.0
HEAR_S = 300.0  # subscribers give up by themselves when nothing comes any more
STOP_S = 20.0
STALL_LOOK_S = 0.1
STALL_S = 1.0


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One workload under one condition."""

    workload: str
    key: str  # how the JSON names the condition
    subscribers: int
    publishers: int = 1
    events: int  # of each publisher
    rate: int = 0  # events/s; 0: as fast as it goes


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run of one peer."""

    peer: str
    cell: Cell
    events_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    one_order: bool = False
    faults: list[str] = []  # in words; also why there is no figure
    stall_s: float = 0.0  # the longest time for which this process had no turn: the machine stood still


class Heard(msgspec.Struct, frozen=True):
    """What subscribers say in the end."""

    last_ns: int
    heard: int
    one_order: bool
    faults: list[str]
    p50_ms: float | None = None
    p99_ms: float | None = None


class Script:
    """A peer's script in a process of its own, which dies with us."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, errors: Path) -> None:
        self._process, self._name, self._errors = process, name, errors

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    async def line(self, within_s: float) -> Any:
        """The next thing it says; raises ServerError when it says nothing."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                said = await self._process.stdout.readline()
        except TimeoutError:
            raise ServerError(f"{self._name} said nothing for {within_s:g} s; {self._complaint()}") from None
        if not said:
            raise ServerError(f"{self._name} ended; {self._complaint()}")
        return msgspec.json.decode(said)

    def go(self) -> None:
        """Give it the word."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def end(self) -> None:
        """Close its input, by which it ends; kill it if it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it at once, and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def _complaint(self) -> str:
        lines = tail(self._errors).splitlines()
        return f"its last words: {lines[-1][:300]}" if lines else "it complained of nothing"


@asynccontextmanager
async def script(
    peer: str, role: str, folder: Path, *, package: str = "benchmarks.peers", **work: Any
) -> AsyncIterator[Script]:
    """A role of a peer's script, ended in the end."""
    errors = folder / f"{role}-{work.get('publisher', 0)}.err"
    program = [sys.executable, "-m", f"{package}.{peer.replace('-', '_')}", role]
    with errors.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-I", "-S", guard.__file__, MODE, str(int(signal.SIGKILL)), str(os.getpid())],
            *[*program, msgspec.json.encode(work | {"folder": str(folder)}).decode()],
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            start_new_session=True,
        )
    running = Script(process, f"{peer} ({role})", errors)
    try:
        yield running
    except BaseException:
        await running.kill()
        raise
    await running.end()


async def check(peer: str) -> tuple[str, str]:
    """Its version and '', or '' and why it is skipped."""
    if not SCRIPTS.is_dir():
        raise ConfigError(f"{SCRIPTS} is not there: bench peers runs in a checkout of unisono")
    with tempfile.TemporaryDirectory(prefix="unisono-peers-") as folder:
        async with script(peer, "check", Path(folder)) as running:
            try:
                said = await running.line(CHECK_S)
            except ServerError as error:
                return "", str(error)
    return said.get("version", ""), said.get("skipped", "")


async def run(peer: str, cell: Cell) -> Run:
    """One run; what goes wrong is among its faults."""
    return await watched(
        lambda folder: _run(peer, cell, folder), lambda fault: Run(peer=peer, cell=cell, faults=[fault])
    )


async def watched(work: Callable[[Path], Awaitable[T]], failed: Callable[[str], T]) -> T:
    """What comes of some work in a folder of its own, with its `stall_s`: for how long the machine stood still."""
    with tempfile.TemporaryDirectory(prefix="unisono-bench-", ignore_cleanup_errors=True) as folder:
        stalls: list[float] = []
        watching = asyncio.create_task(watch_stalls(stalls))
        try:
            done = await work(Path(folder))
        except (ServerError, msgspec.MsgspecError, OSError) as error:
            done = failed(str(error))
        finally:
            watching.cancel()
        return msgspec.structs.replace(done, stall_s=max(stalls, default=0.0))


async def watch_stalls(found: list[float]) -> None:
    """Note when we, who have next to nothing to do, get no turn for long: a virtual machine that was paused."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(STALL_LOOK_S)
        late_s = time.monotonic() - before - STALL_LOOK_S
        if late_s > STALL_S:
            found.append(round(late_s, 1))


async def _run(peer: str, cell: Cell, folder: Path) -> Run:
    work: dict[str, Any] = {
        "subscribers": cell.subscribers,
        "publishers": cell.publishers,
        "events": cell.events,
    }
    work |= {"rate": cell.rate}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(script(peer, "serve", folder))
        url = (await server.line(READY_S))["url"]
        subscribers = await stack.enter_async_context(script(peer, "subscribe", folder, url=url, **work))
        await subscribers.line(READY_S)
        publishers = [
            await stack.enter_async_context(script(peer, "publish", folder, url=url, publisher=i, **work))
            for i in range(cell.publishers)
        ]
        for publisher in publishers:
            await publisher.line(READY_S)
        for publisher in publishers:
            publisher.go()
        heard, *published = await asyncio.gather(
            subscribers.line(HEAR_S), *(publisher.line(PUBLISH_S) for publisher in publishers)
        )
        return outcome(peer, cell, min(said["first_ns"] for said in published), msgspec.convert(heard, Heard))


def outcome(peer: str, cell: Cell, first_ns: int, heard: Heard) -> Run:
    """Figures, from when the first event was published and what was heard."""
    complete = heard.last_ns > 0
    return Run(
        peer=peer,
        cell=cell,
        events_s=heard.heard / ((heard.last_ns - first_ns) / 1e9) if complete else None,
        p50_ms=heard.p50_ms if complete else None,
        p99_ms=heard.p99_ms if complete else None,
        one_order=heard.one_order,
        faults=heard.faults,
    )
