"""What the services of real brokers have in common: one life, a bounded outbox, routes to listeners, troubles by name.

An adapter says how to reach its broker, how to listen there, and how to hand over a batch. It sets `is_up` while it is
connected, and clears it during an outage. Every wait has a bound: `connect_timeout`, `flush_timeout`, `close_timeout`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from unisono.ens.ending import end
from unisono.ens.options import Address, BrokerOptions
from unisono.ens.outbox import Outbox, Parcel
from unisono.ens.port import Capabilities, Interest, Notify
from unisono.ens.routes import Listener, Routes
from unisono.ens.store import Store
from unisono.model.errors import (
    ClosedError,
    ConfigError,
    GapError,
    PayloadError,
    UnconfirmedError,
    UnisonoError,
)

Trouble: TypeAlias = Callable[[UnisonoError], None]
"""Told what happened to the connection: GapError, SlowConsumerError, ClosedError, each with a sentence."""

log = logging.getLogger("unisono")


class BrokerService(ABC):
    """An event notification service on a broker that is reached over a network."""

    def __init__(self, scheme: str, address: Address, options: BrokerOptions, *, reliable: bool) -> None:
        self.url = f"{scheme}://{address}"
        self.address = address
        self.options = options
        self.on_trouble: Trouble = _log_trouble
        self.on_link: list[Callable[[bool], None]] = []  # told when the connection is lost, or there again
        self.is_up = asyncio.Event()
        self.routes = Routes()
        self._capabilities = Capabilities(reliable=reliable, frame_bytes_max=options.frame_max)
        self._state = "new"
        self._changing = asyncio.Lock()  # listeners come, change and go one at a time
        self._outbox: Outbox | None = None
        self._sender: asyncio.Task[None] | None = None
        self._down_since: float | None = None
        self._store: Store | None = None

    # What an adapter says.

    @abstractmethod
    async def _reach(self) -> None:
        """Connect; raises ConnectionError with what to do about it, leaving nothing open."""

    @abstractmethod
    async def _listen(self, sources: list[str]) -> None:
        """Subscribe at the broker; returns when it has confirmed."""

    @abstractmethod
    async def _ignore(self, sources: list[str]) -> None:
        """Unsubscribe at the broker."""

    @abstractmethod
    async def _send(self, batch: list[Parcel]) -> None:
        """Hand over a batch; see `outbox.Send`."""

    @abstractmethod
    async def _part(self) -> None:
        """Disconnect."""

    # What the port asks for.

    @property
    def capabilities(self) -> Capabilities:
        """Bytes only, one topic at a time."""
        return self._capabilities

    async def connect(self) -> None:
        """Reach the broker; raises ConnectionError with what to do about it."""
        if self._state != "new":
            raise ClosedError(f"{self.url} is {self._state}; open the URL again for a new connection")
        self._state = "connecting"
        try:
            await self._reach()
        except BaseException:
            self._state = "new"
            raise
        o = self.options
        self._outbox = Outbox(self.url, o.outbox, o.outbox_bytes, self._send, o.reconnect_wait)
        self._sender = asyncio.create_task(self._outbox.run(), name=f"{self.url} sender")
        self._sender.add_done_callback(self._sender_ended)
        self._state = "open"

    async def subscribe(
        self, topics: frozenset[str], notify: Notify, *, with_topic: bool = False
    ) -> Listener:
        """Notify of every frame on one of the topics or patterns from now on."""
        listener = Listener(frozenset(), notify, with_topic)
        await self.change(listener, topics)
        return listener

    async def change(self, interest: Interest, topics: frozenset[str]) -> None:
        """Notify it of these topics instead; raises ConnectionError when the broker does not confirm in time."""
        assert isinstance(interest, Listener)
        self._opened()
        async with self._changing:
            if not interest.live:
                return
            before = interest.topics
            fresh = self.routes.join(interest, topics)
            try:
                if fresh:
                    await self._listen(fresh)
            except BaseException:
                await self._leave(interest, before)
                raise
            await self._leave(interest, topics)

    async def unsubscribe(self, interest: Interest) -> None:
        """Stop notifying."""
        assert isinstance(interest, Listener)
        if not interest.live:
            return
        interest.live = False
        async with self._changing:
            topics = interest.topics
            await self._leave(interest, frozenset())
            interest.topics = topics

    async def _leave(self, listener: Listener, topics: frozenset[str]) -> None:
        stale = self.routes.leave(listener, topics)
        if stale and self._state == "open":
            with suppress(ConnectionError, UnisonoError):  # an outage: the broker forgets by itself
                await self._ignore(stale)

    def publish(self, topics: tuple[str, ...], frame: Any) -> None:
        """Put a frame in the outbox; raises BackPressureError when it is full."""
        outbox = self._outbox
        if outbox is None or self._state != "open":
            outbox = self._opened()
        if len(topics) != 1:
            raise ConfigError(f"{self.url} takes a frame for one topic at a time, not for {len(topics)}")
        if not isinstance(frame, bytes):
            raise PayloadError(f"{self.url} carries bytes, not {type(frame).__name__}")
        if len(frame) > self._capabilities.frame_bytes_max:
            raise PayloadError(
                f"a frame of {len(frame)} bytes is over the limit of {self.url}, "
                f"{self._capabilities.frame_bytes_max} bytes; see the URL option frame_max="
            )
        if outbox.waiting or not self._send_now(topics[0], frame):
            outbox.put(topics[0], frame)

    def publish_now(self, topic: str, frame: bytes) -> bool:
        """Publish a frame that is not too large, if that can be done without waiting; False, and it is not, if it cannot."""
        outbox = self._outbox
        if outbox is None or outbox.waiting or self._state != "open":
            return False
        return self._send_now(topic, frame)

    def _send_now(self, topic: str, frame: bytes) -> bool:
        """Hand a frame to the broker at once, if that can be done without waiting; False if it was not."""
        return False

    async def flush(self) -> None:
        """Return when everything published before is in the broker's hands; UnconfirmedError after a time."""
        await self._opened().flush(self.options.flush_timeout)

    async def close(self) -> None:
        """Send what waits, for a short while, and disconnect."""
        was_open, self._state = self._state == "open", "closed"
        outbox, self._outbox = self._outbox, None
        sender, self._sender = self._sender, None
        if outbox is None or sender is None:  # never connected, or closed before
            return
        try:
            if was_open:
                await outbox.flush(self.options.close_timeout)
        except UnconfirmedError:
            self.trouble(UnconfirmedError(f"{outbox.waiting} frames were never sent: {self.url} was closed"))
        finally:
            outbox.close(f"{self.url} is closed")
            try:
                await end(sender)
                if self._store is not None:
                    await self._store.close()
            finally:
                await self._part_in_time()

    async def _part_in_time(self) -> None:
        try:
            async with asyncio.timeout(self.options.close_timeout):
                await self._part()
        except (TimeoutError, ConnectionError) as error:
            log.warning("%s did not close in an orderly way: %s", self.url, error or "it took too long")

    @property
    def unsent(self) -> int:
        """Frames that the broker does not have yet."""
        return 0 if self._outbox is None else self._outbox.waiting

    # What an adapter needs.

    def trouble(self, error: UnisonoError) -> None:
        """Tell whoever wants to know."""
        try:
            self.on_trouble(error)
        except Exception:
            log.exception("on_trouble of %s raised", self.url)

    def went_down(self) -> None:
        """The connection is lost."""
        self.is_up.clear()
        if self._down_since is None:
            self._down_since = asyncio.get_running_loop().time()
        self._tell_link(False)

    def came_up(self, loss: str | None) -> None:
        """The connection is there; `loss` says what an outage may have cost, None if nothing."""
        down_since, self._down_since = self._down_since, None
        self.is_up.set()
        self._tell_link(True)
        if down_since is not None and self._state == "open":
            away_s = asyncio.get_running_loop().time() - down_since
            if loss is None:
                log.info("%s is back after %.1f s; nothing is lost", self.url, away_s)
            else:
                self.trouble(GapError(f"{self.url} was away for {away_s:.1f} s; {loss}"))

    def give_up(self, reason: str) -> None:
        """The connection is lost for good."""
        if self._state == "open":
            self._state = "closed"
            self._tell_link(False)
            message = f"{self.url} is closed: {reason}"
            if self._outbox is not None:
                self._outbox.close(message)
            self.trouble(ClosedError(message))

    def _tell_link(self, is_up: bool) -> None:
        for told in tuple(self.on_link):
            told(is_up)

    async def wait_until_up(self) -> None:
        """Return when connected; raises ConnectionError after a time."""
        if not self.is_up.is_set():
            try:
                async with asyncio.timeout(self.options.connect_timeout):
                    await self.is_up.wait()
            except TimeoutError:
                raise ConnectionError(f"{self.url} is away; it is tried again, so try again later") from None

    def _opened(self) -> Outbox:
        if self._state != "open" or self._outbox is None:
            raise ClosedError(f"{self.url} is {'not connected' if self._state == 'new' else self._state}")
        return self._outbox

    def _sender_ended(self, sender: asyncio.Task[None]) -> None:
        if not sender.cancelled() and sender.exception() is not None:
            log.error("the sender of %s broke", self.url, exc_info=sender.exception())
            self.give_up(f"its sender broke: {sender.exception()}")


def _log_trouble(error: UnisonoError) -> None:
    log.warning("%s: %s", type(error).__name__, error)
