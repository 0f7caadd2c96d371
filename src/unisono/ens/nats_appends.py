"""Messages to JetStream, one after the other without waiting; the answers come back to an inbox of our own.

Each message has a number, which is the last word of the subject that its answer is sent to. As many may be under way as
the server answers in good time (it may force each one to disk), at most as it keeps in memory (WINDOW); the others wait
here. An answer is a sequence, or a refusal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import msgspec
import nats.errors
from nats.aio.subscription import Subscription

from unisono.ens.ending import end
from unisono.ens.nats import NatsService
from unisono.ens.nats_api import TOO_MUCH, WRONG_LAST, Refusal
from unisono.model.errors import (
    BackPressureError,
    ClosedError,
    PayloadError,
    UnconfirmedError,
    UnisonoError,
)

WINDOW = 4096  # the server itself takes 10,000 for a stream
WINDOW_FIRST, WINDOW_LEAST = 256, 16
SLOW_S = 0.5  # an answer that took longer halves the window, any other makes it larger by one
HEADER_ROOM = 512  # of a frame
YIELD_EVERY = 128

Stored: TypeAlias = "asyncio.Future[int | None]"
"""The sequence of a message, or None if another one was expected."""


Tell: TypeAlias = Callable[[int | None, Exception | None], None]
"""Called with the same, or with why nobody knows."""


class NobodyError(ConnectionError):
    """There is no stream, or its server is starting or stopping; the message was not stored."""


class _Answer(msgspec.Struct):
    seq: int = 0
    error: Refusal | None = None


class AtOnce:
    """Like a future, but whoever waits is told at once, and not in the next turn of the loop."""

    __slots__ = ("_is_done", "_tell")

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._is_done = False

    def done(self) -> bool:
        """Whether it was told."""
        return self._is_done

    def set_result(self, sequence: int | None) -> None:
        """The message has this sequence, or was refused."""
        self._is_done = True
        self._tell(sequence, None)

    def set_exception(self, error: Exception) -> None:
        """Nobody knows whether it was stored."""
        self._is_done = True
        self._tell(None, error)


class Letter(NamedTuple):
    """A message to be stored."""

    stream: str
    subject: str
    payload: bytes
    headers: dict[str, str] | None
    stored: Stored | AtOnce


class _Sent(NamedTuple):
    letter: Letter
    at: float


class Appends:
    """A queue, a task that sends, and a table of what is under way."""

    def __init__(self, service: NatsService, prepare: Callable[[str, str], Awaitable[None]]) -> None:
        self.known: set[str] = set()  # streams that are there
        self._service = service
        self._prepare = prepare
        self._decoder = msgspec.json.Decoder(_Answer)
        self._queue: deque[Letter] = deque()
        self._queued_bytes = 0
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._under_way: dict[int, _Sent] = {}
        self._number = 0
        self._window = WINDOW_FIRST
        self._halved_at = 0  # the number of the last message before the window was halved
        self._outages = 0
        self._heard_at = 0.0
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._sender: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def open(self) -> None:
        """Listen to answers, and begin to send."""
        if self._closed:
            raise ClosedError(f"the store of {self._service.url} is closed")
        if self._sender is not None:
            return
        client = self._service.client
        self._inbox = client.new_inbox() + "."
        try:
            self._subscription = await client.listen(f"{self._inbox}*", self._heard, remember=False)
        except nats.errors.Error as error:
            raise ConnectionError(f"{self._service.url} is away: {error}") from error
        self._service.on_link.append(self._link)
        self._sender = asyncio.create_task(self._run(), name=f"{self._service.url} appends")
        self._sender.add_done_callback(self._ended)

    def put(self, stream: str, subject: str, payload: bytes, headers: dict[str, str] | None) -> Stored:
        """Send when it is its turn; raises BackPressureError when too many wait."""
        stored: Stored = asyncio.get_running_loop().create_future()
        self.post(Letter(stream, subject, payload, headers, stored))
        return stored

    def post(self, letter: Letter) -> None:
        """The same with a letter."""
        self._check_open()
        payload = letter.payload
        o = self._service.options
        if len(self._queue) >= o.outbox or self._queued_bytes + len(payload) > o.outbox_bytes:
            raise BackPressureError(
                f"{len(self._queue)} records wait for {self._service.url}; await those before, "
                "or raise the URL options outbox= and outbox_bytes="
            )
        if not self._service.is_up.is_set():
            _fail(letter, ConnectionError(f"{self._service.url} is away; the record was not sent"))
        elif not self._send_now(letter):
            self._queue.append(letter)
            self._queued_bytes += len(payload)
            self._some.set()

    def _send_now(self, letter: Letter) -> bool:
        """Send without waiting for a task, if nothing is in the way; False if it was not."""
        if self._queue or letter.stream not in self.known or len(self._under_way) >= self._window:
            return False
        client = self._service.client
        if len(letter.payload) + HEADER_ROOM > client.max_payload:
            return False
        reply = f"{self._inbox}{self._number + 1}"
        if not client.publish_now(letter.subject, letter.payload, reply, letter.headers):
            return False
        self._note_sent(letter)
        return True

    def _note_sent(self, letter: Letter) -> int:
        self._number += 1
        loop = asyncio.get_running_loop()
        self._under_way[self._number] = _Sent(letter, loop.time())
        if self._timer is None:
            self._heard_at = loop.time()
            self._timer = loop.call_later(self._service.options.store_timeout, self._expire)
        return self._number

    async def now(self, stream: str, subject: str, payload: bytes, headers: dict[str, str]) -> int | None:
        """Send before those that wait, and return the answer."""
        self._check_open()
        await self._service.wait_until_up()
        stored: Stored = asyncio.get_running_loop().create_future()
        await self._send(Letter(stream, subject, payload, headers, stored))
        return await stored

    async def close(self) -> None:
        """Fail what is under way."""
        self._closed = True
        if self._link in self._service.on_link:
            self._service.on_link.remove(self._link)
        self._fail_all(ClosedError(f"the store of {self._service.url} is closed"))
        if self._timer is not None:
            self._timer.cancel()
        await end(self._sender)
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._service.client.unlisten(self._subscription)

    def _check_open(self) -> None:
        if self._closed or self._sender is None:
            raise ClosedError(
                f"the store of {self._service.url} is {'closed' if self._closed else 'not open'}"
            )

    # Sending.

    async def _run(self) -> None:
        count = 0
        while True:
            while self._queue:
                if len(self._under_way) >= self._window:
                    self._room.clear()
                    await self._room.wait()
                    continue
                letter = self._queue.popleft()
                self._queued_bytes -= len(letter.payload)
                if letter.stream in self.known or await self._made(letter):
                    await self._send(letter)
                count += 1
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            self._some.clear()
            await self._some.wait()

    async def _made(self, letter: Letter) -> bool:
        """Whether the stream of a letter is there now, and the connection was there all the time."""
        outages = self._outages
        try:
            await self._prepare(letter.stream, letter.subject)
        except (UnisonoError, OSError) as error:
            _fail(letter, error)
            return False
        if outages != self._outages:
            _fail(letter, ConnectionError(f"{self._service.url} was away; the record was not sent"))
            return False
        self.known.add(letter.stream)
        return True

    async def _send(self, letter: Letter) -> None:
        if letter.stored.done():  # nobody waits for it any more
            return
        number = self._note_sent(letter)
        try:
            await self._service.client.publish(
                letter.subject, letter.payload, reply=f"{self._inbox}{number}", headers=letter.headers
            )
        except nats.errors.MaxPayloadError:
            self._under_way.pop(number, None)
            limit = self._service.client.max_payload
            _fail(letter, PayloadError(f"{self._service.url} takes {limit} bytes at most, with headers"))
        except nats.errors.Error as error:
            self._under_way.pop(number, None)
            _fail(letter, ConnectionError(f"{self._service.url} is away: {error}"))

    # Answers, and none.

    def _heard(self, subject: str, data: bytes) -> None:
        number = int(subject[len(self._inbox) :])
        sent = self._under_way.pop(number, None)
        self._heard_at = asyncio.get_running_loop().time()
        if sent is not None:
            self._adapt(number, self._heard_at - sent.at)
        self._room.set()
        if sent is None or sent.letter.stored.done():
            return
        letter = sent.letter
        if not data:  # nobody answers: only a status comes
            self.known.discard(letter.stream)  # the next one will find out
            _fail(letter, NobodyError(f"no stream at {self._service.url} takes '{letter.subject}' now"))
            return
        answer = self._decoder.decode(data)
        if answer.error is None:
            letter.stored.set_result(answer.seq)
        elif answer.error.err_code in WRONG_LAST:
            letter.stored.set_result(None)
        elif answer.error.err_code in TOO_MUCH:
            _fail(letter, BackPressureError(f"{self._service.url} did not store a record: {answer.error}"))
        else:
            _fail(letter, ConnectionError(f"{self._service.url} did not store a record: {answer.error}"))

    def _adapt(self, number: int, took_s: float) -> None:
        """Keep so many under way that answers come soon; one burst that is too large counts once."""
        if took_s <= SLOW_S:
            self._window = min(self._window + 1, WINDOW)
        elif number > self._halved_at:
            self._window = max(self._window // 2, WINDOW_LEAST)
            self._halved_at = self._number

    def _link(self, is_up: bool) -> None:
        if not is_up:
            self._outages += 1
            self.known.clear()  # a stream in memory may be gone
            self._fail_all(
                ConnectionError(
                    f"the connection to {self._service.url} is lost; the record may be stored or not"
                )
            )

    def _expire(self) -> None:
        """Give up on what was sent too long ago; if nothing was heard for as long, on everything."""
        loop, timeout_s = asyncio.get_running_loop(), self._service.options.store_timeout
        now = loop.time()
        error = UnconfirmedError(
            f"{self._service.url} did not confirm a record within {timeout_s:g} s; it may be stored or not"
        )
        if now - self._heard_at >= timeout_s:
            self._fail_all(error)
        while self._under_way:
            number, sent = next(iter(self._under_way.items()))
            if sent.at + timeout_s > now:
                break
            _fail(self._under_way.pop(number).letter, error)
        self._room.set()
        first = next(iter(self._under_way.values()), None)
        self._timer = None if first is None else loop.call_at(first.at + timeout_s, self._expire)

    def _fail_all(self, error: Exception) -> None:
        sent, self._under_way = self._under_way, {}
        queue, self._queue = self._queue, deque()
        self._queued_bytes = 0
        for letter in [*(one.letter for one in sent.values()), *queue]:
            _fail(letter, error)
        self._room.set()

    def _ended(self, sender: asyncio.Task[None]) -> None:
        if (
            not sender.cancelled() and sender.exception() is not None
        ):  # a bug of ours must not look like silence
            self._closed = True
            self._fail_all(ClosedError(f"the store of {self._service.url} broke: {sender.exception()!r}"))


def _fail(letter: Letter, error: Exception) -> None:
    if not letter.stored.done():
        letter.stored.set_exception(error)
        if isinstance(letter.stored, asyncio.Future):
            letter.stored.exception()  # whoever does not await it is not told off for that
