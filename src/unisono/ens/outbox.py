"""Frames on their way to a broker: publishing puts them here at once, a task sends them on in batches.

The outbox is bounded in frames and in bytes. While the broker is away it fills; when it is full, publishing raises
BackPressureError. Nothing is thrown away while the service is open: a batch that could not be sent is sent again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from unisono.model.errors import BackPressureError, ClosedError, UnconfirmedError

BATCH_FRAMES_MAX = 512
BATCH_BYTES_MAX = 4 * 1024 * 1024


class Parcel(NamedTuple):
    """A frame, where it goes, and which one it is."""

    n: int
    topic: str
    frame: bytes


class OutageError(Exception):
    """The broker did not take a batch; what is left of it must be sent again."""


Send: TypeAlias = Callable[[list[Parcel]], Awaitable[None]]
"""Returns when all of a batch is in the broker's hands; raises OutageError, the batch shortened to what is not."""


class Outbox:
    """A bounded queue with one sender at its end."""

    def __init__(self, where: str, frames_max: int, bytes_max: int, send: Send, retry_s: float) -> None:
        self._where = where
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._send = send
        self._retry_s = retry_s
        self.waiting = 0  # frames that the broker does not have yet
        self._waiting: deque[Parcel] = deque()
        self._bytes = 0
        self._put = 0  # the number of the newest
        self._sent = 0  # so many are in the broker's hands
        self._some = asyncio.Event()
        self._flushing: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closed: ClosedError | None = None

    def put(self, topic: str, frame: bytes) -> None:
        """Take a frame to send; raises BackPressureError when there is no room."""
        if self._closed is not None:
            raise ClosedError(*self._closed.args)
        if self.waiting >= self._frames_max or self._bytes + len(frame) > self._bytes_max:
            raise BackPressureError(
                f"{self.waiting} frames ({self._bytes} bytes) wait for {self._where}; `await flush()` makes room, "
                "or raise the URL options outbox= and outbox_bytes="
            )
        self._put += 1
        self.waiting += 1
        self._bytes += len(frame)
        self._waiting.append(Parcel(self._put, topic, frame))
        self._some.set()

    async def flush(self, timeout_s: float) -> None:
        """Return when everything put so far is in the broker's hands; raises UnconfirmedError after a time."""
        target = self._put
        if self._sent >= target:
            return
        if self._closed is not None:
            raise ClosedError(*self._closed.args)
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushing.append((target, landed))
        try:
            async with asyncio.timeout(timeout_s):
                await landed
        except TimeoutError:
            raise UnconfirmedError(
                f"{self.waiting} frames still wait for {self._where} after {timeout_s:g} s; they stay in the outbox"
            ) from None

    async def run(self) -> None:
        """Send, for ever."""
        while True:
            self._some.clear()
            while self._waiting:
                await self._deliver(self._batch())
            await self._some.wait()

    def close(self, reason: str) -> None:
        """Refuse more, and release whoever waits for a flush."""
        self._closed = ClosedError(reason)
        for _, landed in self._flushing:
            if not landed.done():
                landed.set_exception(ClosedError(reason))
        self._flushing.clear()

    def _batch(self) -> list[Parcel]:
        waiting, size = self._waiting, 0
        batch: list[Parcel] = []
        while waiting and len(batch) < BATCH_FRAMES_MAX and size < BATCH_BYTES_MAX:
            parcel = waiting.popleft()
            batch.append(parcel)
            size += len(parcel.frame)
        return batch

    async def _deliver(self, batch: list[Parcel]) -> None:
        todo = batch.copy()
        while True:
            try:
                await self._send(todo)
                break
            except OutageError:
                await asyncio.sleep(self._retry_s)
        self._sent += len(batch)
        self.waiting -= len(batch)
        self._bytes -= sum([len(parcel.frame) for parcel in batch])
        while self._flushing and self._flushing[0][0] <= self._sent:
            _, landed = self._flushing.popleft()
            if not landed.done():
                landed.set_result(None)
