"""A store on Redis: records in a hash, a stream for each lane, changed by scripts.

Of the prefix `u:` these are the keys: `u:/records` with `<revision>:<value>` by name, `u:/revision`, `u:/tails` with the
last sequence by lane, `u:/fences` with the epoch of the last seal by lane, `u:/lane/<lane>` whose entries are `<sequence>-0`, and `u:/life`, which tells whether Redis has
forgotten everything. Changes of records are published on the channel `u-changed`; after an outage they are looked up.

Redis 6.2 or newer. What it remembers after a restart is up to its settings (`appendonly yes`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from unisono.ens.redis import RedisService
from unisono.ens.redis_appends import Appends, Entry
from unisono.ens.redis_scripts import APPEND, DECIDE, READ
from unisono.ens.redis_watch import RedisWatch, RedisWatches
from unisono.ens.store import Changed, check_bytes, check_key, check_limit, check_number
from unisono.model.durability import Durability, suffices
from unisono.model.errors import ClosedError, ConfigError, ForgottenError, UnconfirmedError

T = TypeVar("T")

READ_MAX = 8192  # records read at once


class RedisStore:
    """Connections of its own, made as the service makes its."""

    def __init__(self, service: RedisService) -> None:
        self.durability: Durability = "memory"  # as Redis says, once it was opened
        self._service = service
        prefix = service.options.prefix
        self._records = f"{prefix}/records"
        self._revision = f"{prefix}/revision"
        self._tails = f"{prefix}/tails"
        self._fences = f"{prefix}/fences"
        self._life_key = f"{prefix}/life"
        self._lane_prefix = f"{prefix}/lane/"
        self._channel = f"{prefix.removesuffix(':')}-changed"
        self._client: Redis | None = None
        self._life = b""  # of what Redis keeps
        self._is_doubtful = False  # whether it is still the same life
        self._watched_life = b""
        self._appends = Appends(service, self._append)
        self._watches = RedisWatches(service, self._channel, self._look_again)
        self._closed = False

    @property
    def shared(self) -> bool:
        """At the server."""
        return True

    @property
    def is_private(self) -> bool:
        """At the server."""
        return False

    @property
    def fences(self) -> bool:
        """Its script knows the epoch of the last seal."""
        return True

    async def open(self) -> None:
        """Look whether Redis can do what is needed."""
        self._check_open(may_be_new=True)
        await self._service.wait_until_up()
        if self._client is None:
            self._client = self._service.new_client(self._service.options.store_timeout)
            self._service.on_link.append(self._link)
            self.durability = await self._try(_level)
            self._check_durability()
        if not self._life:
            self._life = self._watched_life = await self._try(self._live)
        self._appends.open()

    def _check_durability(self) -> None:
        wanted, url = self._service.options.durability, self._service.url
        if wanted == "replicated":
            raise ConfigError(
                f"{url} does not wait for replicas before it confirms; redis:// offers durability=disk"
            )
        if wanted is not None and not suffices(self.durability, wanted):
            raise ConfigError(
                f"{url} keeps everything in memory only, not with durability={wanted}; "
                "set 'appendonly yes' at Redis, or say durability=memory"
            )

    async def _live(self, redis: Redis) -> bytes:
        """The mark that the first store has left, ours if there was none."""
        mark = secrets.token_hex(8)
        await redis.set(self._life_key, mark, nx=True)
        return cast(bytes, await redis.get(self._life_key))

    # Records.

    async def look(self, key: str) -> tuple[int, bytes] | None:
        """A record with its revision."""
        check_key(key)
        found = await self._command("HGET", self._records, key)
        return None if found is None else _unpack(found)

    async def _look_again(self, key: str) -> tuple[int, bytes] | None:
        """The same for watches, which do not mind if Redis has forgotten what was before."""
        life = await self._try(self._live)
        if life != self._watched_life:
            self._watched_life = life
            self._watches.begin_anew()
        found = await self._try(lambda redis: _execute(redis, "HGET", self._records, key))
        return None if found is None else _unpack(found)

    async def decide(self, key: str, value: bytes, revision: int) -> int | None:
        """Change a record if this is its revision."""
        check_key(key)
        check_bytes(value, self._service.options.frame_max)
        check_number("the revision", revision)
        arguments: list[Any] = [self._records, self._revision, key, value, revision, self._channel]
        new = await self._command("EVAL", DECIDE, 2, *arguments)
        return int(new) or None

    async def watch(self, key: str, notify: Changed) -> RedisWatch:
        """Tell the value there is, and each later one."""
        check_key(key)
        self._check_open()
        return await self._watches.add(key, notify)

    async def keys(self, prefix: str = "") -> list[str]:
        """The names of all records that begin with these characters."""
        names = await self._command("HKEYS", self._records)
        return sorted(name for name in (raw.decode() for raw in names) if name.startswith(prefix))

    async def delete(self, key: str) -> None:
        """Forget a record."""
        check_key(key)
        await self._command("HDEL", self._records, key)

    # Lanes.

    def append(
        self, lane: str, record: bytes, expected: int | None = None, epoch: int = 0
    ) -> asyncio.Future[int | None]:
        """Put a record at the end of a lane, if it ends where it is expected to."""
        check_key(lane)
        check_bytes(record, self._service.options.frame_max)
        if expected is not None:
            check_number("the expected sequence", expected)
        return self._appends.put(lane, record, expected, check_number("the epoch", epoch))

    async def _append(self, batch: list[Entry]) -> list[int | None]:
        lanes = {lane: n for n, lane in enumerate(dict.fromkeys(entry.lane for entry in batch), 1)}
        keys = [self._tails, self._fences, *(self._lane_prefix + lane for lane in lanes)]
        arguments: list[Any] = [*lanes]
        for entry in batch:
            expected = "" if entry.expected is None else entry.expected
            arguments += (lanes[entry.lane], expected, entry.epoch, entry.record)
        given = await self._command("EVAL", APPEND, len(keys), *keys, *arguments)
        return [sequence or None for sequence in given]

    async def read(
        self, lane: str, after: int = 0, limit: int | None = None
    ) -> tuple[list[tuple[int, bytes]], int]:
        """What is kept behind a sequence, and the last sequence."""
        check_key(lane)
        at = check_number("the sequence", after)
        limit = check_limit(limit)
        records: list[tuple[int, bytes]] = []
        last: int | None = None
        while last is None or (at < last and (limit is None or len(records) < limit)):
            room = READ_MAX if limit is None else min(limit - len(records), READ_MAX)
            tail, first, count, packed = await self._read_some(lane, at, room)
            last = tail if last is None else last
            if not count:
                break
            if records and first != at + 1:  # truncated meanwhile: what was before is no longer kept
                records.clear()
            offset = 0
            for sequence in range(first, first + count):
                start = offset + 4
                offset = start + int.from_bytes(packed[offset:start], "big")
                records.append((sequence, packed[start:offset]))
            at = first + count - 1
        while records and records[-1][0] > last:
            records.pop()
        return records, last

    async def _read_some(self, lane: str, at: int, room: int) -> tuple[int, int, int, bytes]:
        arguments: list[Any] = [self._lane_prefix + lane, self._tails, lane, at, room]
        answer = await self._command("EVAL", READ, 2, *arguments)
        tail, first, count, packed = answer
        return tail, first, count, packed

    async def truncate(self, lane: str, up_to: int) -> None:
        """Forget the records up to a sequence."""
        check_key(lane)
        check_number("the sequence", up_to)
        key = self._lane_prefix + lane
        await self._command("XTRIM", key, "MINID", "=", f"{up_to + 1}-0")

    async def lanes(self) -> list[str]:
        """The names of all lanes."""
        names = await self._command("HKEYS", self._tails)
        return sorted(name.decode() for name in names)

    async def drop(self, lane: str) -> None:
        """Forget a lane and its sequences."""
        check_key(lane)

        async def both(redis: Redis) -> None:
            async with redis.pipeline(transaction=True) as pipeline:
                pipeline.delete(self._lane_prefix + lane)
                pipeline.hdel(self._tails, lane)
                pipeline.hdel(self._fences, lane)
                await pipeline.execute()

        await self._ask(both)

    async def close(self) -> None:
        """Let go."""
        self._closed = True
        if self._link in self._service.on_link:
            self._service.on_link.remove(self._link)
        await self._watches.close()
        await self._appends.close()
        client, self._client = self._client, None
        await self._service.let_go(client)

    # Asking.

    def _link(self, is_up: bool) -> None:
        self._is_doubtful = True

    def _check_open(self, *, may_be_new: bool = False) -> None:
        if self._closed or (self._client is None and not may_be_new):
            raise ClosedError(
                f"the store of {self._service.url} is {'closed' if self._closed else 'not open'}"
            )

    async def _command(self, *words: Any) -> Any:
        return await self._ask(lambda redis: _execute(redis, *words))

    async def _ask(self, question: Callable[[Redis], Awaitable[T]]) -> T:
        """An answer, from a Redis that has not forgotten what it kept."""
        self._check_open()
        await self._service.wait_until_up()
        if self._is_doubtful:
            life = await self._try(self._live)
            self._is_doubtful = False
            if life != self._life:
                self._life = life
                text = f"{self._service.url} has forgotten all records and lanes: it was emptied, or restarted without a disk"
                error = ForgottenError(f"{text} (see appendonly); they begin anew")
                self._service.trouble(error)
                raise error
        return await self._try(question)

    async def _try(self, question: Callable[[Redis], Awaitable[T]]) -> T:
        assert self._client is not None
        url = self._service.url
        try:
            return await question(self._client)
        except RedisTimeoutError as error:
            self._is_doubtful = True
            limit_s = self._service.options.store_timeout
            raise UnconfirmedError(f"{url} did not answer within {limit_s:g} s") from error
        except ResponseError as error:
            raise ConnectionError(
                f"{url} refuses, see its memory limit, its role and its version (6.2 is needed): {error}"
            ) from error
        except (RedisError, OSError) as error:
            self._is_doubtful = True
            raise ConnectionError(f"{url} is away: {error}") from error


def _execute(redis: Redis, *words: Any) -> Awaitable[Any]:
    return cast(Awaitable[Any], redis.execute_command(*words))  # type: ignore[no-untyped-call]


async def _level(redis: Redis) -> Durability:
    """Whether Redis writes to disk what it confirms."""
    said = await redis.info("persistence")
    return "disk" if said.get("aof_enabled") else "memory"


def _unpack(record: bytes) -> tuple[int, bytes]:
    revision, _, value = record.partition(b":")
    return int(revision), value
