"""Redis publish/subscribe: a channel per topic; nothing is kept for a reader that is away or too slow."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from unisono.ens.names import from_key, to_glob, to_key
from unisono.ens.options import Address
from unisono.ens.outbox import Parcel
from unisono.ens.redis import READ_S, RedisOptions, RedisService
from unisono.model.ids import is_pattern, matches


class RedisPubSub(RedisService):
    """One connection that subscribes, one that publishes."""

    loss = "Redis pub/sub keeps nothing for a reader that is away, and disconnects one that is too slow"

    def __init__(self, address: Address, options: RedisOptions) -> None:
        super().__init__(address, options, reliable=False)
        self._pubsub: PubSub | None = None
        self._globs: dict[str, list[str]] = {}  # what Redis calls it -> our patterns
        self._confirming: dict[str, asyncio.Future[None]] = {}
        self._idle = f"{options.prefix}/"  # never a topic's; there must always be one channel

    async def _read(self) -> None:
        client = self.new_client(self.options.connect_timeout)
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(self._idle)
            for source in self.routes.sources:
                await self._subscribe(pubsub, source)
            self._pubsub = pubsub
            self.came_up(self.loss)
            while True:
                message = await pubsub.get_message(timeout=READ_S)
                if message is not None:
                    self._heard(message)
        finally:
            self._pubsub = None
            await pubsub.aclose()  # type: ignore[no-untyped-call]
            await client.aclose()

    def _heard(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        channel = message["channel"].decode()
        if kind == "message":
            if channel != self._idle:
                topic = from_key(channel, self.options.prefix)
                self.routes.deliver(topic, topic, message["data"])
        elif kind == "pmessage":
            topic = from_key(channel, self.options.prefix)
            for pattern in self._globs.get(message["pattern"].decode(), ()):
                if matches(pattern, topic):  # a glob finds more than we asked for
                    self.routes.deliver(pattern, topic, message["data"])
        elif kind in ("subscribe", "psubscribe"):
            confirming = self._confirming.pop(channel, None)
            if confirming is not None and not confirming.done():
                confirming.set_result(None)

    async def _subscribe(self, pubsub: PubSub, source: str) -> str:
        """Ask for a source; returns the name that Redis will confirm."""
        if not is_pattern(source):
            channel = to_key(source, self.options.prefix)
            await pubsub.subscribe(channel)
            return channel
        glob = to_glob(source, self.options.prefix)
        patterns = self._globs.setdefault(glob, [])
        if source not in patterns:
            patterns.append(source)
        await pubsub.psubscribe(glob)
        return glob

    async def _listen(self, sources: list[str]) -> None:
        await self.wait_until_up()
        pubsub, waiting = self._pubsub, list[asyncio.Future[None]]()
        assert pubsub is not None
        try:
            for source in sources:
                name = await self._subscribe(pubsub, source)
                self._confirming[name] = asyncio.get_running_loop().create_future()
                waiting.append(self._confirming[name])
            async with asyncio.timeout(self.options.connect_timeout):
                await asyncio.gather(*waiting)
        except (RedisError, OSError, TimeoutError) as error:
            raise ConnectionError(f"{self.url} did not confirm the subscription: {error}") from error

    async def _ignore(self, sources: list[str]) -> None:
        pubsub = self._pubsub
        try:
            for source in sources:
                if not is_pattern(source):
                    if pubsub is not None:
                        await pubsub.unsubscribe(to_key(source, self.options.prefix))
                    continue
                glob = to_glob(source, self.options.prefix)
                patterns = self._globs.get(glob, [])
                if source in patterns:
                    patterns.remove(source)
                if not patterns:
                    self._globs.pop(glob, None)
                    if pubsub is not None:
                        await pubsub.punsubscribe(glob)
        except (RedisError, OSError) as error:
            raise ConnectionError(str(error)) from error

    def _commands(self, pipeline: Any, batch: list[Parcel]) -> list[int]:
        prefix = self.options.prefix
        for parcel in batch:
            pipeline.publish(prefix + parcel.topic, parcel.frame)
        return [1] * len(batch)
