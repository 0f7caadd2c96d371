"""Watching a record of a bucket: a consumer that sends the last value and each later one.

It numbers what it sends, and tells the number with its heartbeats. When one is missing, when heartbeats do not come, or
after an outage, it is made anew and begins with the last value again; what was told before is not told twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from unisono.ens.ending import end
from unisono.ens.nats import NatsService
from unisono.ens.nats_api import RefusedError, ask, state_of
from unisono.ens.nats_lane import SECOND_NS
from unisono.ens.store import Changed
from unisono.model.errors import ForgottenError, UnisonoError

MISSED_HEARTBEATS = 3

log = logging.getLogger("unisono")


class NatsWatch:
    """A consumer of one record, and a task that keeps it alive."""

    def __init__(
        self,
        service: NatsService,
        bucket: str,
        subject: str,
        notify: Changed,
        make_bucket: Callable[[], Awaitable[Any]],
    ) -> None:
        self.on_close: Callable[[NatsWatch], None] = lambda watch: None
        self._service = service
        self._bucket = bucket
        self._subject = subject
        self._notify = notify
        self._make_bucket = make_bucket
        self._told = 0  # the last revision
        self._next = 1  # number of the consumer's
        self._heard_at = 0.0
        self._repair = asyncio.Event()
        self._subscription: Subscription | None = None
        self._consumer = ""
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Begin; raises ConnectionError when the server does not let us."""
        try:
            await self._consume()
        except (RefusedError, nats.errors.Error) as error:
            await self._leave()
            raise ConnectionError(
                f"{self._service.url} gave no watch of '{self._subject}': {error}"
            ) from error
        except BaseException:
            await self._leave()
            raise
        self._service.on_link.append(self._link)
        self._keeper = asyncio.create_task(self._keep(), name=f"{self._service.url} watch {self._subject}")

    async def close(self) -> None:
        """Tell no more."""
        self._closed = True
        if self._link in self._service.on_link:
            self._service.on_link.remove(self._link)
        await end(self._keeper)
        await self._leave()
        self.on_close(self)

    async def _consume(self) -> None:
        service, heartbeat_s = self._service, self._service.options.heartbeat
        await service.wait_until_up()
        await self._leave()
        inbox = service.client.new_inbox()
        self._next = 1
        self._repair.clear()
        self._subscription = await service.client.subscribe(inbox, cb=self._heard)
        made = await ask(
            service,
            f"CONSUMER.CREATE.{self._bucket}",
            stream_name=self._bucket,
            config={
                "deliver_subject": inbox,
                "deliver_policy": "last_per_subject",
                "filter_subject": self._subject,
                "ack_policy": "none",
                "max_deliver": 1,
                "mem_storage": True,
                "num_replicas": 1,
                "idle_heartbeat": int(heartbeat_s * SECOND_NS),
                "inactive_threshold": int(heartbeat_s * MISSED_HEARTBEATS * 2 * SECOND_NS),
            },
        )
        self._consumer = made["name"]
        self._heard_at = asyncio.get_running_loop().time()

    async def _leave(self) -> None:
        subscription, self._subscription = self._subscription, None
        consumer, self._consumer = self._consumer, ""
        client = self._service.client
        with suppress(nats.errors.Error):
            if subscription is not None:
                await subscription.unsubscribe()
            if consumer and client.is_connected:
                operation = f"$JS.API.CONSUMER.DELETE.{self._bucket}.{consumer}"
                await client.publish(operation, b"", reply=client.new_inbox())  # it would go by itself later

    async def _keep(self) -> None:
        """Make the consumer anew when it has missed something, or is not heard of."""
        loop, heartbeat_s = asyncio.get_running_loop(), self._service.options.heartbeat
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(heartbeat_s):
                    await self._repair.wait()
            if not self._repair.is_set() and loop.time() - self._heard_at < heartbeat_s * MISSED_HEARTBEATS:
                continue
            await self._service.is_up.wait()
            try:
                await self._check_bucket()
                await self._consume()
            except (RefusedError, UnisonoError, OSError, nats.errors.Error) as error:
                log.info("%s gave no watch of '%s' yet: %s", self._service.url, self._subject, error)
                self._repair.set()
                await asyncio.sleep(self._service.options.reconnect_wait)

    async def _check_bucket(self) -> None:
        """If the bucket begins anew, so do the revisions."""
        state = await state_of(self._service, self._bucket)
        if state is None:
            await self._make_bucket()
        if state is None or state.last_seq < self._told:
            self._told = 0
            text = f"{self._service.url} has forgotten the records that '{self._subject}' belongs to"
            self._service.trouble(ForgottenError(text))

    def _link(self, is_up: bool) -> None:
        if is_up:
            self._repair.set()

    async def _heard(self, message: Msg) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        headers = message.headers or {}
        if headers.get("Status") == "100":
            last = headers.get("Nats-Last-Consumer")
            if last is not None and int(last) >= self._next:
                self._repair.set()
            return
        sequence = message.metadata.sequence
        if sequence.consumer != self._next:
            self._repair.set()
            return
        self._next += 1
        if sequence.stream <= self._told or self._closed or "KV-Operation" in headers:
            return
        self._told = sequence.stream
        try:
            self._notify(sequence.stream, message.data)
        except Exception:
            log.exception("a watch of '%s' raised while it was notified", self._subject)
