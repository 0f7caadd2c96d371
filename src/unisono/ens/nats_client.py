"""The NATS client, with a short way in: what is heard is handed on as it is read.

The client of nats-py gives every subscription a queue and a task. So messages of several subjects overtake each other on
their way through one process, which the ordering layer then has to put right, and each costs a switch of tasks. Our
listeners return at once and must not be overtaken: they are called from where the connection is read, in its order, and
what they cannot take in yet stays in the socket. Whatever is not for them is passed on to nats-py message by message, so
that nothing of it keeps the next ones from going the short way. Out, what one turn of the loop publishes is written at
once.

This knows the insides of nats-py. Where they are not as we know them, everything goes its usual way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.protocol.parser import AWAITING_CONTROL_LINE

from unisono.model.errors import FrameError

MESSAGE, WITH_HEADERS = b"MSG", b"HMSG"
TURN_BYTES = 16 * 1024  # that are heard before others have their turn
MESSAGE_BYTES_MAX = 64 * 1024 * 1024  # no server allows more
LINE_BYTES_MAX = 1024 * 1024  # no server says more of itself
WAYS_MAX = 4096  # subjects that are remembered, each way
UNSENT_MAX = 64 * 1024  # bytes that the operating system has not taken; beyond, whoever sends waits

RAISED = "whoever was told of %.100r raised"

log = logging.getLogger("unisono")

T = TypeVar("T")

Hear: TypeAlias = Callable[[str, bytes], None]
"""Called with what a subject is for us, and a payload; must not block and must not raise."""


class _Hearer(NamedTuple):
    hear: Hear
    name: Callable[[str], str]
    remember: bool


class _Line(NamedTuple):
    """What a line announces."""

    hear: Hear | None  # None: it is for nats-py
    name: str
    skipped: int  # bytes of headers before the payload
    length: int  # bytes behind the line, with those that end a payload


_ALONE = _Line(None, "", 0, 0)  # a line without a payload


class DirectClient(Client):
    """A client whose `listen` bypasses queues; everything else is as it was."""

    def __init__(self) -> None:
        super().__init__()
        self._hears: dict[object, _Hearer] = {}  # by the callback that stands for it
        self._ways: dict[
            bytes, tuple[Hear, str]
        ] = {}  # subject and subscription, as they come -> who hears it as what
        self._lines: dict[bytes, _Line] = {}  # the same, and how long: by the line before a message
        self._heads: dict[str, bytes] = {}  # subject -> how a message to it begins
        self._unsent: list[bytes] = []  # of this turn of the loop
        self._pieces: list[bytes] = []  # of a message that has not come to its end
        self._lacking = 0  # bytes, until it has
        self._reading: tuple[asyncio.StreamReader, asyncio.Transport] | None = None
        self._out: asyncio.Transport | None = (
            None  # where we write by ourselves, of the connection that is read
        )
        self._is_hearing = False  # what was read is being handed on
        self._is_lost = False  # something came that makes no sense: nats-py is to say so
        self._then: list[Callable[[], None]] = []  # what is done afterwards

    async def listen(
        self, subject: str, hear: Hear, name: Callable[[str], str] = str, *, remember: bool = True
    ) -> Subscription:
        """Subscribe; whatever comes is heard in the order of the connection, with the name of its subject.

        Without `remember` each message is expected to have a subject of its own.
        """

        async def stands_for(message: Msg) -> None:
            hear(name(message.subject), message.data)

        self._hears[stands_for] = _Hearer(hear, name, remember)
        return await self.subscribe(subject, cb=stands_for)

    async def unlisten(self, subscription: Subscription) -> None:
        """Unsubscribe."""
        self._hears.pop(subscription._cb, None)
        self._ways.clear()
        self._lines.clear()
        await subscription.unsubscribe()

    def publish_now(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        """Publish without a task in between; False, and nothing is done, if something is in the way."""
        out = self._out
        if out is None or self._status != Client.CONNECTED or self._pending:
            return False
        if not self._unsent:
            if out.is_closing() or out.get_write_buffer_size() > UNSENT_MAX:
                return False
            if not self._is_hearing:
                asyncio.get_running_loop().call_soon(self.push)
        if reply or headers is not None:
            self._unsent.append(_with_headers(f"{subject} {reply}".rstrip(), payload, headers or {}))
        else:
            head = self._heads.get(subject) or self._head(subject)
            self._unsent.append(b"%b%d\r\n%b\r\n" % (head, len(payload), payload))
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        return True

    def _head(self, subject: str) -> bytes:
        if len(self._heads) >= WAYS_MAX:
            self._heads.clear()
        head = self._heads[subject] = b"PUB %b " % subject.encode()
        return head

    def soon(self, do: Callable[[], None]) -> None:
        """Call it when everything that was read at once has been heard; otherwise in the next turn of the loop."""
        if self._is_hearing:
            self._then.append(do)
        else:
            asyncio.get_running_loop().call_soon(do)

    def push(self) -> None:
        """Write everything of this turn at once: a call into the system costs more than all that led to it."""
        if not self._unsent:
            return
        unsent, self._unsent = self._unsent, []
        if self._out is not None and not self._out.is_closing():
            self._out.write(b"".join(unsent))

    async def _flush_pending(self, *args: Any, **options: Any) -> Any:
        if self._unsent and self.is_connected:  # what is pending comes after it
            self._pending[:0], self._unsent = self._unsent, []
        return await super()._flush_pending(*args, **options)

    async def _read_loop(self) -> None:
        self._out = None
        reader, writer = (
            getattr(self._transport, "_io_reader", None),
            getattr(self._transport, "_io_writer", None),
        )
        knows_parser = getattr(self._ps, "state", None) == AWAITING_CONTROL_LINE and not getattr(
            self._ps, "buf", True
        )
        self._pieces, self._is_lost = [], False  # of a connection that is no more
        if (
            knows_parser
            and hasattr(self, "_pending")
            and isinstance(reader, asyncio.StreamReader)
            and isinstance(writer, asyncio.StreamWriter)
            and not getattr(reader, "_eof", True)  # else there is nothing more to hear
        ):
            usual = writer.transport.get_protocol()
            assert isinstance(usual, asyncio.Protocol)
            self._out = cast(asyncio.Transport, writer.transport)
            self._reading = reader, self._out
            fed = partial(self._fed, usual.data_received)
            writer.transport.set_protocol(ShortCut(usual, fed))
            if came := len(reader._buffer):  # type: ignore[attr-defined]
                fed(await reader.read(came))
        await super()._read_loop()

    def _fed(self, pass_on: Callable[[bytes], None], data: bytes) -> None:
        """Let listeners hear what is theirs of what was read, and pass on the rest, a message at a time."""
        if self._is_lost:
            pass_on(data)
            return
        if self._pieces:
            self._pieces.append(data)
            self._lacking -= len(data)
            if self._lacking > 0:
                return
            data, self._pieces = b"".join(self._pieces), []
        at, end, lines, heard, others, stats = 0, len(data), self._lines, 0, 0, self.stats
        self._is_hearing = True
        while at < end:
            head = data.find(b"\r\n", at)
            line = data[at:head] if head >= 0 else b""
            hear, name, skipped, length = lines.get(line) or self._line(line)
            tail = head + 2 + length if head >= 0 else end + 1
            if tail > end and tail - at < (MESSAGE_BYTES_MAX if head >= 0 else LINE_BYTES_MAX):
                self._pieces, self._lacking = [data[at:]], tail - end  # the rest is on its way
                break
            if data[tail - 2 : tail] != b"\r\n":
                self._is_lost = True
                pass_on(data[at:])
                break
            if hear is None:
                others += tail - at
                pass_on(data[at:tail])
            else:
                heard += 1
                try:
                    hear(name, data[head + 2 + skipped : tail - 2])
                except Exception:  # nothing that anybody sends may end the connection
                    log.exception(RAISED, name)
            at = tail
        if self._then:
            self._do_then()
        self._is_hearing = False
        if self._unsent:
            self.push()
        stats["in_msgs"] += heard
        stats["in_bytes"] += at - others
        if at > TURN_BYTES:
            self._take_turns()

    def _do_then(self) -> None:
        then, self._then = self._then, []
        for do in then:
            try:
                do()
            except Exception:
                log.exception("what was to be done after reading raised")
        for do in self._then:  # they want to do even more
            asyncio.get_running_loop().call_soon(do)
        self._then.clear()

    def _take_turns(self) -> None:
        """Let those who were told of something have it, before more is read."""
        if self._reading is not None:
            self._reading[1].pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        assert self._reading is not None
        reader, transport = self._reading
        if not reader._paused and not transport.is_closing():  # type: ignore[attr-defined]
            transport.resume_reading()

    def _line(self, line: bytes) -> _Line:
        """What a line announces, and who is to hear it as what."""
        kind, _, rest = line.partition(b" ")
        words, _, size = rest.rpartition(b" ")
        if kind not in (MESSAGE, WITH_HEADERS) or not size.isdigit():
            return _ALONE
        if kind == MESSAGE and (way := self._ways.get(words)) is not None:
            known = _bound(self._lines)[line] = _Line(*way, 0, int(size) + 2)
            return known
        if len(parts := rest.split(b" ")) < 3:
            return _ALONE
        subject, sid, *others = parts  # with headers: how long they are comes last but one
        hearer = self._hearer(int(sid)) if sid.isdigit() else None
        if hearer is None:
            return _Line(None, "", 0, int(size) + 2)
        way = _way_to(hearer, subject)
        if kind == WITH_HEADERS:
            skipped = int(others[-2]) if len(others) > 1 and others[-2].isdigit() else 0
            return _Line(*way, skipped, int(size) + 2)
        if not hearer.remember or len(others) > 1:
            return _Line(*way, 0, int(size) + 2)
        _bound(self._ways)[words] = way
        known = _bound(self._lines)[line] = _Line(*way, 0, int(size) + 2)
        return known

    def _hearer(self, sid: int) -> _Hearer | None:
        subscription = self._subs.get(sid)
        return None if subscription is None else self._hears.get(subscription._cb)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if (found := self._hearer(sid)) is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        hear, name = _way_to(found, subject)
        try:
            hear(name, data)
        except Exception:
            log.exception(RAISED, name)


class ShortCut(asyncio.Protocol):
    """Hands what a connection brings to us instead of to its protocol, and everything else to that."""

    def __init__(self, usual: asyncio.Protocol, fed: Callable[[bytes], None]) -> None:
        self.data_received = fed  # type: ignore[method-assign, assignment]
        self.eof_received = usual.eof_received  # type: ignore[method-assign]
        self.connection_lost = usual.connection_lost  # type: ignore[method-assign]
        self.pause_writing = usual.pause_writing  # type: ignore[method-assign]
        self.resume_writing = usual.resume_writing  # type: ignore[method-assign]


def _way_to(hearer: _Hearer, subject: bytes) -> tuple[Hear, str]:
    """Who hears a subject as what: nobody, if it has no name."""
    try:
        return hearer.hear, hearer.name(subject.decode())
    except (UnicodeDecodeError, FrameError) as error:
        log.warning("what comes on %.100r is left out: %s", subject, error)
        return _nobody, ""


def _bound(table: dict[bytes, T]) -> dict[bytes, T]:
    """A table in which there is room for one more."""
    if len(table) >= WAYS_MAX:
        table.clear()
    return table


def _nobody(name: str, data: bytes) -> None:
    """Hear nothing."""


def _with_headers(to: str, payload: bytes, headers: Mapping[str, str]) -> bytes:
    """A message that asks for an answer, with headers if there are any."""
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(payload), payload)
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"NATS/1.0\r\n{lines}\r\n".encode()
    sizes = (to.encode(), len(head), len(head) + len(payload), head, payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % sizes
