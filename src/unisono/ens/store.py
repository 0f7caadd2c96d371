"""What nodes keep in common at a broker: small records that change by compare-and-set, and append-only lanes.

A record has a revision, which only grows, also across deletion. A lane numbers what is appended to it, 1, 2, 3 and so
on, also after it was truncated. Everything is bytes. Names of records and lanes follow the rules of topics.

Appends are pipelined: they take effect in the order of the calls, without one waiting for the other. Whoever knows
that a lane ends at 7 may append three records at once and expect 7, 8 and 9. If the first is refused, so are the
others, with one exception that a reader of lanes must know: somebody else's record may land just in front of the
first one (a seal, say, at 8). Then the first is refused, and the second, which expects 8, is stored at 9, behind the
seal. So what is stored behind a seal does not count, and a record says by itself which one it follows. (A store that
`fences` refuses it as well: it knows the epoch of the last seal.)

`unisono.testing.store_contract` is the suite every store passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from unisono.model.durability import Durability
from unisono.model.errors import ConfigError, PayloadError, TopicError
from unisono.model.ids import check_topic

Changed: TypeAlias = Callable[[int, bytes], None]
"""Called with a revision and a value, from the event loop; must not block and must not raise."""


class Watch(Protocol):
    """Somebody is told of the changes of a record."""

    async def close(self) -> None:
        """Tell no more; nothing is notified after this returns."""
        ...


class Store(Protocol):
    """What nodes keep in common.

    Every wait is bounded. ConnectionError: the broker is away, or has gone; UnconfirmedError: it did not answer in
    time. After either, what was asked for may or may not have happened. ForgottenError: the broker no longer has what
    it had confirmed, for instance a lane in memory after a restart; it is made anew.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes see it; if not, it ends with this process."""
        ...

    @property
    def is_private(self) -> bool:
        """Whether nobody else ever sees it, not even in this process."""
        ...

    @property
    def fences(self) -> bool:
        """Whether it refuses by itself what a sealed writer appends; if not, readers have to ignore it."""
        ...

    @property
    def durability(self) -> Durability:
        """What its lanes survive; known when it is open."""
        ...

    async def open(self) -> None:
        """Make what is missing at the broker; raises ConnectionError or ConfigError that says what to do."""
        ...

    async def look(self, key: str) -> tuple[int, bytes] | None:
        """A record with its revision; None if there is none."""
        ...

    async def decide(self, key: str, value: bytes, revision: int) -> int | None:
        """Change a record if this is its revision, 0 if it is not there; its new revision, or None if refused."""
        ...

    async def watch(self, key: str, notify: Changed) -> Watch:
        """Tell the value there is, and each later one; some may be skipped, none comes back, the last is told."""
        ...

    async def keys(self, prefix: str = "") -> list[str]:
        """The names of all records that begin with these characters."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a record; harmless if there is none. Watches are not told."""
        ...

    def append(
        self, lane: str, record: bytes, expected: int | None = None, epoch: int = 0
    ) -> asyncio.Future[int | None]:
        """Put a record at the end of a lane if its last sequence is `expected`, or anyway.

        `epoch` is the writer's. Where `fences`, a record that is appended anyway (a seal) ends all lower epochs in
        its lane: whatever expects something and is of a lower one is refused.
        The result is the record's sequence, or None: refused, and not stored.
        """
        ...

    async def read(
        self, lane: str, after: int = 0, limit: int | None = None
    ) -> tuple[list[tuple[int, bytes]], int]:
        """What is kept behind a sequence, in order, and the last sequence ever given, 0 if none.

        Everything is in it whose append was confirmed to anybody before this was called, up to `limit` records.
        """
        ...

    async def truncate(self, lane: str, up_to: int) -> None:
        """Forget the records up to a sequence; sequences go on."""
        ...

    async def lanes(self) -> list[str]:
        """The names of all lanes."""
        ...

    async def drop(self, lane: str) -> None:
        """Forget a lane and its sequences; harmless if there is none."""
        ...

    async def close(self) -> None:
        """Let go; appends that are under way fail with ClosedError."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A service that has a store."""

    def store(self) -> Store:
        """The store at this service's broker, over its connection, and closed with it."""
        ...


async def open_store(service: object) -> Store:
    """The store of a connected service, opened; raises ConfigError when it has none."""
    if not isinstance(service, Keeping):
        raise ConfigError(
            f"{type(service).__name__} has no store that nodes could share; use nats:// (JetStream), redis://, "
            "or memory:// within one process"
        )
    store = service.store()
    await store.open()
    return store


def check_key(name: object) -> str:
    """Return the name of a record or a lane if it is one; else raise ConfigError."""
    try:
        return check_topic(name)  # type: ignore[arg-type]
    except TopicError as error:
        raise ConfigError(f"{name!r:.60} is no name for a record or a lane: {error}") from None


def check_bytes(value: object, limit: int) -> bytes:
    """Return what is to be stored if it can be; else raise PayloadError."""
    if not isinstance(value, bytes):
        raise PayloadError(f"a store keeps bytes, not {type(value).__name__}")
    if len(value) > limit:
        raise PayloadError(f"{len(value)} bytes are over the limit of {limit}; see the URL option frame_max=")
    return value


def check_limit(limit: object) -> int | None:
    """Return how much is to be read at most if that can be said; else raise ConfigError."""
    return None if limit is None else check_number("the limit", limit)


def check_number(what: str, number: object) -> int:
    """Return a revision or a sequence if it is one; else raise ConfigError."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
        raise ConfigError(f"{what} is {number!r}; it is a whole number, 0 or more")
    return number
