"""A connection that lives in a thread of its own, for callers that know no event loop; one per process and URL."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import TimeoutError as LateError
from typing import Any, TypeVar

from unisono.ens.ending import end
from unisono.ens.nats import NatsService
from unisono.ens.nats_api import state_of
from unisono.ens.nats_store import NatsStore
from unisono.ens.registry import open_service
from unisono.ens.store import Store
from unisono.model.codec import decode_record
from unisono.model.errors import ConfigError, FrameError, UnconfirmedError, VersionError
from unisono.model.lanes import LaneRecord, SealRecord
from unisono.runtime.bus import Bus
from unisono.runtime.connecting import connect
from unisono.runtime.remote.chest import Chest

PATIENCE_S, AGAIN_S = 60.0, 0.2  # a server may be restarted, or elect a leader, while we read
BOUND_S = 300.0  # for anything that is asked for; each step of it has a bound of its own
CLOSE_S = 5.0
CONFIRM_S = 120.0  # for what is published: an outage may last so long
NOTHING = SealRecord(0)  # what a reader makes of a record that is none

T = TypeVar("T")


class Link:
    """A service, the store of its nodes, and the event loop that they live in."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._bus: Bus | None = None
        self.service: NatsService
        self.store: Store
        self.chest: Chest

    def open(self) -> Link:
        """Connect, and look whether there is anything to read; raises what to do about it."""
        service = open_service(self.url)
        if not isinstance(service, NatsService) or not isinstance(store := service.store(), NatsStore):
            raise ConfigError(
                f"{hidden(self.url)} keeps no lanes at the server that Spark could read; it takes nats:// with JetStream"
            )
        self.service, self.store = service, store
        self.chest = Chest(store, service.capabilities.frame_bytes_max)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="unisono link", daemon=True)
        self._thread.start()
        try:
            self.run(self._connect(store))
        except BaseException:
            self.close()
            raise
        return self

    async def _connect(self, store: NatsStore) -> None:
        forbidden: asyncio.Future[str] = self._loop.create_future()

        def trouble(error: Exception) -> None:
            if "permissions violation" in str(error).lower() and not forbidden.done():
                forbidden.set_result(str(error))

        self.service.on_trouble = trouble
        await self.service.connect()
        opening = asyncio.ensure_future(self._open_store(store))
        await asyncio.wait((opening, forbidden), return_when=asyncio.FIRST_COMPLETED)
        if forbidden.done():
            await end(opening)
            raise ConfigError(
                f"{self.service.url} does not let us read the lanes ({forbidden.result()}); the source and the sink read them "
                "as nodes do, so give them the nodes' credentials (credentials/node.toml)"
            )
        await opening

    async def _open_store(self, store: NatsStore) -> None:
        """Find what nodes keep; we make nothing."""
        if await state_of(self.service, store.bucket) is None:
            raise ConfigError(
                f"there is no system at {self.service.url} with the bucket '{self.service.options.bucket}'; start one "
                "(`unisono up` or `unisono node`), or say its bucket= and prefix= in the URL"
            )
        await store.open()

    def run(self, request: Coroutine[Any, Any, T], bound_s: float = BOUND_S) -> T:
        """What comes of it; nobody waits for ever."""
        asked = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return asked.result(bound_s)
        except LateError:
            if asked.done():
                raise  # it ran into a limit of its own
            asked.cancel()
            raise UnconfirmedError(f"{hidden(self.url)} did not answer within {bound_s:g} s") from None

    def close(self) -> None:
        """Let go."""
        try:
            asyncio.run_coroutine_threadsafe(self._part(), self._loop).result(CLOSE_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_S)
            if not self._thread.is_alive():
                self._loop.close()

    async def _part(self) -> None:
        if self._bus is not None:
            await self._bus.close()
        await self.service.close()

    async def bus(self) -> Bus:
        """A bus at the same URL; it stays as long as the link does."""
        if self._bus is None:
            self._bus = await connect(self.url, publish_timeout=CONFIRM_S).__aenter__()
        return self._bus

    async def read(
        self, lane: str, after: int, limit: int | None
    ) -> tuple[list[tuple[int, LaneRecord]], int]:
        """Records of a lane with their sequences, and where the lane ends."""
        kept, end = await self.patiently(lambda: self.store.read(lane, after, limit))
        return [(sequence, await self._decode(data)) for sequence, data in kept], end

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of a server that may be away for a while."""
        deadline = self._loop.time() + PATIENCE_S
        while True:
            try:
                return await ask()
            except (ConnectionError, UnconfirmedError):
                if self._loop.time() > deadline:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def _decode(self, data: bytes) -> LaneRecord:
        try:
            return decode_record(await self.chest.take(data))
        except VersionError:
            raise
        except FrameError:
            return NOTHING


def hidden(url: str) -> str:
    """A URL without what nobody need read in a log."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


_links: dict[tuple[int, str], Link] = {}


def link_to(url: str) -> Link:
    """The link of this process to a URL; it stays, because Spark's workers are asked again and again."""
    key = (os.getpid(), url)
    if key not in _links:
        _links[key] = Link(url).open()
    return _links[key]


def close_link(url: str) -> None:
    """Let go of it, if there is one."""
    if (link := _links.pop((os.getpid(), url), None)) is not None:
        link.close()
