"""MQTT 5: QoS 1 by default, so that the broker keeps what a reader has not got yet; QoS 0 with `?qos=0`.

mqtt://127.0.0.1:1883                       reliable, if the broker's own limits allow it (docs/transports.md)
mqtt://user:password@host?client_id=desk-7  who we are; the broker keeps our place for session_expiry= seconds
mqtt://host:8883?tls=true&tls_ca=ca.pem     encrypted

Every subscription has an identifier that comes back with its messages: so a topic that is meant by several
subscriptions is told apart, whether the broker sends it once or several times.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from contextlib import suppress
from typing import Annotated, Any

import aiomqtt
from aiomqtt.exceptions import MqttConnectError
from msgspec import Meta
from paho.mqtt.client import ConnectFlags, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from unisono.ens.broker import BrokerService
from unisono.ens.local_store import LocalStore
from unisono.ens.names import check_prefix, from_filter, to_filter
from unisono.ens.options import Address, BrokerOptions, read_address, read_options, tls_context
from unisono.ens.outbox import OutageError, Parcel
from unisono.model.errors import ConfigError, UnisonoError

PORT = 1883
QOS_0_LOSS = "MQTT keeps nothing at QoS 0: what was published or under way meanwhile may be lost"
SESSION_LOSS = "the broker has forgotten our session: what was published meanwhile is lost"
KEEP_NOTHING_RETAINED = 2  # do not send what was retained before we subscribed

quiet = logging.getLogger("unisono.mqtt")
quiet.setLevel(logging.CRITICAL)  # the client's own log repeats what we report


class MqttOptions(BrokerOptions, frozen=True, kw_only=True):
    """What an mqtt:// URL may say."""

    prefix: str = "u/"
    qos: Annotated[int, Meta(ge=0, le=1)] = 1
    client_id: str | None = None
    keepalive: Annotated[int, Meta(ge=1, le=65535)] = 15
    session_expiry: Annotated[int, Meta(ge=1, le=2**32 - 2)] = 300  # how long the broker waits for us
    inflight: Annotated[int, Meta(ge=1, le=65535)] = 100  # messages sent before the first is confirmed


def open_mqtt(where: str, options: dict[str, str]) -> MqttService:
    """The service of an mqtt:// URL."""
    read = read_options("mqtt", options, MqttOptions)
    check_prefix("mqtt", read.prefix, "/")
    tls_context("mqtt", read)  # a missing file is better known now
    if read.tls_hostname:
        raise ConfigError("mqtt:// has no tls_hostname; the certificate must name the host of the URL")
    address = read_address("mqtt", where, PORT)
    if address.path:
        raise ConfigError(f"mqtt://{where} has a path, which means nothing to MQTT; see the option prefix=")
    return MqttService(address, read)


class MqttService(BrokerService):
    """One client, connected again and again by a task."""

    options: MqttOptions

    def __init__(self, address: Address, options: MqttOptions) -> None:
        super().__init__("mqtt", address, options, reliable=options.qos > 0)
        self.window = options.inflight  # how many messages the broker takes before it has confirmed one
        self._client: _Client | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._ids: dict[str, int] = {}  # source -> subscription identifier
        self._sources: dict[int, str] = {}
        self._identified = 0

    @property
    def client(self) -> _Client:
        """The connection."""
        assert self._client is not None
        return self._client

    # Connecting.

    async def _reach(self) -> None:
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep_connected(first), name=f"{self.url} keeper")
        try:
            await first
        except (aiomqtt.MqttError, OSError, ValueError) as error:
            await self._keeper
            raise ConnectionError(self._why(error)) from error

    def _why(self, error: Exception) -> str:
        if isinstance(error, MqttConnectError):
            who = f"user '{self.address.user}'" if self.address.user else "a client without a user"
            return f"the MQTT broker at {self.address} does not admit {who} ({error}); check user:password@ in the URL"
        if "timed out" in str(error) or "Disconnected" in str(error):
            return (
                f"what answers at {self.address} is no MQTT 5 broker, or is stuck ({error}); check the port"
            )
        return f"no MQTT broker answers at {self.address} ({error}); start one with `mosquitto`, or use memory://"

    async def _keep_connected(self, first: asyncio.Future[None]) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                if not first.done():
                    await self._begin()
                async with self.client:
                    failures = 0
                    await self._resume()
                    if not first.done():
                        first.set_result(None)
                    await self._stay()
            except (aiomqtt.MqttError, OSError, ValueError) as error:
                self.client.abandon()
                if not first.done():
                    first.set_exception(error)
                    return
                self.went_down()
                failures += 1
                if 0 <= self.options.max_reconnect < failures:
                    self.give_up(f"{failures} attempts to connect failed, the last one with: {error}")
                    return
            except Exception as error:  # a bug of ours must not look like silence
                self.give_up(f"its keeper broke: {error!r}")
                raise
            if not self._closing.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.options.reconnect_wait):
                        await self._closing.wait()

    async def _begin(self) -> None:
        """Forget what an earlier life with our client_id has subscribed to, if it is not made up."""
        identifier = self.options.client_id or f"{self.options.name or 'unisono'}-{secrets.token_hex(6)}"
        if self.options.client_id is not None:
            async with _Client(self, identifier, clean_start=True):
                pass
        # Not clean, although it is new: Mosquitto 2.0 writes only sessions to disk that did not begin clean.
        self._client = _Client(self, identifier, clean_start=False)

    async def _resume(self) -> None:
        """Subscribe again, in case the broker has forgotten; harmless if it has not."""
        for source in list(self._ids):
            if source in self._ids:  # it may be left meanwhile
                await self._subscribe(source)
        kept = self.client.had_session or not self._ids  # who listens to nothing has nothing to lose
        self.came_up(QOS_0_LOSS if self.options.qos == 0 else None if kept else SESSION_LOSS)

    async def _stay(self) -> None:
        """Return when we are closing; raises MqttError when the connection is lost."""
        lost = asyncio.create_task(anext(self.client.messages))
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([lost, closing], return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                lost.result()  # there are no messages in this queue: it can only raise
        finally:
            lost.cancel()
            closing.cancel()
            await asyncio.gather(lost, closing, return_exceptions=True)

    def store(self) -> LocalStore:
        """In this process: MQTT has no compare-and-set."""
        if self._store is None:
            self._store = LocalStore(self.options.frame_max)
        assert isinstance(self._store, LocalStore)
        return self._store

    # Listening.

    def heard(self, message: MQTTMessage) -> None:
        """A message has come."""
        topic = from_filter(message.topic, self.options.prefix)
        for id in getattr(message.properties, "SubscriptionIdentifier", ()):
            source = self._sources.get(id)
            if source is not None:
                self.routes.deliver(source, topic, bytes(message.payload))

    async def _listen(self, sources: list[str]) -> None:
        await self.wait_until_up()
        for source in sources:
            self._identified += 1
            self._ids[source], self._sources[self._identified] = self._identified, source
        try:
            for source in sources:
                await self._subscribe(source)
        except aiomqtt.MqttError as error:
            raise ConnectionError(f"{self.url} did not confirm the subscription: {error}") from error

    async def _subscribe(self, source: str) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        properties.SubscriptionIdentifier = self._ids[source]
        answers = await self.client.subscribe(
            to_filter(source, self.options.prefix),
            options=SubscribeOptions(qos=self.options.qos, retainHandling=KEEP_NOTHING_RETAINED),
            properties=properties,
            timeout=self.options.connect_timeout,
        )
        for answer in answers:
            if isinstance(answer, ReasonCode) and (answer.is_failure or answer.value < self.options.qos):
                raise aiomqtt.MqttError(f"the broker grants '{source}' only {answer}")

    async def _ignore(self, sources: list[str]) -> None:
        try:
            for source in sources:
                self._sources.pop(self._ids.pop(source, 0), None)
                if self.is_up.is_set():
                    await self.client.unsubscribe(
                        to_filter(source, self.options.prefix), timeout=self.options.connect_timeout
                    )
        except aiomqtt.MqttError as error:
            raise ConnectionError(str(error)) from error

    # Publishing.

    async def _send(self, batch: list[Parcel]) -> None:
        while batch:
            await self.is_up.wait()
            window = batch[: self.window]
            # One that is under way when the connection breaks is sent again by the client itself, when it is back.
            outcomes = await asyncio.gather(*map(self._publish, window), return_exceptions=True)
            batch[: len(window)] = [
                p for p, outcome in zip(window, outcomes, strict=True) if outcome is not None
            ]
            for outcome in outcomes:
                if outcome is not None:
                    if not isinstance(outcome, aiomqtt.MqttError):
                        raise outcome
                    raise OutageError from outcome

    async def _publish(self, parcel: Parcel) -> None:
        topic = to_filter(parcel.topic, self.options.prefix)
        qos = self.options.qos
        try:
            timeout_s = math.inf if qos else self.options.connect_timeout
            await self.client.publish(topic, parcel.frame, qos=qos, timeout=timeout_s)
        except aiomqtt.MqttCodeError:
            raise
        except aiomqtt.MqttError:
            if qos:
                raise
            # It was under way when the connection broke. At QoS 0 it is lost, and the client never tells.

    async def _part(self) -> None:
        with suppress(ConnectionError):
            await self._ignore(self.routes.sources)  # or the broker would keep messages for nobody
        self._closing.set()
        self.is_up.clear()
        if self._keeper is not None:
            await self._keeper


class _Client(aiomqtt.Client):
    """The client, with some of its callbacks extended: it hides what they are told, and we need it."""

    def __init__(self, service: MqttService, identifier: str, *, clean_start: bool) -> None:
        o, address = service.options, service.address
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0 if clean_start else o.session_expiry
        super().__init__(
            address.host,
            address.port,
            username=address.user,
            password=address.password,
            identifier=identifier,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=clean_start,
            properties=properties,
            timeout=o.connect_timeout,
            keepalive=o.keepalive,
            max_inflight_messages=o.inflight,
            tls_context=tls_context("mqtt", o),
            logger=quiet,
        )
        self.pending_calls_threshold = 2**31  # we bound them ourselves
        self.had_session = False
        self._service = service

    def abandon(self) -> None:
        """Close what an attempt to connect has left open; the client itself would leave it so."""
        sock = self._client.socket()
        if sock is not None and sock.fileno() >= 0:
            self._loop.remove_reader(sock.fileno())
            self._loop.remove_writer(sock.fileno())
            sock.close()
        if self._misc_task is not None:
            self._misc_task.cancel()

    def _on_connect(
        self, client: Any, userdata: Any, flags: ConnectFlags, reason_code: ReasonCode, properties: Any = None
    ) -> None:
        self.had_session = flags.session_present
        granted = getattr(properties, "ReceiveMaximum", 65535)
        self._service.window = min(self._service.options.inflight, granted)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_message(self, client: Any, userdata: Any, message: MQTTMessage) -> None:
        self._service.heard(message)  # not through the client's queue, which costs a task for each message

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason_code: ReasonCode, properties: Any
    ) -> None:
        if reason_code.is_failure:
            service = self._service
            service.trouble(UnisonoError(f"{service.url} has refused a frame, it is lost: {reason_code}"))
        super()._on_publish(client, userdata, mid, reason_code, properties)

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:
        """Watch the socket at once when we can: a moment later it may be closed, and its number another's."""

        def write() -> None:
            try:
                client.loop_write()
            except Exception as error:
                if not self._disconnected.done():
                    self._disconnected.set_exception(error)

        try:
            asyncio.get_running_loop().add_writer(sock.fileno(), write)
        except RuntimeError:  # we are in the thread that connects
            super()._on_socket_register_write(client, userdata, sock)
