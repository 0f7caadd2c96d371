"""The NATS client, with a short way in: what is heard is handed on as it is read.

The client of nats-py gives every subscription a queue and a task. So messages of several subjects overtake each other on
their way through one process, which the ordering layer then has to put right, and each costs a switch of tasks. Our
listeners return at once and must not be overtaken: they are called from where the connection is read, in its order, and
what they cannot take in yet stays in the socket. Out, what one turn of the loop publishes is written at once.

This knows the insides of nats-py. Where they are not as we know them, everything goes its usual way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.protocol.parser import AWAITING_CONTROL_LINE

HEAD_BYTES_MAX = 4096  # of the line before a payload
UNSENT_MAX = 64 * 1024  # bytes that the operating system has not taken; beyond, whoever sends waits

log = logging.getLogger("unisono")

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

    def publish_now(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        """Publish without a task in between; False, and nothing is done, if something is in the way."""
        if getattr(self, "_pending", True) or not self.is_connected or self.is_draining_pubs:
            return False
        if not self._unsent:
            writer = getattr(self._transport, "_io_writer", None)  # a plain connection has one
            if writer is None or writer.transport.is_closing():
                return False
            if writer.transport.get_write_buffer_size() > UNSENT_MAX:
                return False
            asyncio.get_running_loop().call_soon(self.push)
        to = f"{subject} {reply}".rstrip().encode()
        if headers is None:
            self._unsent.append(b"PUB %b %d\r\n%b\r\n" % (to, len(payload), payload))
        else:
            lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
            head = f"NATS/1.0\r\n{lines}\r\n".encode()
            sizes = (to, len(head), len(head) + len(payload), head, payload)
            self._unsent.append(b"HPUB %b %d %d\r\n%b%b\r\n" % sizes)
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        return True

    def push(self) -> None:
        """Write everything of this turn at once: a call into the system costs more than all that led to it."""
        unsent, self._unsent = self._unsent, []
        writer = getattr(self._transport, "_io_writer", None)
        if unsent and writer is not None and not writer.transport.is_closing():
            writer.write(b"".join(unsent))

    async def _flush_pending(self, *args: Any, **options: Any) -> Any:
        if self._unsent and self.is_connected:  # what is pending comes after it
            self._pending[:0], self._unsent = self._unsent, []
        return await super()._flush_pending(*args, **options)

    async def _read_loop(self) -> None:
        reader = getattr(self._transport, "_io_reader", None)
        is_known = hasattr(self._ps, "buf") and hasattr(self._ps, "state")
        if is_known and isinstance(reader, asyncio.StreamReader):
            reader.feed_data = partial(self._fed, reader, reader.feed_data)  # type: ignore[method-assign]
        await super()._read_loop()

    def _fed(self, reader: asyncio.StreamReader, feed: Callable[[bytes], None], data: bytes) -> None:
        """Take what listeners are to hear from the front of what was read; the rest goes its usual way."""
        if reader._buffer or self._ps.buf or self._ps.state != AWAITING_CONTROL_LINE:  # type: ignore[attr-defined]
            feed(data)
            return
        at, end = 0, len(data)
        while at < end and data.startswith(b"MSG ", at):
            head = data.find(b"\r\n", at, at + HEAD_BYTES_MAX)
            words = data[at + 4 : head].split(b" ") if head > 0 else ()
            if len(words) != 3 or not words[1].isdigit() or not words[2].isdigit():
                break  # it asks for an answer, or is not complete
            hear, tail = self._hear_of(int(words[1])), head + 2 + int(words[2])
            if hear is None or data[tail : tail + 2] != b"\r\n":
                break
            self._heard(hear, words[0], data[head + 2 : tail])
            at = tail + 2
        if at < end:
            feed(data[at:] if at else data)

    def _hear_of(self, sid: int) -> Hear | None:
        subscription = self._subs.get(sid)
        return None if subscription is None else self._hears.get(subscription._cb)

    def _heard(self, hear: Hear, subject: bytes, data: bytes) -> None:
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        try:
            hear(subject.decode(), data)
        except Exception:  # nothing that anybody sends may end the connection
            log.exception("whoever was told of %.100r raised", subject)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if (hear := self._hear_of(sid)) is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            self._heard(hear, subject, data)
