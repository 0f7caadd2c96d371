"""An event notification service inside one process, well-behaved or as bad as you ask for.

memory://                      nothing is lost or delayed; private to the bus that connects
memory://name                  the same, shared by every bus of the process that connects to this name
memory://?jitter_ms=20         every notification is delayed by its own random time, up to 20 ms
memory://?loss=0.05            5 % of the notifications never arrive
memory://?duplicate=0.05       5 % arrive twice
memory://?seed=7               which ones: decided by the seed
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any
from weakref import WeakValueDictionary

from unisono.ens.local_store import LocalStore, Shelf
from unisono.ens.port import Capabilities, Interest, Notify
from unisono.model.errors import ClosedError, ConfigError
from unisono.model.ids import is_pattern, matches

MATCHED_TOPICS_MAX = 65536  # for how many topics it is remembered which patterns they match

log = logging.getLogger("unisono")


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """How a service mistreats notifications."""

    jitter_ms: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.jitter_ms <= 60_000:
            raise ConfigError(f"jitter_ms is {self.jitter_ms}; it must be between 0 and 60000")
        for name, share in (("loss", self.loss), ("duplicate", self.duplicate)):
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} is {share}; it is a share between 0 and 1")


@dataclass(eq=False, slots=True)
class MemoryInterest:
    """One subscriber of a memory service."""

    topics: frozenset[str]  # and patterns
    notify: Notify
    with_topic: bool = False
    live: bool = True

    def hears(self, topic: str) -> bool:
        """Whether it listens to a topic, by its name or by a pattern."""
        return topic in self.topics or any(matches(name, topic) for name in self.topics)


@dataclass(eq=False)
class MemoryService:
    """Subscribers by topic or pattern; publishing calls them."""

    misbehaviour: Misbehaviour = field(default_factory=Misbehaviour)

    def __post_init__(self) -> None:
        self._by_topic: dict[str, dict[MemoryInterest, None]] = {}
        self._by_pattern: dict[str, dict[MemoryInterest, None]] = {}
        self._matched: dict[str, list[str]] = {}  # topic -> patterns; empty while there are none
        self._rng = Random(self.misbehaviour.seed)
        self._late: dict[int, asyncio.TimerHandle] = {}  # notifications under way
        self._sent = 0
        self._landed: list[asyncio.Future[None]] = []  # who waits until none is
        self._users = 0
        self._shelf = Shelf()
        self._aside: MemoryService | None = None
        self.is_left = False  # everybody who came has gone again

    @property
    def well_behaved(self) -> bool:
        """Whether nothing is delayed, lost or doubled."""
        bad = self.misbehaviour
        return not (bad.jitter_ms or bad.loss or bad.duplicate)

    @property
    def capabilities(self) -> Capabilities:
        """Objects as they are; several topics at once unless each notification is to suffer on its own."""
        return Capabilities(
            reliable=not self.misbehaviour.loss, carries_objects=True, multicast=self.well_behaved
        )

    def store(self) -> LocalStore:
        """One more user of what is kept here, in this process."""
        return LocalStore(self.capabilities.frame_bytes_max, self._shelf)

    def aside(self) -> MemoryService:
        """A service beside this one, as bad: what travels there is nobody's topic here."""
        if self._aside is None:
            self._aside = MemoryService(self.misbehaviour)
        return self._aside

    async def connect(self) -> None:
        """Nothing to reach."""
        self._users += 1
        self.is_left = False

    async def subscribe(
        self, topics: frozenset[str], notify: Notify, *, with_topic: bool = False
    ) -> MemoryInterest:
        """Notify of every frame on one of the topics or patterns from now on."""
        if not self._users:
            raise ClosedError("the memory service is closed; connect first")
        interest = MemoryInterest(frozenset(), notify, with_topic)
        await self.change(interest, topics)
        return interest

    async def change(self, interest: Interest, topics: frozenset[str]) -> None:
        """Notify it of these topics instead; what is under way arrives all the same."""
        assert isinstance(interest, MemoryInterest)
        if not interest.live:
            return
        for name in topics - interest.topics:
            self._table(name).setdefault(name, {})[interest] = None
        for name in interest.topics - topics:
            table = self._table(name)
            del table[name][interest]
            if not table[name]:
                del table[name]
        interest.topics = topics

    def _table(self, name: str) -> dict[str, dict[MemoryInterest, None]]:
        """Where the subscribers of a topic or a pattern are, about to be changed."""
        if not is_pattern(name):
            return self._by_topic
        self._matched.clear()
        return self._by_pattern

    async def unsubscribe(self, interest: Interest) -> None:
        """Forget a subscriber."""
        assert isinstance(interest, MemoryInterest)
        topics = interest.topics
        await self.change(interest, frozenset())
        interest.live, interest.topics = False, topics

    def publish(self, topics: tuple[str, ...], frame: Any) -> None:
        """Notify every subscriber of one of the topics, once."""
        if not self._users:
            raise ClosedError("the memory service is closed; connect first")
        if len(topics) == 1:
            interests = list(self._interested(topics[0]))
        else:
            interests = list(dict.fromkeys(i for topic in topics for i in self._interested(topic)))
        if self.well_behaved:
            for interest in interests:
                _notify(interest, topics, frame)
        else:
            for interest in interests:
                self._mistreat(interest, topics, frame)

    def _interested(self, topic: str) -> Iterable[MemoryInterest]:
        """Who listens to a topic, by its name or by a pattern; everybody once."""
        by_name: Iterable[MemoryInterest] = self._by_topic.get(topic, ())
        if not self._by_pattern:
            return by_name
        patterns = self._matched.get(topic)
        if patterns is None:
            if len(self._matched) >= MATCHED_TOPICS_MAX:
                self._matched.clear()
            patterns = self._matched[topic] = [p for p in self._by_pattern if matches(p, topic)]
        return dict.fromkeys(chain(by_name, *(self._by_pattern[p] for p in patterns)))

    def _mistreat(self, interest: MemoryInterest, topics: tuple[str, ...], frame: Any) -> None:
        bad, rng = self.misbehaviour, self._rng
        copies = 2 if rng.random() < bad.duplicate else 1
        for _ in range(copies):
            if rng.random() < bad.loss:
                continue
            self._sent += 1
            delay = rng.random() * bad.jitter_ms / 1000
            loop = asyncio.get_running_loop()
            self._late[self._sent] = loop.call_later(delay, self._arrive, self._sent, interest, topics, frame)

    def _arrive(self, sent: int, interest: MemoryInterest, topics: tuple[str, ...], frame: Any) -> None:
        del self._late[sent]
        _notify(interest, topics, frame)
        if not self._late:
            self._wake()

    def _wake(self) -> None:
        for waiter in self._landed:
            if not waiter.done():
                waiter.set_result(None)
        self._landed.clear()

    async def flush(self) -> None:
        """Return when nothing is under way."""
        while self._late:
            waiter = asyncio.get_running_loop().create_future()
            self._landed.append(waiter)
            await waiter

    async def close(self) -> None:
        """One user fewer; the last one takes what is still under way along."""
        self._users = max(0, self._users - 1)
        if not self._users:
            self.is_left = True
            for handle in self._late.values():
                handle.cancel()
            self._late.clear()
            self._wake()


def _notify(interest: MemoryInterest, topics: tuple[str, ...], frame: Any) -> None:
    """Tell one subscriber; whatever it raises is its own affair, not that of the others or the publisher."""
    if interest.live:
        try:
            if interest.with_topic:
                interest.notify(next((t for t in topics if interest.hears(t)), topics[0]), frame)
            else:
                interest.notify(frame)
        except Exception:
            log.exception("a subscriber of %s raised while it was notified", sorted(interest.topics))


_shared: WeakValueDictionary[str, MemoryService] = WeakValueDictionary()


def open_memory(name: str, options: dict[str, str]) -> MemoryService:
    """The service of a memory:// URL; a name is shared within the process."""
    numbers: dict[str, float] = {}
    for key, text in options.items():
        if key not in ("jitter_ms", "loss", "duplicate", "seed"):
            raise ConfigError(f"memory:// has no option '{key}'; it has jitter_ms, loss, duplicate and seed")
        try:
            numbers[key] = int(text) if key == "seed" else float(text)
        except ValueError:
            kind = "whole number" if key == "seed" else "number"
            raise ConfigError(f"memory:// option {key}={text!r} is not a {kind}") from None
    seed = int(numbers.pop("seed", 0))
    misbehaviour = Misbehaviour(seed=seed, **numbers)
    if not name:
        return MemoryService(misbehaviour)
    service = _shared.get(name)
    if service is None or (service.is_left and service.misbehaviour != misbehaviour):
        service = _shared[name] = MemoryService(misbehaviour)
    elif service.misbehaviour != misbehaviour:
        raise ConfigError(
            f"memory://{name} is already open with other options; use the same, or another name"
        )
    return service
