"""A network that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Stands between a client and a broker; `cut` ends every connection and admits none, until `mend`."""

    def __init__(self, url):
        self._target = urlsplit(url)
        self._open = set()

    async def start(self, port=0):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = self._target._replace(netloc=f"127.0.0.1:{self._port}").geturl()

    async def _connected(self, reader, writer):
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        both = {writer, back}
        self._open |= both
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            self._open -= both
            for one in both:
                one.close()

    async def _pump(self, reader, writer):
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    def cut(self):
        self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def mend(self):
        await self.start(self._port)


@asynccontextmanager
async def proxy(url):
    one = Proxy(url)
    await one.start()
    try:
        yield one
    finally:
        one.cut()


async def until(condition, within_s=20.0):
    """Wait for a condition, not for a time."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
