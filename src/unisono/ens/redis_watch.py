"""Watching records on Redis: one connection that hears of all changes, and looks them up after an outage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from unisono.ens.ending import end
from unisono.ens.redis import READ_S, RedisService
from unisono.ens.store import Changed
from unisono.model.errors import UnisonoError

log = logging.getLogger("unisono")


class RedisWatch:
    """Somebody is told of the changes of a record."""

    def __init__(self, watches: RedisWatches, key: str, notify: Changed) -> None:
        self.key = key
        self.told = 0
        self._watches = watches
        self._notify = notify
        self._live = True

    def tell(self, revision: int, value: bytes) -> None:
        """Notify of a later value; whatever it raises is its own affair."""
        if self._live and revision > self.told:
            self.told = revision
            try:
                self._notify(revision, value)
            except Exception:
                log.exception("a watch of '%s' raised while it was notified", self.key)

    async def close(self) -> None:
        """Tell no more."""
        self._live = False
        self._watches.remove(self)


class RedisWatches:
    """All watches of a store, and the task that listens for them."""

    def __init__(
        self,
        service: RedisService,
        channel: str,
        look: Callable[[str], Awaitable[tuple[int, bytes] | None]],
    ) -> None:
        self._service = service
        self._channel = channel
        self._look = look
        self._by_key: dict[str, dict[RedisWatch, None]] = {}
        self._hears = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    async def add(self, key: str, notify: Changed) -> RedisWatch:
        """One more; raises ConnectionError when Redis is away."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name=f"{self._service.url} watches")
        try:
            async with asyncio.timeout(self._service.options.connect_timeout):
                await self._hears.wait()
        except TimeoutError:
            raise ConnectionError(f"{self._service.url} is away; try again later") from None
        watch = RedisWatch(self, key, notify)
        self._by_key.setdefault(key, {})[watch] = None
        try:
            await self._tell(key)
        except BaseException:
            self.remove(watch)
            raise
        return watch

    def remove(self, watch: RedisWatch) -> None:
        """One fewer."""
        watches = self._by_key.get(watch.key, {})
        watches.pop(watch, None)
        if not watches:
            self._by_key.pop(watch.key, None)

    def begin_anew(self) -> None:
        """Redis has forgotten all revisions: tell what there is, whatever was told before."""
        for watches in self._by_key.values():
            for watch in watches:
                watch.told = 0

    async def close(self) -> None:
        """Tell no more."""
        await end(self._listener)
        for watches in tuple(self._by_key.values()):
            for watch in tuple(watches):
                await watch.close()

    async def _tell(self, key: str) -> None:
        found = await self._look(key)
        if found is not None:
            self._changed(key, *found)

    def _changed(self, key: str, revision: int, value: bytes) -> None:
        for watch in tuple(self._by_key.get(key, ())):
            watch.tell(revision, value)

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except (RedisError, OSError, UnisonoError) as error:
                log.info("%s does not tell of changes: %s", self._service.url, error)
            finally:
                self._hears.clear()
            await asyncio.sleep(self._service.options.reconnect_wait)
            with suppress(ConnectionError):
                await self._service.wait_until_up()

    async def _hear(self) -> None:
        """Subscribe, tell what has changed meanwhile, and listen until the connection breaks."""
        client = self._service.new_client(self._service.options.store_timeout)
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            while True:
                message: dict[str, Any] | None = await pubsub.get_message(timeout=READ_S)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    for key in tuple(self._by_key):
                        await self._tell(key)
                    self._hears.set()
                elif message["type"] == "message":
                    name, _, record = message["data"].partition(b" ")
                    revision, _, value = record.partition(b":")
                    self._changed(name.decode(), int(revision), value)
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]
            await self._service.let_go(client)
