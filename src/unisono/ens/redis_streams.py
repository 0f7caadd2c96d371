"""Redis streams: one per topic, read by position, so that an outage costs nothing that the stream still has.

Entries are numbered without holes, by a script that appends them: `<epoch>-1`, `<epoch>-2` and so on, where the epoch
is when the stream was made. So a reader sees exactly how many entries were trimmed before it came (a gap, reported as
GapError), and whether Redis has forgotten the stream (a new epoch). A catalogue stream names every topic once: that is
how readers of a pattern learn of topics that did not exist when they subscribed.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from unisono.ens.names import from_key, to_key
from unisono.ens.options import Address
from unisono.ens.outbox import Parcel
from unisono.ens.redis import READ_S, RedisOptions, RedisService, runs
from unisono.ens.redis_pubsub import RedisPubSub
from unisono.model.errors import GapError
from unisono.model.ids import is_pattern, matches

WAKE_SECONDS = 3600  # how long the key lives that wakes a reader up, should we crash

APPEND = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local epoch, n
if last then
  epoch, n = string.match(last[1], '(%d+)-(%d+)')
else
  local now = redis.call('TIME')
  epoch, n = string.format('%.0f', now[1] * 1000000 + now[2]), 0
  redis.call('XADD', KEYS[2], '*', 't', ARGV[2])
end
for i = 3, #ARGV do
  n = n + 1
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], epoch .. '-' .. string.format('%.0f', n), 'f', ARGV[i])
end
return n
"""


class Position(NamedTuple):
    """How far a stream was read."""

    epoch: int
    n: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.n}"


START = Position(0, 0)


class RedisStreams(RedisService):
    """One connection that waits for new entries of all followed streams, one that appends."""

    def aside(self) -> RedisPubSub:
        """For what is of use for a moment, and need not be kept."""
        return RedisPubSub(self.address, self.options)

    def __init__(self, address: Address, options: RedisOptions) -> None:
        super().__init__(address, options, reliable=True)
        self._followed: dict[str, Position] = {}  # by topic
        self._catalogue: Position | None = None  # how far it was read; it is not, while there are no patterns
        self._sources: dict[str, list[str]] = {}  # topic -> sources that mean it, as far as known
        self._catalogue_key = f"{options.prefix}/topics"  # a topic has no slash
        self._wake_key = f"{options.prefix}/wake/{secrets.token_hex(6)}"
        self._woken = START
        self._script = ""

    # Reading.

    async def _read(self) -> None:
        client = self.new_client(READ_S + self.options.connect_timeout)
        try:
            self._script = await client.script_load(APPEND)
            await self._check_positions(client)
            self.came_up(None)
            while True:
                streams = {to_key(topic, self.options.prefix): str(p) for topic, p in self._followed.items()}
                streams[self._wake_key] = str(self._woken)
                if self._catalogue is not None:
                    streams[self._catalogue_key] = str(self._catalogue)
                count, block_ms = self.options.read_count, int(READ_S * 1000)
                reply: Any = await client.xread(streams, count=count, block=block_ms)  # type: ignore[arg-type]
                for key, entries in reply or ():
                    self._heard(key.decode(), entries)
        finally:
            await self.let_go(client)

    def _heard(self, key: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        if key == self._wake_key:
            self._woken = _position(entries[-1][0])
        elif key == self._catalogue_key:
            if self._catalogue is not None:  # else the last pattern was left meanwhile
                self._catalogue = _position(entries[-1][0])
                for _, fields in entries:
                    topic = fields[b"t"].decode()
                    if self._meaning(topic):
                        self._followed.setdefault(topic, START)
        else:
            self._deliver(from_key(key, self.options.prefix), entries)

    def _deliver(self, topic: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        deliver = self.routes.deliver
        for id, fields in entries:
            last = self._followed.get(topic)
            if last is None:  # left, by somebody who was notified just now
                return
            position = _position(id)
            if position != (last.epoch, last.n + 1):
                self._check_gap(topic, last, position)
            self._followed[topic] = position
            frame = fields.get(b"f")
            if frame is not None:
                for source in self._meaning(topic):
                    deliver(source, topic, frame)

    def _check_gap(self, topic: str, last: Position, found: Position) -> None:
        if last == START and found.n == 1:
            return
        if last.epoch in (found.epoch, 0):
            self.trouble(
                GapError(
                    f"{found.n - last.n - 1} frames on '{topic}' were trimmed at {self.url} before they were read; "
                    f"see maxlen= (it is {self.options.maxlen})"
                )
            )
        else:
            self.trouble(
                GapError(f"{self.url} has forgotten the stream of '{topic}'; frames on it may be lost")
            )

    async def _check_positions(self, client: Redis) -> None:
        """After an outage: what is at the server must not be behind what we have read."""
        newest = await self._newest(client, list(self._followed))
        for topic, last in self._followed.items():
            if newest[topic] < last:
                self.trouble(
                    GapError(
                        f"{self.url} has forgotten the end of the stream of '{topic}'; frames may be lost"
                    )
                )
                self._followed[topic] = newest[topic]

    async def _newest(self, client: Redis, topics: list[str]) -> dict[str, Position]:
        async with client.pipeline(transaction=False) as pipeline:
            for topic in topics:
                pipeline.xrevrange(to_key(topic, self.options.prefix), count=1)
            replies = await pipeline.execute() if topics else []
        return {
            topic: _position(entries[0][0]) if entries else START
            for topic, entries in zip(topics, replies, strict=True)
        }

    # Listening.

    def _meaning(self, topic: str) -> list[str]:
        """The sources that a topic is heard through."""
        sources = self._sources.get(topic)
        if sources is None:
            sources = self._sources[topic] = [s for s in self.routes.sources if matches(s, topic)]
        return sources

    async def _listen(self, sources: list[str]) -> None:
        await self.wait_until_up()
        self._sources.clear()
        try:
            topics = [source for source in sources if not is_pattern(source)]
            patterns = [source for source in sources if is_pattern(source)]
            if patterns:
                topics += await self._known(patterns)
            newest = await self._newest(self.writer, [t for t in topics if t not in self._followed])
            self._followed = newest | self._followed
            await self._wake()
        except (RedisError, OSError) as error:
            raise ConnectionError(f"{self.url} did not confirm the subscription: {error}") from error

    async def _known(self, patterns: list[str]) -> list[str]:
        """Topics that exist and are meant by these patterns; the reader learns of those that come later."""
        entries: Any = await self.writer.xrange(self._catalogue_key)
        older = [s for s in self.routes.sources if is_pattern(s) and s not in patterns]
        if self._catalogue is None:
            self._catalogue = _position(entries[-1][0]) if entries else START
        topics = dict.fromkeys(fields[b"t"].decode() for _, fields in entries)
        return [
            topic
            for topic in topics
            if any(matches(pattern, topic) for pattern in patterns)
            and not any(
                matches(pattern, topic) for pattern in older
            )  # these are the reader's, from their start
        ]

    async def _ignore(self, sources: list[str]) -> None:
        self._sources.clear()
        for topic in [topic for topic in self._followed if not self._meaning(topic)]:
            del self._followed[topic]
        self._sources.clear()
        if not any(is_pattern(source) for source in self.routes.sources):
            self._catalogue = None

    async def _wake(self) -> None:
        """Let the reader see what it is to follow now; a key, because an unblock could come too early."""
        async with self.writer.pipeline(transaction=False) as pipeline:
            pipeline.xadd(self._wake_key, {"w": "1"}, maxlen=1, approximate=False)
            pipeline.expire(self._wake_key, WAKE_SECONDS)
            await pipeline.execute()

    # Publishing.

    async def _refused(self, error: RedisError) -> None:
        if isinstance(error, NoScriptError):  # somebody has flushed the scripts
            with suppress(RedisError, OSError):
                await self.writer.script_load(APPEND)
        else:
            await super()._refused(error)

    def _commands(self, pipeline: Any, batch: list[Parcel]) -> list[int]:
        prefix, maxlen, shares = self.options.prefix, self.options.maxlen, []
        for topic, frames in runs(batch):
            pipeline.evalsha(self._script, 2, prefix + topic, self._catalogue_key, maxlen, topic, *frames)
            shares.append(len(frames))
        return shares

    async def _part(self) -> None:
        try:
            if self.is_up.is_set():
                with suppress(RedisError, OSError):  # it expires anyway
                    await self.writer.delete(self._wake_key)
        finally:
            await super()._part()


def _position(id: bytes) -> Position:
    epoch, n = id.split(b"-")
    return Position(int(epoch), int(n))
