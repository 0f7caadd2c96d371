"""A store inside one process: for memory://, and for brokers that cannot keep anything for us.

It behaves like the others, but nobody else sees it and nothing survives the process: nodes on such a broker need a
static assignment of topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from unisono.ens.store import Changed, check_bytes, check_key, check_limit, check_number
from unisono.model.durability import Durability
from unisono.model.errors import ClosedError

log = logging.getLogger("unisono")


@dataclass(eq=False, slots=True)
class LocalLane:
    """Records, and the sequence of the last one ever."""

    records: deque[tuple[int, bytes]] = field(default_factory=deque)
    tail: int = 0
    epoch: int = 0  # of the last seal


@dataclass(eq=False, slots=True)
class LocalWatch:
    """Somebody is told of the changes of a record."""

    shelf: Shelf
    key: str
    notify: Changed
    live: bool = True

    def tell(self, revision: int, value: bytes) -> None:
        """Notify, unless it was closed; whatever it raises is its own affair."""
        if self.live:
            try:
                self.notify(revision, value)
            except Exception:
                log.exception("a watch of '%s' raised while it was notified", self.key)

    async def close(self) -> None:
        """Tell no more."""
        self.live = False
        watches = self.shelf.watches.get(self.key, {})
        watches.pop(self, None)
        if not watches:
            self.shelf.watches.pop(self.key, None)


@dataclass(eq=False, slots=True)
class Shelf:
    """What is kept; several stores of one process may share it."""

    records: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    lanes: dict[str, LocalLane] = field(default_factory=dict)
    watches: dict[str, dict[LocalWatch, None]] = field(default_factory=dict)
    revision: int = 0


class LocalStore:
    """A user of a shelf."""

    def __init__(self, record_max: int, shelf: Shelf | None = None) -> None:
        self._record_max = record_max
        self._shelf = shelf or Shelf()
        self._is_private = shelf is None
        self._watching: list[LocalWatch] = []
        self._closed = False

    @property
    def shared(self) -> bool:
        """Only within this process."""
        return False

    @property
    def is_private(self) -> bool:
        """Unless it was given a shelf, which others may have as well."""
        return self._is_private

    @property
    def fences(self) -> bool:
        """It knows the epoch of the last seal."""
        return True

    @property
    def durability(self) -> Durability:
        """Everything ends with this process."""
        return "none"

    async def open(self) -> None:
        """Nothing to make."""
        self._opened()

    async def look(self, key: str) -> tuple[int, bytes] | None:
        """A record with its revision."""
        return self._opened().records.get(check_key(key))

    async def decide(self, key: str, value: bytes, revision: int) -> int | None:
        """Change a record if this is its revision."""
        shelf = self._opened()
        check_key(key)
        check_bytes(value, self._record_max)
        check_number("the revision", revision)
        if shelf.records.get(key, (0, b""))[0] != revision:
            return None
        shelf.revision += 1
        shelf.records[key] = (shelf.revision, value)
        loop = asyncio.get_running_loop()
        for watch in shelf.watches.get(key, {}):
            loop.call_soon(watch.tell, shelf.revision, value)
        return shelf.revision

    async def watch(self, key: str, notify: Changed) -> LocalWatch:
        """Tell the value there is, and each later one."""
        shelf = self._opened()
        watch = LocalWatch(shelf, check_key(key), notify)
        shelf.watches.setdefault(key, {})[watch] = None
        self._watching.append(watch)
        if key in shelf.records:
            watch.tell(*shelf.records[key])
        return watch

    async def keys(self, prefix: str = "") -> list[str]:
        """The names of all records that begin with these characters."""
        return sorted(key for key in self._opened().records if key.startswith(prefix))

    async def delete(self, key: str) -> None:
        """Forget a record."""
        self._opened().records.pop(check_key(key), None)

    def append(
        self, lane: str, record: bytes, expected: int | None = None, epoch: int = 0
    ) -> asyncio.Future[int | None]:
        """Put a record at the end of a lane."""
        check_bytes(record, self._record_max)
        if expected is not None:
            check_number("the expected sequence", expected)
        check_key(lane)
        stored: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        stored.set_result(self.append_now(lane, record, expected, epoch))
        return stored

    def append_now(self, lane: str, record: bytes, expected: int | None, epoch: int) -> int | None:
        """The same for those who are known to ask for nothing impossible, and need not wait."""
        shelf = self._shelf
        if self._closed or len(record) > self._record_max:
            self._opened()
            check_bytes(record, self._record_max)
        kept = shelf.lanes.get(lane)
        if kept is None:
            kept = shelf.lanes[lane] = LocalLane()
        if expected is None:
            kept.epoch = max(kept.epoch, epoch)
        elif expected != kept.tail or epoch < kept.epoch:
            return None
        kept.tail += 1
        kept.records.append((kept.tail, record))
        return kept.tail

    async def read(
        self, lane: str, after: int = 0, limit: int | None = None
    ) -> tuple[list[tuple[int, bytes]], int]:
        """What is kept behind a sequence, and the last sequence."""
        shelf = self._opened()
        check_number("the sequence", after)
        check_limit(limit)
        kept = shelf.lanes.get(check_key(lane)) or LocalLane()
        skipped = max(0, after - (kept.tail - len(kept.records)))
        end = None if limit is None else skipped + limit
        return list(islice(kept.records, skipped, end)), kept.tail

    async def truncate(self, lane: str, up_to: int) -> None:
        """Forget the records up to a sequence."""
        shelf = self._opened()
        check_number("the sequence", up_to)
        kept = shelf.lanes.get(check_key(lane))
        while kept is not None and kept.records and kept.records[0][0] <= up_to:
            kept.records.popleft()

    async def lanes(self) -> list[str]:
        """The names of all lanes."""
        return sorted(self._opened().lanes)

    async def drop(self, lane: str) -> None:
        """Forget a lane."""
        self._opened().lanes.pop(check_key(lane), None)

    async def close(self) -> None:
        """Let go."""
        self._closed = True
        for watch in self._watching:
            await watch.close()
        self._watching.clear()

    def _opened(self) -> Shelf:
        if self._closed:
            raise ClosedError("the store is closed; connect again for a new one")
        return self._shelf
