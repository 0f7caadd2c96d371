"""A socket for datagrams, behind its guard. What cannot be sent at once is dropped: whoever sends recovers what is lost."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from unisono.engines.datagrams import Guard, Opened, Outgoing
from unisono.engines.datagrams.guard import Happened
from unisono.model.errors import ConfigError
from unisono.runtime.timer import EngineTimer

Where: TypeAlias = tuple[str, int]
"""The address of a peer."""

SOCKET_BYTES = 4 * 1024 * 1024  # asked of the system, in each direction
UNSENT_BYTES_MAX = 1024 * 1024  # of what the system does not take; beyond it datagrams are dropped

log = logging.getLogger("unisono")


class Endpoint(asyncio.DatagramProtocol):
    """Sends and takes payloads: `open` it, `begin` with a guard; `opened` is called with what peers send."""

    def __init__(self, opened: Callable[[str, Where, bytes], None]) -> None:
        self.dropped = 0  # datagrams that the system did not take
        self.stumbles = 0  # payloads that made whoever takes them raise
        self._opened = opened
        self._transport: asyncio.DatagramTransport | None = None
        self._loop = asyncio.get_running_loop()

    async def open(self, host: str, port: int) -> Where:
        """Take the address, and return it; port 0 is one that is free."""
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
            await self._loop.create_datagram_endpoint(
                lambda: self, local_addr=cast(Where, address[:2]), family=family
            )
        except OSError as error:
            raise ConfigError(f"udp://{host}:{port} cannot be taken: {error.strerror or error}") from error
        assert self._transport is not None
        return cast(Where, self._transport.get_extra_info("sockname")[:2])

    def begin(self, guard: Guard) -> None:
        """From now on datagrams are sent and taken; what came before is lost."""
        self.guard = guard
        self._timer = EngineTimer(guard, self._tick)

    def send(self, to: Where, payload: bytes) -> None:
        """Send to a peer; raises PayloadError if it is too large for a datagram."""
        self._do(self.guard.send(to, payload, self._loop.time()))
        self._timer.reset()

    def forget(self, to: Where) -> None:
        """Send nothing there any more."""
        self.guard.forget(to)

    def close(self) -> None:
        """Give the address back."""
        if hasattr(self, "_timer"):
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._transport = cast(asyncio.DatagramTransport, transport)
        it: socket.socket = transport.get_extra_info("socket")
        for direction in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            it.setsockopt(socket.SOL_SOCKET, direction, SOCKET_BYTES)

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Something came; nothing that anybody sends ends us."""
        if self._transport is None or not hasattr(self, "guard"):
            return
        self._do(self.guard.receive(data, addr[:2], self._loop.time()))
        self._timer.reset()

    def error_received(self, exc: Exception) -> None:
        """Nobody is there now: whoever sends will find out by silence."""

    def _tick(self) -> None:
        self._do(self.guard.tick(self._loop.time()))
        self._timer.reset()

    def _do(self, happened: list[Happened] | list[Outgoing]) -> None:
        for it in happened:
            if isinstance(it, Outgoing):
                self._send(it)
            if isinstance(it, Opened):
                try:
                    self._opened(it.name, cast(Where, it.address), it.payload)
                except Exception:
                    self.stumbles += 1
                    log.exception("what '%s' sent could not be taken", it.name)

    def _send(self, out: Outgoing) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if cast(Any, self._transport).get_write_buffer_size() > UNSENT_BYTES_MAX:
            self.dropped += 1
            return
        self._transport.sendto(out.data, cast(Where, out.to))
