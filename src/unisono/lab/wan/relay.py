"""A link of a wide area network, in user space: a TCP relay that hands on every byte later, in its order.

A byte leaves when the lines it needs have carried all bytes before it, and arrives a latency after that. What one
side has not read yet is held back at the other, as TCP does; ends of streams travel like bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, cast

HOST = "127.0.0.1"
HELD_BYTES_MAX = 4 * 1024 * 1024  # on their way in one direction; then nothing more is read
END = b""


class Line:
    """What one place can send, or receive, in a second, whoever it talks to."""

    def __init__(self, bits_s: float) -> None:
        self._bits_s = bits_s
        self._free_at = 0.0

    def carried_at(self, size_bytes: int, now: float) -> float:
        """When it has carried these bytes too."""
        self._free_at = max(now, self._free_at) + 8 * size_bytes / self._bits_s
        return self._free_at


Lines: TypeAlias = tuple[Line, ...]
# From the address of a client: the lines there, and those back.
Ways: TypeAlias = Callable[[str], tuple[Lines, Lines]]


class Relay:
    """Listens in place of a target."""

    def __init__(self, target: tuple[str, int], latency_s: float, ways: Ways = lambda _: ((), ())) -> None:
        self._target, self._latency_s, self._ways = target, latency_s, ways
        self._connecting: set[asyncio.Task[None]] = set()
        self._ends: set[_End] = set()

    async def open(self, host: str = HOST, port: int = 0) -> int:
        """Listen; returns the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def close(self) -> None:
        """End everything, at once."""
        self._server.close()
        for task in tuple(self._connecting):
            task.cancel()
        for end in tuple(self._ends):
            end.abort()

    def _accept(self) -> _End:
        near, far = _End(self._latency_s, self._ends), _End(self._latency_s, self._ends)
        near.other, far.other = far, near
        near.on_made = lambda: self._connect(near, far)
        return near

    def _connect(self, near: _End, far: _End) -> None:
        near.lines, far.lines = self._ways(near.transport.get_extra_info("peername")[0])

        async def connect() -> None:
            try:
                await asyncio.get_running_loop().create_connection(lambda: far, *self._target)
            except OSError:
                near.transport.close()

        task = asyncio.get_running_loop().create_task(connect())
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)


class _End(asyncio.Protocol):
    """One end of a connection: what it reads is written at the other end, later."""

    transport: asyncio.Transport
    other: _End

    def __init__(self, latency_s: float, ends: set[_End]) -> None:
        self.lines: Lines = ()
        self.on_made: Callable[[], None] = lambda: None
        self._latency_s, self._ends = latency_s, ends
        self._loop = asyncio.get_running_loop()
        self._coming: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = self._is_full = self._is_lost = self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._is_open = True
        self._ends.add(self)
        self.on_made()
        self.other.arm()

    def data_received(self, data: bytes) -> None:
        self._hold(data)
        if self._held_bytes > HELD_BYTES_MAX:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._hold(END)
        return True  # the other direction goes on

    def connection_lost(self, exc: Exception | None) -> None:
        self._ends.discard(self)
        self._is_lost = True
        self._hold(END)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.other.arm()

    def abort(self) -> None:
        """Break the connection."""
        if self._timer is not None:
            self._timer.cancel()
        self.transport.abort()

    def _hold(self, data: bytes) -> None:
        at = now = self._loop.time()
        for line in self.lines:
            at = line.carried_at(len(data), at)
        self._held_bytes += len(data)
        self._coming.append((max(at, now) + self._latency_s, data))
        self.arm()

    def arm(self) -> None:
        """See to it that what comes next is written when it is due, if it can be."""
        if self._coming and self._timer is None and self.other._is_open and not self.other._is_full:
            self._timer = self._loop.call_at(self._coming[0][0], self._write)

    def _write(self) -> None:
        self._timer = None
        other, now = self.other, self._loop.time()
        while self._coming and self._coming[0][0] <= now and not other._is_full:
            data = self._coming.popleft()[1]
            self._held_bytes -= len(data)
            if other._is_lost:
                continue
            if data:
                other.transport.write(data)
            else:
                self._end_other()
        if self._held_bytes <= HELD_BYTES_MAX and not self._is_lost:
            self.transport.resume_reading()
        self.arm()

    def _end_other(self) -> None:
        self._is_over = True
        if self._is_lost or self.other._is_over:
            self.other.transport.close()
            self.transport.close()
        elif self.other.transport.can_write_eof():
            self.other.transport.write_eof()
