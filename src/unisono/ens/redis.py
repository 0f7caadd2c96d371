"""Redis: one stream per topic by default, or publish/subscribe with `?mode=pubsub`.

redis://127.0.0.1:6379/0                    streams: reliable, as far back as maxlen= entries per topic
redis://user:password@host/1?name=desk-7    who we are, and the database
redis://host?mode=pubsub                    at most once: Redis keeps nothing for a reader that is away
redis://host?prefix={u}:                    a hash tag keeps all topics in one slot, as a Redis Cluster needs
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Iterable
from socket import gaierror
from typing import Annotated, Any, Literal
from weakref import WeakSet

from msgspec import Meta
from redis.asyncio import Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from unisono.ens.broker import BrokerService
from unisono.ens.ending import end
from unisono.ens.local_store import LocalStore
from unisono.ens.names import check_prefix
from unisono.ens.options import (
    Address,
    BrokerOptions,
    Count,
    Seconds,
    read_address,
    read_options,
    tls_context,
)
from unisono.ens.outbox import OutageError, Parcel
from unisono.ens.store import Store
from unisono.model.durability import Wanted
from unisono.model.errors import ConfigError, UnisonoError

PORT = 6379
READ_S = 2.0  # the longest that a read waits at the server

log = logging.getLogger("unisono")


class RedisOptions(BrokerOptions, frozen=True, kw_only=True):
    """What a redis:// URL may say."""

    prefix: str = "u:"
    mode: Literal["streams", "pubsub"] = "streams"
    maxlen: Count = 100_000  # entries that a stream keeps, roughly
    read_count: Annotated[int, Meta(ge=1, le=100_000)] = 256  # entries of a stream in one read
    store: Literal["shared", "local"] = "shared"  # where nodes keep what they have in common
    store_timeout: Seconds = 5.0  # for an answer of the store
    durability: Wanted | None = None  # of what it keeps; None: as Redis is set up


def open_redis(where: str, options: dict[str, str]) -> RedisService:
    """The service of a redis:// URL."""
    read = read_options("redis", options, RedisOptions)
    check_prefix("redis", read.prefix, ":")
    tls_context("redis", read)  # a missing file is better known now
    if read.tls_hostname:
        raise ConfigError("redis:// has no tls_hostname; the certificate must name the host of the URL")
    address = read_address("redis", where, PORT)
    if address.path and not address.path.isdecimal():
        raise ConfigError(f"redis://{where} names the database '{address.path}'; it is a number, like /0")
    from unisono.ens.redis_pubsub import RedisPubSub  # they are RedisServices: they cannot be imported above
    from unisono.ens.redis_streams import RedisStreams

    return RedisStreams(address, read) if read.mode == "streams" else RedisPubSub(address, read)


class RedisService(BrokerService):
    """A connection to write on, and a task that reads on another one and makes it anew when it breaks."""

    options: RedisOptions
    loss: str | None = None

    def __init__(self, address: Address, options: RedisOptions, *, reliable: bool) -> None:
        super().__init__("redis", address, options, reliable=reliable)
        self._writer: Redis | None = None
        self._reader: asyncio.Task[None] | None = None
        self._broke: Exception | None = None  # why the reader's connection is gone
        self._clients: set[Redis] = set()  # all that may have connections, the store's too
        self._transports: WeakSet[asyncio.WriteTransport] = WeakSet()
        self._has_parted = False

    @abstractmethod
    async def _read(self) -> None:
        """Connect, call `came_up`, and read until the connection breaks."""

    @abstractmethod
    def _commands(self, pipeline: Any, batch: list[Parcel]) -> list[int]:
        """Put what publishes a batch into a pipeline; returns how many frames each command takes care of."""

    @property
    def writer(self) -> Redis:
        """Where commands go that do not wait."""
        assert self._writer is not None
        return self._writer

    def new_client(self, timeout_s: float) -> Redis:
        """A connection as the URL describes it; nothing happens yet. To be given back to `let_go`."""
        o, address = self.options, self.address
        client = Redis(
            host=address.host,
            port=address.port,
            db=int(address.path or 0),
            username=address.user or None,
            password=address.password,
            client_name=o.name,
            socket_connect_timeout=o.connect_timeout,
            socket_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),  # we do that ourselves, and know what it costs
            ssl=tls_context("redis", o) is not None,
            ssl_ca_certs=o.tls_ca,
            ssl_certfile=o.tls_cert,
            ssl_keyfile=o.tls_key,
            protocol=2,
            redis_connect_func=self._connected,
        )
        self._clients.add(client)
        return client

    async def _connected(self, connection: Connection) -> None:
        """Greet a new connection, unless it comes too late: nobody would close it any more."""
        if self._has_parted:
            raise RedisConnectionError(f"{self.url} is closed")
        self._transports.add(connection._writer.transport)  # type: ignore[union-attr]
        await connection.on_connect()

    async def let_go(self, client: Redis | None) -> None:
        """Close its connections, also those in use; it is forgotten only when that was not interrupted."""
        if client is not None:
            try:
                await client.aclose()
            except (RedisError, OSError) as error:
                log.debug("a connection to %s did not close in an orderly way: %s", self.url, error)
            self._clients.discard(client)

    def store(self) -> Store:
        """What nodes keep in common, on this Redis; in this process with store=local."""
        if self._store is None:
            if self.options.store == "local" and self.options.durability is not None:
                raise ConfigError(
                    f"durability={self.options.durability} needs a store at Redis; leave store=local out of the URL"
                )
            from unisono.ens.redis_store import RedisStore  # which needs this class

            shared = self.options.store == "shared"
            self._store = RedisStore(self) if shared else LocalStore(self.options.frame_max)
        return self._store

    async def _reach(self) -> None:
        self._has_parted = False
        self._writer = self.new_client(self.options.connect_timeout)
        self._broke = None
        try:
            await self._greet(self._writer)
            self._reader = asyncio.create_task(self._keep_reading(), name=f"{self.url} reader")
            await self.wait_until_up()
        except (RedisError, OSError) as error:
            await self._part()
            raise ConnectionError(self._why(self._broke or error)) from error
        except BaseException:
            await self._part()
            raise

    async def _greet(self, writer: Redis) -> None:
        """Return when Redis answers; it may be loading what it has kept."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.options.connect_timeout
        while True:
            try:
                await writer.ping()
                return
            except BusyLoadingError:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(0.02)

    def _why(self, error: BaseException) -> str:
        text = " ".join(str(e) for e in _chain(error))
        if isinstance(error, AuthenticationError) or "NOAUTH" in text or "WRONGPASS" in text:
            who = f"user '{self.address.user or 'default'}' with this password"
            return f"the Redis server at {self.address} does not admit {who}; check user:password@ in the URL"
        if any(
            isinstance(e, (ConnectionRefusedError, gaierror)) or "connecting" in str(e) for e in _chain(error)
        ):
            return (
                f"no Redis server answers at {self.address}; start one with `redis-server`, or use memory://"
            )
        return f"what answers at {self.address} is no Redis server, or is stuck ({error}); check the port"

    async def _keep_reading(self) -> None:
        failures = 0
        while True:
            try:
                await self._read()
            except (RedisError, OSError) as error:
                failures = 1 if self.is_up.is_set() else failures + 1
                self.went_down()
                self._broke = error
                if 0 <= self.options.max_reconnect < failures:
                    self.give_up(f"{failures} attempts to connect failed, the last one with: {error}")
                    return
                await asyncio.sleep(self.options.reconnect_wait)
            except Exception as error:  # a bug of ours must not look like silence
                self.give_up(f"its reader broke: {error!r}")
                raise

    async def _send(self, batch: list[Parcel]) -> None:
        await self.is_up.wait()
        try:
            async with self.writer.pipeline(transaction=False) as pipeline:
                shares = self._commands(pipeline, batch)
                replies = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            raise OutageError from error
        await self._settle(batch, shares, replies)

    async def _settle(self, batch: list[Parcel], shares: list[int], replies: list[object]) -> None:
        """Take what is done out of the batch; raise OutageError if something is left."""
        left: list[Parcel] = []
        at = 0
        error: RedisError | None = None
        for share, reply in zip(shares, replies, strict=True):
            if isinstance(reply, RedisError):
                error = reply
                left += batch[at : at + share]
            at += share
        if error is not None:  # out of memory, read-only, loading: it may pass
            batch[:] = left
            await self._refused(error)
            raise OutageError from error

    async def _refused(self, error: RedisError) -> None:
        """Redis answers, but does not take a frame."""
        self.trouble(UnisonoError(f"{self.url} does not take frames, they wait: {error}"))

    async def _part(self) -> None:
        self._has_parted = True
        self.is_up.clear()
        try:
            await end(self._reader)
            self._reader = None
        finally:
            try:
                await asyncio.gather(*(self.let_go(client) for client in tuple(self._clients)))
            finally:
                for transport in tuple(self._transports):
                    transport.abort()  # for those that have still something to send, and nobody who takes it
                await asyncio.sleep(0)


def _chain(error: BaseException) -> list[BaseException]:
    """An error and what led to it."""
    found = []
    cause: BaseException | None = error
    while cause is not None:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found


def runs(batch: list[Parcel]) -> Iterable[tuple[str, list[bytes]]]:
    """A batch as neighbours of one topic, in order."""
    topic, frames = "", list[bytes]()
    for parcel in batch:
        if parcel.topic != topic and frames:
            yield topic, frames
            frames = []
        topic = parcel.topic
        frames.append(parcel.frame)
    if frames:
        yield topic, frames
