"""NATS: core publish/subscribe, or with `?jetstream=STREAM` a stream that keeps what a reader has not got yet.

nats://127.0.0.1:4222                       at most once: what is sent during an outage of the reader is lost
nats://a:4222,b:4222                        several servers of one cluster
nats://user:password@host?name=desk-7       who we are
nats://host?creds=/etc/desk.creds           a credentials file; token=, nkey= (a seed file), tls_ca= and so on
nats://host?jetstream=EVENTS&replicas=3     reliable; the stream is made if it is not there (see jetstream.py)
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import nats.errors
from msgspec import Meta
from nats.aio.subscription import Subscription

from unisono.ens.broker import BrokerService
from unisono.ens.ending import end
from unisono.ens.local_store import LocalStore
from unisono.ens.names import check_prefix, from_subject, to_subject
from unisono.ens.nats_client import DirectClient
from unisono.ens.nats_keys import check_keys
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
from unisono.model.errors import ConfigError, SlowConsumerError, UnisonoError

PORT = 4222
HEADER_BYTES = 256  # the most that JetStream's headers add to a frame; they count as payload
CORE_LOSS = "NATS core keeps nothing: what was published or under way meanwhile may be lost"
ENDED = (ConnectionResetError, BrokenPipeError, nats.errors.UnexpectedEOF)
LOST = (OSError, nats.errors.UnexpectedEOF, nats.errors.StaleConnectionError, nats.errors.FlushTimeoutError)


class NatsOptions(BrokerOptions, frozen=True, kw_only=True):
    """What a nats:// URL may say."""

    prefix: str = "u."
    creds: str | None = None
    token: str | None = None
    nkey: str | None = None
    inbox: str = "_INBOX"  # before the subjects on which answers come; a server may allow us only our own
    ping_interval: Seconds = 10.0  # two without an answer and the server is considered gone
    pending_frames: Count = 524288  # that a subscription holds back before it is a slow consumer
    pending_bytes: Count = 128 * 1024 * 1024
    jetstream: str | None = None
    storage: str = "file"
    replicas: Annotated[int, Meta(ge=1, le=5)] = 1
    max_age: Annotated[float, Meta(ge=0)] = 3600.0  # seconds that the stream keeps a frame; 0 is for ever
    max_bytes: Annotated[int, Meta(ge=-1)] = 1024**3  # that the stream keeps; -1 is no limit
    heartbeat: Annotated[float, Meta(ge=0.1, le=3600)] = (
        2.0  # of a consumer; three that do not come and it is made anew
    )
    store: Literal["shared", "local"] = "shared"  # where nodes keep what they have in common
    store_timeout: Seconds = 5.0  # for an answer of the store
    bucket: str = "unisono"  # of its records
    durability: Wanted | None = None  # of its lanes; None: as the system has it, "disk" if it begins


def open_nats(where: str, options: dict[str, str]) -> NatsService:
    """The service of a nats:// URL."""
    read = read_options("nats", options, NatsOptions)
    check_prefix("nats", read.prefix, ".")
    if not re.fullmatch("[A-Za-z0-9_-]+", read.bucket):
        raise ConfigError(f"nats:// option bucket={read.bucket!r}; it is letters, digits, '-' and '_'")
    tls_context("nats", read)  # a missing file is better known now
    check_keys(read.creds, read.nkey)
    servers = [read_address("nats", part, PORT) for part in where.split(",")]
    if any(server.path for server in servers):
        raise ConfigError(f"nats://{where} has a path, which means nothing to NATS; leave it out")
    if read.jetstream is None:
        return NatsService(servers, read, reliable=False)
    from unisono.ens.jetstream import (
        JetStreamService,  # which is a NatsService, so it cannot be imported above
    )

    if "frame_max" not in options:
        read = msgspec.structs.replace(read, frame_max=read.frame_max - HEADER_BYTES)
    return JetStreamService(servers, read)


class NatsService(BrokerService):
    """Core publish/subscribe."""

    options: NatsOptions
    loss: str | None = CORE_LOSS

    def __init__(self, servers: list[Address], options: NatsOptions, *, reliable: bool) -> None:
        super().__init__("nats", servers[0], options, reliable=reliable)
        self._servers = servers
        self.client = DirectClient()
        self._subscriptions: dict[str, Subscription] = {}
        self._refused: list[Exception] = []  # by each server, while we connect for the first time
        self._slow: dict[str, int] = {}  # frames dropped by subject, until they are reported

    # Connecting.

    async def _reach(self) -> None:
        self._refused, self.client = [], DirectClient()
        connecting = asyncio.create_task(self._connect())
        try:
            limit_s = self.options.connect_timeout * len(self._servers) + 1
            await asyncio.wait([connecting], timeout=limit_s)
            if not connecting.done() or connecting.exception() is not None:
                raise ConnectionError(self._why(connecting.exception() if connecting.done() else None))
            self._check_server()
            self.is_up.set()
        except BaseException:
            await end(connecting)
            await self._part()
            raise

    async def _connect(self) -> None:
        o, first = self.options, self._servers[0]
        try:
            await self.client.connect(
                [f"nats://{server}" for server in self._servers],
                name=o.name,
                user=first.user,
                password=first.password,
                token=o.token,
                user_credentials=o.creds,
                nkeys_seed=o.nkey,
                tls=tls_context("nats", o),
                tls_hostname=o.tls_hostname,
                connect_timeout=o.connect_timeout,  # type: ignore[arg-type]
                reconnect_time_wait=o.reconnect_wait,  # type: ignore[arg-type]
                max_reconnect_attempts=o.max_reconnect,
                ping_interval=o.ping_interval,  # type: ignore[arg-type]
                inbox_prefix=o.inbox,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                closed_cb=self._on_closed,
            )
        except FileNotFoundError as error:
            raise ConnectionError(
                f"the file {error.filename} is not there; see the URL of {self.url}"
            ) from None

    def _check_server(self) -> None:
        if self.client.max_payload < self.options.frame_max:
            raise ConnectionError(
                f"the NATS server at {self.url} takes {self.client.max_payload} bytes at most; "
                f"say frame_max={self.client.max_payload} in the URL, or raise max_payload at the server"
            )

    def _why(self, error: BaseException | None) -> str:
        where = ", ".join(str(server) for server in self._servers)
        seen = [*self._refused, error]
        ended = any(isinstance(e, ENDED) for e in seen)
        if (ended and self._asks_for_credentials()) or any(
            word in str(e).lower() for e in seen for word in ("authorization", "authentication")
        ):
            who = f"user '{self.address.user}'" if self.address.user else "a client without these credentials"
            return f"the NATS server at {where} does not admit {who}; check user:password@, token=, nkey= or creds="
        for e in seen:
            if isinstance(e, ssl.SSLError):
                reason = getattr(e, "verify_message", "") or e.reason or str(e)
                return f"no TLS with the NATS server at {where}: {reason}; check tls_ca=, tls_cert= and tls_hostname="
        if ended:
            return (
                f"what answers at {where} is no NATS server, or does not admit us: it ends the connection; "
                "check the port, and user:password@, token=, nkey= or creds="
            )
        if isinstance(error, ConnectionError) and not self._refused:
            return str(error)
        if all(isinstance(e, OSError) and not isinstance(e, asyncio.TimeoutError) for e in self._refused):
            return f"no NATS server answers at {where}; start one with `nats-server`, or use memory://"
        reason = str(seen[0]) or type(seen[0]).__name__
        return f"what answers at {where} is no NATS server, or is stuck ({reason}); check the port"

    def _asks_for_credentials(self) -> bool:
        """Whether the server has said so before it ended the connection; its reason does not always arrive."""
        return bool(self._said().get("auth_required"))

    @property
    def is_clustered(self) -> bool:
        """Whether the server we are connected to is one of several, which elect leaders."""
        return bool(self._said().get("cluster"))

    def _said(self) -> dict[str, Any]:
        return getattr(self.client, "_server_info", None) or {}

    async def _on_error(self, error: Exception) -> None:
        if self._state == "connecting":
            self._refused.append(error)
            if len(self._refused) >= len(self._servers):
                raise ConnectionRefusedError(
                    str(error)
                ) from error  # out of Client.connect, which would go on
        elif isinstance(error, nats.errors.SlowConsumerError):
            self._dropped(error.subject)
        elif self.client.is_connected and not isinstance(error, LOST):  # that is reported when it is over
            self.trouble(UnisonoError(f"{self.url}: {error}"))

    async def _on_disconnected(self) -> None:
        if self._state == "open":
            self.went_down()

    async def _on_reconnected(self) -> None:
        self.came_up(self.loss)

    async def _on_closed(self) -> None:
        if self._state == "open":
            last = self.client.last_error
            self.give_up(f"the client gave up{f', {last}' if last else ''}")

    # Listening.

    async def _listen(self, sources: list[str]) -> None:
        await self.wait_until_up()
        try:
            for source in sources:
                self._subscriptions[source] = await self._subscribe(source)
            await self._round_trip(self.options.connect_timeout)
        except nats.errors.Error as error:
            raise ConnectionError(f"{self.url} did not confirm the subscription: {error}") from error

    async def _subscribe(self, source: str) -> Subscription:
        prefix = self.options.prefix
        heard, name = partial(self.routes.deliver, source), partial(from_subject, prefix=prefix)
        return await self.client.listen(to_subject(source, prefix), heard, name)

    async def _ignore(self, sources: list[str]) -> None:
        for source in sources:
            subscription = self._subscriptions.pop(source, None)
            if subscription is not None:
                with suppress(nats.errors.Error):
                    await self.client.unlisten(subscription)

    def _dropped(self, subject: str) -> None:
        if not self._slow:  # one report for a burst, not one for each frame
            asyncio.get_running_loop().call_later(0.05, self._report_dropped)
        self._slow[subject] = self._slow.get(subject, 0) + 1

    def _report_dropped(self) -> None:
        for subject, count in self._slow.items():
            self.trouble(
                SlowConsumerError(
                    f"{count} frames on '{subject}' were dropped: more than {self.options.pending_frames} frames or "
                    f"{self.options.pending_bytes} bytes waited; see pending_frames= and pending_bytes="
                )
            )
        self._slow.clear()

    def store(self) -> Store:
        """What nodes keep in common, on this server's JetStream; in this process with store=local."""
        if self._store is None:
            if self.options.store == "local" and self.options.durability is not None:
                raise ConfigError(
                    f"durability={self.options.durability} needs a store at the server; leave store=local out of the URL"
                )
            from unisono.ens.nats_store import NatsStore  # which needs the options above

            shared = self.options.store == "shared"
            self._store = NatsStore(self) if shared else LocalStore(self.options.frame_max)
        return self._store

    # Publishing.

    def _send_now(self, topic: str, frame: bytes) -> bool:
        return self.client.publish_now(self.options.prefix + topic, frame)

    def soon(self, do: Callable[[], None]) -> None:
        """Call it when everything that was read at once has been heard, or in the next turn of the loop."""
        self.client.soon(do)

    def push(self) -> None:
        """Send what was published in this turn of the loop now, not at its end."""
        self.client.push()

    async def _send(self, batch: list[Parcel]) -> None:
        await self.is_up.wait()
        prefix, publish, sent = self.options.prefix, self.client.publish, 0
        try:
            for parcel in batch:
                await publish(prefix + parcel.topic, parcel.frame)
                sent += 1
        except nats.errors.Error as error:
            del batch[:sent]
            raise OutageError from error

    async def flush(self) -> None:
        """Return when the server has everything published before."""
        await super().flush()
        await self.wait_until_up()
        try:
            await self._round_trip(self.options.flush_timeout)
        except nats.errors.Error as error:
            raise ConnectionError(f"{self.url} did not confirm what was published: {error}") from error

    async def _round_trip(self, timeout_s: float) -> None:
        """Return when the server has seen everything that we sent.

        Client.flush writes its PING ahead of what is pending. What is pending now is written before the first answer
        comes, so that a second PING is behind it.
        """
        for _ in range(2):
            await self.client.flush(timeout=timeout_s)  # type: ignore[arg-type]

    async def _part(self) -> None:
        # After a TLS handshake that failed the client waits for ever; and it tells `_on_error` of a connection that
        # was reset, which raises while we connect.
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(self.options.close_timeout):
                await self.client.close()
