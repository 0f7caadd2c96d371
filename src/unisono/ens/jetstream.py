"""NATS JetStream: frames are kept in a stream, and each source is read by a consumer that starts over where it was.

A consumer is ephemeral and ordered: it numbers what it sends, so that a missing frame shows at the next one or at the
next heartbeat, and is then made anew behind the last frame that was heard. The stream recognises a frame that is sent
twice by its id (within two minutes). A frame that has left the stream before it was read is reported as a GapError.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, Header, PubAck, StorageType, StreamConfig
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

from unisono.ens.ending import end
from unisono.ens.names import from_subject, to_subject
from unisono.ens.nats import HEADER_BYTES, NatsOptions, NatsService
from unisono.ens.options import Address
from unisono.ens.outbox import OutageError, Parcel
from unisono.model.errors import ConfigError, GapError, UnisonoError
from unisono.model.ids import matches

ACK_S = 5.0  # how long a batch may take to be stored before it is sent again
MISSED_HEARTBEATS = 3


class JetStreamService(NatsService):
    """Publish to a stream, read it with ordered consumers."""

    loss = None

    def __init__(self, servers: list[Address], options: NatsOptions) -> None:
        if options.storage not in ("file", "memory"):
            raise ConfigError(f"nats:// option storage={options.storage!r}; it is 'file' or 'memory'")
        super().__init__(servers, options, reliable=True)
        assert options.jetstream
        self.stream = options.jetstream
        self._js: JetStreamContext | None = None
        self._readers: dict[str, Reader] = {}
        self._token = secrets.token_hex(6)  # with its number, the id of a frame
        self._watch: asyncio.Task[None] | None = None
        self._repair = asyncio.Event()  # some reader must be made anew
        self._outage = asyncio.Event()  # acknowledgements that are under way will not come

    def aside(self) -> NatsService:
        """For what is of use for a moment: beside the stream, which keeps all that begins with our prefix."""
        prefix = f"{self.options.prefix.removesuffix('.')}-aside."
        options = msgspec.structs.replace(self.options, jetstream=None, prefix=prefix)
        return NatsService(self._servers, options, reliable=False)

    @property
    def js(self) -> JetStreamContext:
        """JetStream on the connection we have."""
        assert self._js is not None
        return self._js

    async def _reach(self) -> None:
        await super()._reach()
        self._js = self.client.jetstream(timeout=self.options.connect_timeout)
        try:
            await self._ensure_stream()
        except BaseException:
            await self.client.close()
            raise
        self._watch = asyncio.create_task(self._keep_reading(), name=f"{self.url} readers")

    def _check_server(self) -> None:
        if self.client.max_payload < self.options.frame_max + HEADER_BYTES:
            room = self.client.max_payload - HEADER_BYTES
            raise ConnectionError(
                f"the NATS server at {self.url} takes {self.client.max_payload} bytes at most, with headers; "
                f"say frame_max={room} in the URL, or raise max_payload at the server"
            )

    async def _ensure_stream(self) -> None:
        """Make the stream unless it is there; one that is there is taken as it is, if it has our topics."""
        o, mine = self.options, f"{self.options.prefix}>"
        try:
            try:
                info = await self.js.stream_info(self.stream)
            except NotFoundError:
                info = await self.js.add_stream(
                    StreamConfig(
                        name=self.stream,
                        subjects=[mine],
                        storage=StorageType(o.storage),
                        num_replicas=o.replicas,
                        max_age=o.max_age,
                        max_bytes=o.max_bytes,
                        allow_direct=True,
                    )
                )
        except ServiceUnavailableError:
            raise ConnectionError(
                f"the NATS server at {self.url} runs without JetStream; start it with `nats-server -js`, "
                "or leave jetstream= out of the URL"
            ) from None
        except (APIError, nats.errors.Error) as error:
            raise ConnectionError(
                f"{self.url} gave no stream '{self.stream}': {error}; see max_bytes= and replicas="
            ) from error
        subjects = info.config.subjects or []
        if not any(subject == mine or matches(subject, f"{o.prefix}x") for subject in subjects):
            raise ConnectionError(
                f"the stream '{self.stream}' at {self.url} holds {', '.join(subjects) or 'nothing'}, not '{mine}'; "
                "name another stream, or its prefix= in the URL"
            )

    # Listening.

    async def _listen(self, sources: list[str]) -> None:
        await self.wait_until_up()
        for source in sources:
            reader = Reader(self, source)
            try:
                await reader.start()
            except (nats.errors.Error, APIError) as error:
                await reader.stop()
                raise ConnectionError(f"{self.url} gave no consumer for '{source}': {error}") from error
            self._readers[source] = reader

    async def _ignore(self, sources: list[str]) -> None:
        for source in sources:
            reader = self._readers.pop(source, None)
            if reader is not None:
                await reader.stop()

    async def _on_disconnected(self) -> None:
        self._outage.set()
        await super()._on_disconnected()

    async def _on_reconnected(self) -> None:
        self._outage.clear()
        for reader in self._readers.values():
            reader.is_broken = True  # what it was sent meanwhile went nowhere
        await super()._on_reconnected()
        self._repair.set()

    def _dropped(self, subject: str) -> None:
        """Nothing is lost: the reader sees the hole at the next frame or heartbeat, and starts over before it."""

    def broken(self, reader: Reader) -> None:
        """A reader has missed something."""
        reader.is_broken = True
        self._repair.set()

    async def _keep_reading(self) -> None:
        """Make readers anew that have missed a frame, or all their heartbeats."""
        loop, patience_s = asyncio.get_running_loop(), self.options.heartbeat * MISSED_HEARTBEATS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.options.heartbeat):
                    await self._repair.wait()
            self._repair.clear()
            await self.is_up.wait()
            for source, reader in list(self._readers.items()):
                if reader.is_broken or loop.time() - reader.heard_at > patience_s:
                    await self._make_anew(source, reader)
            if self._repair.is_set():
                await asyncio.sleep(self.options.reconnect_wait)

    async def _make_anew(self, source: str, reader: Reader) -> None:
        try:
            await reader.restart()
            if self._readers.get(source) is not reader:  # it was left meanwhile
                await reader.stop()
        except (nats.errors.Error, APIError) as error:
            self.broken(reader)
            if isinstance(error, NotFoundError):
                with suppress(ConnectionError):
                    await self._ensure_stream()
            elif self.client.is_connected:
                self.trouble(UnisonoError(f"{self.url} gave no consumer for '{source}' yet: {error}"))

    # Publishing.

    def _send_now(self, topic: str, frame: bytes) -> bool:
        return False  # the server confirms each frame

    async def _send(self, batch: list[Parcel]) -> None:
        await self.is_up.wait()
        stored: dict[asyncio.Future[PubAck], Parcel] = {}
        try:
            for parcel in batch:
                headers = {Header.MSG_ID.value: f"{self._token}-{parcel.n}"}
                subject = self.options.prefix + parcel.topic
                stored[await self.js.publish_async(subject, parcel.frame, headers=headers)] = parcel
        except nats.errors.Error as error:
            await self._settle(stored, batch, 0)
            raise OutageError from error
        await self._settle(stored, batch, ACK_S)

    async def _settle(
        self, stored: dict[asyncio.Future[PubAck], Parcel], batch: list[Parcel], timeout_s: float
    ) -> None:
        """Wait for what is stored; take it out of the batch; raise OutageError if something is left."""
        if stored:
            everything: asyncio.Future[Any] = asyncio.gather(*stored, return_exceptions=True)
            outage: asyncio.Future[Any] = asyncio.create_task(self._outage.wait())
            await asyncio.wait([everything, outage], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            outage.cancel()
        done, error = set(), None
        for future, parcel in stored.items():
            if not future.done():
                future.cancel()  # and `everything` with it
            elif future.exception() is None:
                done.add(parcel.n)
            else:
                error = future.exception()
        batch[:] = [parcel for parcel in batch if parcel.n not in done]
        if isinstance(error, NoStreamResponseError):
            with suppress(ConnectionError):
                await self._ensure_stream()
        elif error is not None:
            self.trouble(UnisonoError(f"{self.url} does not store frames, they wait: {error}"))
        if batch:
            raise OutageError

    async def flush(self) -> None:
        """Return when everything published before is stored."""
        await super(NatsService, self).flush()

    async def _part(self) -> None:
        await end(self._watch)
        if self.client.is_connected:
            await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
        await super()._part()


class Reader:
    """An ordered consumer of one source."""

    def __init__(self, service: JetStreamService, source: str) -> None:
        self.is_broken = False
        self.heard_at = asyncio.get_running_loop().time()
        self._service = service
        self._source = source
        self._subject = to_subject(source, service.options.prefix)
        self._last = -1  # in the stream; unknown before the first start
        self._next = 1  # of the consumer
        self._consumer = ""
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Read from now on, or from behind the last frame heard."""
        service, o = self._service, self._service.options
        inbox = service.client.new_inbox()
        self._next, self.is_broken = 1, False  # its first frames may be here before we hear that it exists
        self._subscription = await service.client.subscribe(
            inbox, cb=self._heard, pending_msgs_limit=o.pending_frames, pending_bytes_limit=o.pending_bytes
        )
        is_new = self._last < 0
        config = ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=DeliverPolicy.NEW if is_new else DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=None if is_new else self._last + 1,
            filter_subject=self._subject,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            idle_heartbeat=o.heartbeat,
            flow_control=True,
            inactive_threshold=o.heartbeat * MISSED_HEARTBEATS * 2,
            mem_storage=True,
            num_replicas=1,
        )
        info = await service.js.add_consumer(service.stream, config)
        self._consumer = info.name
        if is_new:
            assert info.delivered is not None
            self._last = max(self._last, info.delivered.stream_seq)
        self.heard_at = asyncio.get_running_loop().time()

    async def restart(self) -> None:
        """Make the consumer anew, behind the last frame heard; say so if the stream no longer has what follows."""
        self._consumer = ""  # the old one goes by itself: nobody listens to it any more
        await self.stop()
        service = self._service
        state = (await service.js.stream_info(service.stream)).state
        if state.last_seq < self._last:
            service.trouble(
                GapError(
                    f"the stream '{service.stream}' of {service.url} was made anew; '{self._source}' has a gap"
                )
            )
            self._last = 0
        elif state.first_seq > self._last + 1:
            service.trouble(
                GapError(
                    f"up to {state.first_seq - self._last - 1} frames on '{self._source}' left the stream "
                    f"'{service.stream}' of {service.url} before they were read; see max_age= and max_bytes="
                )
            )
        await self.start()

    async def stop(self) -> None:
        """Read no more."""
        subscription, self._subscription = self._subscription, None
        consumer, self._consumer = self._consumer, ""
        if subscription is not None:
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()
        if consumer and self._service.client.is_connected:
            with suppress(nats.errors.Error, APIError):  # it goes by itself soon
                await self._service.js.delete_consumer(self._service.stream, consumer)

    async def _heard(self, message: Msg) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        if message.headers and message.headers.get("Status") == "100":
            await self._control(message, message.headers)
            return
        sequence = message.metadata.sequence
        if self.is_broken:
            return
        if sequence.consumer != self._next:
            self._service.broken(self)
            return
        self._next += 1
        self._last = sequence.stream
        topic = from_subject(message.subject, self._service.options.prefix)
        self._service.routes.deliver(self._source, topic, message.data)

    async def _control(self, message: Msg, headers: dict[str, str]) -> None:
        """Answer flow control; compare a heartbeat's count with ours."""
        reply = message.reply or headers.get("Nats-Consumer-Stalled")
        if reply:
            await self._service.client.publish(reply, b"")
        last = headers.get("Nats-Last-Consumer")
        if last is not None and int(last) >= self._next and not self.is_broken:
            self._service.broken(self)
