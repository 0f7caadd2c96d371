"""Ports: which are free, and what answers there."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from contextlib import ExitStack, suppress
from typing import Any

from unisono.model.errors import ServerError

INFO_S = 2.0


def free_port(host: str) -> int:
    """A port of this machine that nobody listens on."""
    with _bound(host, 0) as probe:
        port: int = probe.getsockname()[1]
        return port


def free_ports(host: str, count: int) -> list[int]:
    """Different ports of this machine that nobody listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(_bound(host, 0)) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


async def monitored(host: str, port: int, path: str) -> tuple[int, bytes] | None:
    """The status and the body of a page of the server's own; None if it does not answer."""
    with suppress(OSError, ValueError, TimeoutError, IndexError):
        async with asyncio.timeout(INFO_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        return int(head.split()[1]), body
    return None


def check_port(host: str, port: int, option: str) -> None:
    """Raise ServerError if this port cannot be had; `option` is how to ask for another."""
    try:
        _bound(host, port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} of {host} is taken; stop what listens there, or give another with {option}"
            raise ServerError(f"{why} (0 takes one that is free)") from None
        if error.errno == errno.EACCES:
            raise ServerError(
                f"port {port} is for the administrator; give one above 1023 with {option}"
            ) from None
        raise ServerError(f"nobody can listen at {host}:{port}: {error.strerror or error}") from None


async def server_info(host: str, port: int) -> dict[str, Any] | None:
    """What a NATS server says of itself when one connects; None if none answers there."""
    with suppress(OSError, ValueError, TimeoutError):
        async with asyncio.timeout(INFO_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                line = await reader.readline()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        if line.startswith(b"INFO "):
            info: dict[str, Any] = json.loads(line[5:])
            return info
    return None


def reachable(host: str) -> str:
    """The host by which this machine reaches what listens at `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def _bound(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    probe = socket.socket(family, kind, proto)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen(1)
    except BaseException:
        probe.close()
        raise
    return probe
