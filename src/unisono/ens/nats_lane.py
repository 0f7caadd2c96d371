"""Reading a lane's stream in bulk: a consumer for the occasion, asked for thousands of records at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from unisono.ens.nats import NatsService
from unisono.ens.nats_api import NO_STREAM, RefusedError, ask
from unisono.model.errors import UnconfirmedError

BATCH = 5000
BATCH_BYTES = 8 * 1024 * 1024
SECOND_NS = 1_000_000_000


async def fetch(service: NatsService, stream: str, first: int, last: int) -> list[tuple[int, bytes]] | None:
    """The records from one sequence to another, in order; None if they changed meanwhile, so ask again how many."""
    try:
        made = await ask(
            service,
            f"CONSUMER.CREATE.{stream}",
            stream_name=stream,
            config={
                "ack_policy": "none",
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": first,
                "max_deliver": 1,
                "mem_storage": True,
                "num_replicas": 1,
                "inactive_threshold": int(service.options.store_timeout * 2 * SECOND_NS),
            },
        )
    except RefusedError as error:
        if error.code == NO_STREAM:
            return None
        raise ConnectionError(f"{service.url} does not let us read '{stream}': {error}") from error
    reading = _Reading(service, f"{stream}.{made['name']}", last)
    try:
        return await reading.run()
    except nats.errors.Error as error:
        raise ConnectionError(f"{service.url} is away: {error}") from error
    finally:
        await reading.stop()


class _Reading:
    """One consumer, and what has come from it."""

    def __init__(self, service: NatsService, consumer: str, last: int) -> None:
        self._service = service
        self._consumer = consumer
        self._last = last
        self._records: list[tuple[int, bytes]] = []
        self._inbox = service.client.new_inbox() + "."
        self._asked = 0  # how often
        self._left = 0  # of what was asked for
        self._came = asyncio.Event()  # a batch, or its end
        self._is_broken = False
        self._subscription: Subscription | None = None

    async def run(self) -> list[tuple[int, bytes]] | None:
        client, timeout_s = self._service.client, self._service.options.store_timeout
        self._subscription = await client.subscribe(f"{self._inbox}*", cb=self._heard)
        largest = max(BATCH_BYTES, 2 * client.max_payload)
        request = {"batch": BATCH, "max_bytes": largest, "expires": int(timeout_s * SECOND_NS)}
        while not self._is_done():
            before = len(self._records)
            self._asked, self._left = self._asked + 1, BATCH
            self._came.clear()
            await client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._consumer}",
                msgspec.json.encode(request),
                reply=f"{self._inbox}{self._asked}",
            )
            try:
                async with asyncio.timeout(timeout_s + 1):
                    await self._came.wait()
            except TimeoutError:
                raise UnconfirmedError(
                    f"{self._service.url} stopped in the middle of a lane for {timeout_s:g} s"
                ) from None
            if self._is_broken or (len(self._records) == before and not self._is_done()):
                return None
        return self._without_holes()

    async def stop(self) -> None:
        """Let the consumer go; nobody waits for that."""
        client = self._service.client
        with suppress(nats.errors.Error):
            if self._subscription is not None:
                await self._subscription.unsubscribe()
            await client.publish(f"$JS.API.CONSUMER.DELETE.{self._consumer}", b"", reply=client.new_inbox())

    def _is_done(self) -> bool:
        return bool(self._records) and self._records[-1][0] >= self._last

    async def _heard(self, message: Msg) -> None:
        if not message.reply.startswith("$JS.ACK."):  # the end of a request, before everything has come
            if message.subject.endswith(f".{self._asked}"):
                self._came.set()
            return
        words = message.reply.split(
            "."
        )  # $JS.ACK, then maybe a domain and an account, stream, consumer, times
        sequence, number = (
            (int(words[5]), int(words[6])) if len(words) < 11 else (int(words[7]), int(words[8]))
        )
        if number != len(self._records) + 1:  # one was dropped on the way
            self._is_broken = True
            self._came.set()
            return
        self._records.append((sequence, message.data))
        self._left -= 1
        if not self._left or sequence >= self._last:
            self._came.set()

    def _without_holes(self) -> list[tuple[int, bytes]]:
        """A hole means that the lane was truncated while we read: what is before it is no longer kept."""
        records = [record for record in self._records if record[0] <= self._last]
        if not records or records[-1][0] - records[0][0] == len(records) - 1:
            return records
        start = max(n for n in range(1, len(records)) if records[n][0] != records[n - 1][0] + 1)
        return records[start:]
