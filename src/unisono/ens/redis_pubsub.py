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
            await self.let_go(client)

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

    def _spelt(self, source: str) -> str:
        """What Redis calls a source, and will confirm."""
        spell = to_glob if is_pattern(source) else to_key
        return spell(source, self.options.prefix)

    async def _subscribe(self, pubsub: PubSub, source: str) -> None:
        name = self._spelt(source)
        if not is_pattern(source):
            await pubsub.subscribe(name)
            return
        patterns = self._globs.setdefault(name, [])
        if source not in patterns:
            patterns.append(source)
        await pubsub.psubscribe(name)

    async def _listen(self, sources: list[str]) -> None:
        await self.wait_until_up()
        pubsub, loop = self._pubsub, asyncio.get_running_loop()
        if pubsub is None:  # the connection has just broken
            raise ConnectionError(f"{self.url} is away; it is tried again, so try again later")
        # Before asking: the answer may be quick. Several patterns may be one glob, and have one answer.
        waiting = {self._spelt(source): loop.create_future() for source in sources}
        self._confirming |= waiting
        try:
            for source in sources:
                await self._subscribe(pubsub, source)
            async with asyncio.timeout(self.options.connect_timeout):
                await asyncio.gather(*waiting.values())
        except (RedisError, OSError, TimeoutError) as error:
            raise ConnectionError(f"{self.url} did not confirm the subscription: {error}") from error
        finally:
            for name in waiting:
                self._confirming.pop(name, None)

    async def _ignore(self, sources: list[str]) -> None:
        pubsub = self._pubsub
        try:
            for source in sources:
                if not is_pattern(source):
                    if pubsub is not None:
                        await pubsub.unsubscribe(self._spelt(source))
                    continue
                glob = self._spelt(source)
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
