"""A link between one process and the broker that can be cut: one way or both, silently or with a reset, and healed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

HOST = "127.0.0.1"


class Proxy:
    """Forwards bytes while it may. What is not forwarded waits, as it does on a network that heals in time."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._may_pass = {"in": asyncio.Event(), "out": asyncio.Event()}  # seen from the process
        self._refuses = False
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._connected, HOST, 0)
        self.heal()
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """End everything."""
        self._server.close()
        self.heal()
        self.reset()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def cut(self, *ways: str) -> None:
        """Forward nothing any more in these directions ("in", "out"), and say nothing about it."""
        for way in ways:
            self._may_pass[way].clear()

    def refuse(self) -> None:
        """Reset every connection, and each new one."""
        self._refuses = True
        self.reset()

    def heal(self) -> None:
        """Forward again."""
        self._refuses = False
        for passing in self._may_pass.values():
            passing.set()

    def reset(self) -> None:
        """End the connections there are, without a word."""
        for writer in self._writers:
            writer.transport.abort()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._refuses:
                raise ConnectionResetError
            there, back = await asyncio.open_connection(HOST, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, back}
        self._writers |= both
        try:
            await asyncio.gather(self._forward(reader, back, "out"), self._forward(there, writer, "in"))
        finally:
            self._writers -= both
            for one in both:
                one.close()
                with suppress(OSError):
                    await one.wait_closed()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        passing = self._may_pass[way]
        with suppress(OSError):
            while data := await reader.read(65536):
                await passing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
