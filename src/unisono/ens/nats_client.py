"""The NATS client, with a short way in: what is heard is handed on as it is read.

The client of nats-py gives every subscription a queue and a task. So messages of several subjects overtake each other on
their way through one process, which the ordering layer then has to put right, and each costs a switch of tasks. Our
listeners return at once and must not be overtaken: they are called from where the connection is read, in its order, and
what they cannot take in yet stays in the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

UNSENT_MAX = 64 * 1024  # bytes that the operating system has not taken; beyond, whoever sends waits

Hear: TypeAlias = Callable[[str, bytes], None]
"""Called with a subject and a payload; must not block and must not raise."""


class DirectClient(Client):
    """A client whose `listen` bypasses queues; everything else is as it was."""

    def __init__(self) -> None:
        super().__init__()
        self._hears: dict[object, Hear] = {}  # by the callback that stands for it
        self._unsent: list[bytes] = []  # of this turn of the loop

    async def listen(self, subject: str, hear: Hear) -> Subscription:
        """Subscribe; whatever comes is heard in the order of the connection."""

        async def stands_for(message: Msg) -> None:
            hear(message.subject, message.data)

        self._hears[stands_for] = hear
        return await self.subscribe(subject, cb=stands_for)

    async def unlisten(self, subscription: Subscription) -> None:
        """Unsubscribe."""
        self._hears.pop(subscription._cb, None)
        await subscription.unsubscribe()

    def publish_now(self, subject: str, payload: bytes) -> bool:
        """Publish without a task in between; False, and nothing is done, if something is in the way."""
        if self._pending or not self.is_connected or self.is_draining_pubs:
            return False
        if not self._unsent:
            writer = getattr(self._transport, "_io_writer", None)  # a plain connection has one
            if writer is None or writer.transport.is_closing():
                return False
            if writer.transport.get_write_buffer_size() > UNSENT_MAX:
                return False
            asyncio.get_running_loop().call_soon(self.push)
        self._unsent.append(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        return True

    def push(self) -> None:
        """Write everything of this turn at once: a call into the system costs more than all that led to it."""
        unsent, self._unsent = self._unsent, []
        writer = getattr(self._transport, "_io_writer", None)
        if unsent and writer is not None and not writer.transport.is_closing():
            writer.write(b"".join(unsent))

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        if self._unsent and self.is_connected:  # what is pending comes after it
            self._pending[:0], self._unsent = self._unsent, []
        return await super()._flush_pending(force_flush)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        subscription = self._subs.get(sid)
        hear = None if subscription is None else self._hears.get(subscription._cb)
        if hear is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        hear(subject.decode(), data)
