"""What every peer's script is made of: a process that serves, publishes or subscribes, and says how it went.

`python -m benchmarks.peers.<peer> ROLE WORK` with WORK as JSON. Roles, each of which prints JSON lines:

    check       {"version": ...}, or {"skipped": why} where the peer is not installed
    serve       {"url": ...} when clients may come; ends when its standard input does
    subscribe   {"ready": true}; when every subscriber has everything, or nothing comes any more, a Hearing
    publish     {"ready": true}; after a line on its standard input it publishes, and prints what a Publishing is

All Python peers run on the same event loop, and take events through the same `Row`.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import statistics
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from unisono.cli.loop import run_loop

TOPICS = tuple(f"topic.{i}" for i in range(5))
HEAD = struct.Struct("<QII")  # when it was published (ns), by whom, its number there
PAYLOAD_BYTES = 100
PAD = bytes(PAYLOAD_BYTES - HEAD.size)
FIRST_S = 60.0  # until a first event comes
IDLE_S = 10.0  # without any event, then something is lost
LOOK_S = 0.05
ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of a run is to do."""

    url: str = ""
    folder: str = ""
    subscribers: int = 1
    publishers: int = 1
    publisher: int = 0  # which of them it is
    events: int = 0  # of each publisher
    rate: int = 0  # events/s, in an open loop; 0: as fast as it goes

    @property
    def expected(self) -> int:
        """Events that each subscriber is to have."""
        return self.events * self.publishers


class Publishing(msgspec.Struct, frozen=True, kw_only=True):
    """When a publisher published."""

    first_ns: int
    last_ns: int


class Hearing(msgspec.Struct, frozen=True, kw_only=True):
    """What the subscribers of a run heard."""

    last_ns: int  # when the last of them had its last event
    heard: int  # events of the subscriber that has fewest
    one_order: bool
    faults: list[str]  # in words: what is missing, came twice, or out of order on its topic
    p50_ms: float | None = None  # from publishing to the last subscriber
    p99_ms: float | None = None


class Missing(Exception):
    """The peer is not installed; the text says what to do."""


class Row:
    """What one subscriber has, in the order it had it."""

    def __init__(self, expected: int, *, timed: bool) -> None:
        self.payloads: list[bytes] = []
        self.times: list[int] = []
        self.done_ns = 0
        self.take: Callable[[bytes], None] = self._timed(expected) if timed else self._plain(expected)

    def _plain(self, expected: int) -> Callable[[bytes], None]:
        payloads, append = self.payloads, self.payloads.append

        def take(payload: bytes) -> None:
            append(payload)
            if len(payloads) == expected:
                self.done_ns = time.monotonic_ns()

        return take

    def _timed(self, expected: int) -> Callable[[bytes], None]:
        now, stamp, plain = time.monotonic_ns, self.times.append, self._plain(expected)

        def take(payload: bytes) -> None:
            stamp(now())
            plain(payload)

        return take


class Load:
    """The events of one publisher: all at once, or when they are due."""

    def __init__(self, work: Work) -> None:
        self.first_ns = 0
        self._work = work
        self._ready: list[tuple[str, bytes]] = []
        if not work.rate:
            self._ready = [self._event(n, 0) for n in range(work.events)]

    def _event(self, n: int, now_ns: int) -> tuple[str, bytes]:
        return TOPICS[n % len(TOPICS)], HEAD.pack(now_ns, self._work.publisher, n) + PAD

    async def bursts(self) -> AsyncIterator[Iterator[tuple[str, bytes]]]:
        """Topics and payloads, to be published one by one as each is taken; a burst is what is due."""
        self.first_ns = time.monotonic_ns()
        if not self._work.rate:
            yield iter(self._ready)
            return
        step_ns, n, events = 1_000_000_000 // self._work.rate, 0, self._work.events
        with closing(Alarm()) as alarm:
            while n < events:
                due = min(events, (time.monotonic_ns() - self.first_ns) // step_ns + 1)
                if due > n:
                    yield (self._event(i, time.monotonic_ns()) for i in range(n, due))
                    n = due
                await alarm.wait(self.first_ns + n * step_ns)


class Alarm:
    """Wakes the loop at a moment. Its own timers are good to a millisecond, and for less than half of one it spins."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")

    async def wait(self, at_ns: int) -> None:
        """Until `time.monotonic_ns()` says so."""
        loop = asyncio.get_running_loop()
        rung: asyncio.Future[None] = loop.create_future()
        once = (ctypes.c_long * 4)(0, 0, *divmod(at_ns, 1_000_000_000))
        if self._libc.timerfd_settime(self._timer, ABSOLUTE, once, None):
            raise OSError(ctypes.get_errno(), "the timer cannot be set")
        loop.add_reader(self._timer, rung.set_result, None)
        try:
            await rung
        finally:
            loop.remove_reader(self._timer)

    def close(self) -> None:
        """Give the timer back."""
        os.close(self._timer)


Listening = Coroutine[Any, Any, None]
Publish = Callable[[Load], Coroutine[Any, Any, None]]


class Peer:
    """One peer. A script overrides what differs; `main` does the rest."""

    def check(self) -> str:
        """Its version; raises Missing where it is not installed."""
        raise NotImplementedError

    def serve(self, folder: Path) -> AbstractAsyncContextManager[str]:
        """Whatever clients need, with the URL that they are told."""
        raise NotImplementedError

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        """A connection for each row, closed by the stack; returns when all are subscribed to every topic.

        What is returned is run to its end, or until the rows are full.
        """
        raise NotImplementedError

    def publisher(self, work: Work) -> AbstractAsyncContextManager[Publish]:
        """A connection, and a function that publishes a load."""
        raise NotImplementedError

    # What `main` calls.

    async def subscribe_role(self, work: Work) -> None:
        """Subscribe, say so, wait, judge, say it."""
        rows = [Row(work.expected, timed=bool(work.rate)) for _ in range(work.subscribers)]
        async with AsyncExitStack() as stack:
            tasks = [asyncio.ensure_future(each) for each in await self.subscribe(work, rows, stack)]
            gc.collect()
            gc.freeze()
            say({"ready": True})
            await until_heard(rows, tasks, lambda: sum(len(row.payloads) for row in rows))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        say(
            judge(
                work,
                [[HEAD.unpack_from(payload) for payload in row.payloads] for row in rows],
                [row.times for row in rows],
                [row.done_ns for row in rows],
            )
        )

    async def publish_role(self, work: Work) -> None:
        """Connect, say so, wait for the word, publish, say when."""
        load = Load(work)
        async with self.publisher(work) as publish:
            gc.collect()
            gc.freeze()
            say({"ready": True})
            await told()
            await publish(load)
            say(Publishing(first_ns=load.first_ns, last_ns=time.monotonic_ns()))
            await told()  # connected until all is heard


async def until_heard(
    rows: Sequence[Row], tasks: Sequence[asyncio.Future[None]], count: Callable[[], int]
) -> None:
    """Return when all rows are full, or nothing has come for long; raises what a task raised."""
    heard, since, bound_s = 0, time.monotonic(), FIRST_S
    while not all(row.done_ns for row in rows):
        await asyncio.sleep(LOOK_S)
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if (now_heard := count()) != heard:
            heard, since, bound_s = now_heard, time.monotonic(), IDLE_S
        elif time.monotonic() - since > bound_s:
            return


def judge(
    work: Work,
    heads: Sequence[Sequence[tuple[int, int, int]]],
    times: Sequence[Sequence[int]],
    done_ns: Sequence[int],
) -> Hearing:
    """What rows of (published at, publisher, number) come to; `times` is when each was had, where that was asked."""
    orders = [[(publisher, n) for _, publisher, n in row] for row in heads]
    wanted = {(publisher, n) for publisher in range(work.publishers) for n in range(work.events)}
    faults = []
    for i, order in enumerate(orders):
        had = set(order)
        wrong = {
            "missing": len(wanted - had),
            "unknown": len(had - wanted),
            "twice": len(order) - len(had),
            "out of their publisher's order on a topic": _out_of_order(order),
        }
        faults += [f"subscriber {i}: {count} events {what}" for what, count in wrong.items() if count]
    p50_ms = p99_ms = None
    if work.rate:
        p50_ms, p99_ms = quantiles(last_latencies_ms(heads, times))
    return Hearing(
        last_ns=max(done_ns) if all(done_ns) else 0,
        heard=min(len(order) for order in orders),
        one_order=all(order == orders[0] for order in orders),
        faults=faults,
        p50_ms=p50_ms,
        p99_ms=p99_ms,
    )


def _out_of_order(order: Sequence[tuple[int, int]]) -> int:
    """Events that come behind a later one of the same publisher and topic."""
    newest: dict[tuple[int, int], int] = {}
    count = 0
    for publisher, n in order:
        line = publisher, n % len(TOPICS)
        count += n < newest.get(line, -1)
        newest[line] = max(n, newest.get(line, -1))
    return count


def last_latencies_ms(
    heads: Sequence[Sequence[tuple[int, int, int]]], times: Sequence[Sequence[int]]
) -> list[float]:
    """Of each event: from publishing until the last subscriber that had it."""
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for row, had in zip(heads, times, strict=True):
        for (sent_ns, publisher, n), at_ns in zip(row, had, strict=True):
            _, before_ns = last.get((publisher, n), (0, 0))
            last[publisher, n] = sent_ns, max(before_ns, at_ns)
    return [(at_ns - sent_ns) / 1e6 for sent_ns, at_ns in last.values()]


def quantiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The 50th and the 99th of a hundred."""
    if len(values) < 2:
        return None, None
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return round(cuts[49], 3), round(cuts[98], 3)


def versions(*packages: str) -> str:
    """The packages and their versions; raises Missing where one is not installed."""
    try:
        return ", ".join(f"{package} {version(package)}" for package in packages)
    except PackageNotFoundError as error:
        raise Missing(f"the Python package {error.name} is not installed; 'make setup' installs it") from None


def say(what: object) -> None:
    """One line for the process that started us."""
    sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
    sys.stdout.flush()


async def told() -> None:
    """Return when there is a line on standard input, or its end."""
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def _serve_role(peer: Peer, work: Work) -> None:
    async with peer.serve(Path(work.folder)) as url:
        say({"url": url})
        await told()


def main(peer: Peer) -> None:
    """The script."""
    role, work = sys.argv[1], msgspec.json.decode(sys.argv[2] if len(sys.argv) > 2 else "{}", type=Work)
    if role == "check":
        try:
            say({"version": peer.check()})
        except Missing as missing:
            say({"skipped": str(missing)})
        return
    roles = {"subscribe": peer.subscribe_role, "publish": peer.publish_role}
    run_loop(_serve_role(peer, work) if role == "serve" else roles[role](work))


@asynccontextmanager
async def jetstream_server(folder: Path) -> AsyncIterator[str]:
    """The bundled NATS server as `unisono up` starts it: JetStream on disk, synced every second."""
    from unisono.server import BundledServer, ServerSettings

    async with BundledServer(ServerSettings(data=folder / "nats")) as server:
        yield server.url
