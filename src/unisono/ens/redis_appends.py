"""Records on their way into lanes: as many as wait go in one script, in the order of the calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from unisono.ens.ending import end
from unisono.ens.redis import RedisService
from unisono.model.errors import BackPressureError, ClosedError, UnisonoError

BATCH = 512
BATCH_BYTES = 4 * 1024 * 1024


class Entry(NamedTuple):
    """A record, its lane, what the lane must end with, and the epoch of its writer."""

    lane: str
    record: bytes
    expected: int | None
    epoch: int
    stored: asyncio.Future[int | None]


class Appends:
    """A queue, and a task that takes from it."""

    def __init__(
        self, service: RedisService, append: Callable[[list[Entry]], Awaitable[list[int | None]]]
    ) -> None:
        self._service = service
        self._append = append
        self._queue: deque[Entry] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    def open(self) -> None:
        """Begin to send."""
        if self._sender is None:
            self._service.on_link.append(self._link)
            self._sender = asyncio.create_task(self._run(), name=f"{self._service.url} appends")

    def put(self, lane: str, record: bytes, expected: int | None, epoch: int) -> asyncio.Future[int | None]:
        """Send when it is its turn; raises BackPressureError when too many wait."""
        if self._closed or self._sender is None:
            raise ClosedError(
                f"the store of {self._service.url} is {'closed' if self._closed else 'not open'}"
            )
        o = self._service.options
        if len(self._queue) >= o.outbox or self._bytes + len(record) > o.outbox_bytes:
            raise BackPressureError(
                f"{len(self._queue)} records wait for {self._service.url}; await those before, "
                "or raise the URL options outbox= and outbox_bytes="
            )
        entry = Entry(lane, record, expected, epoch, asyncio.get_running_loop().create_future())
        if self._service.is_up.is_set():
            self._queue.append(entry)
            self._bytes += len(record)
            self._some.set()
        else:
            _fail([entry], ConnectionError(f"{self._service.url} is away; the record was not sent"))
        return entry.stored

    async def close(self) -> None:
        """Fail what is under way."""
        self._closed = True
        if self._link in self._service.on_link:
            self._service.on_link.remove(self._link)
        await end(self._sender)
        self._fail_queue(ClosedError(f"the store of {self._service.url} is closed"))

    async def _run(self) -> None:
        while True:
            self._some.clear()
            while self._queue:
                await self._store(self._batch())
            await self._some.wait()

    def _batch(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._queue and len(batch) < BATCH and size < BATCH_BYTES:
            entry = self._queue.popleft()
            size += len(entry.record)
            if not entry.stored.done():  # else nobody waits for it any more
                batch.append(entry)
        self._bytes -= size
        return batch

    async def _store(self, batch: list[Entry]) -> None:
        try:
            given = await self._append(batch)
        except asyncio.CancelledError:
            _fail(
                batch,
                ClosedError(f"the store of {self._service.url} was closed; the record may be stored or not"),
            )
            raise
        except (UnisonoError, OSError) as error:
            _fail(batch, error)
            if isinstance(error, OSError):
                self._fail_queue(error)
            return
        except Exception as error:  # a bug of ours must not look like silence
            self._closed = True
            broken = ClosedError(f"the store of {self._service.url} broke: {error!r}")
            _fail(batch, broken)
            self._fail_queue(broken)
            raise
        for entry, sequence in zip(batch, given, strict=True):
            if not entry.stored.done():
                entry.stored.set_result(sequence)

    def _link(self, is_up: bool) -> None:
        if not is_up:
            self._fail_queue(ConnectionError(f"{self._service.url} is away; the record was not sent"))

    def _fail_queue(self, error: Exception) -> None:
        queue, self._queue, self._bytes = self._queue, deque(), 0
        _fail(queue, error)


def _fail(entries: list[Entry] | deque[Entry], error: Exception) -> None:
    for entry in entries:
        if not entry.stored.done():
            entry.stored.set_exception(error)
            entry.stored.exception()  # whoever does not await it is not told off for that
