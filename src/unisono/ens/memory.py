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
from dataclasses import dataclass, field
from random import Random
from typing import Any
from weakref import WeakValueDictionary

from unisono.ens.port import Capabilities, Interest, Notify
from unisono.model.errors import ClosedError, ConfigError


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

    topics: frozenset[str]
    notify: Notify
    live: bool = True


@dataclass(eq=False)
class MemoryService:
    """Subscribers by topic; publishing calls them."""

    misbehaviour: Misbehaviour = field(default_factory=Misbehaviour)

    def __post_init__(self) -> None:
        self._by_topic: dict[str, dict[MemoryInterest, None]] = {}
        self._rng = Random(self.misbehaviour.seed)
        self._late: set[asyncio.TimerHandle] = set()
        self._users = 0

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

    async def connect(self) -> None:
        """Nothing to reach."""
        self._users += 1

    async def subscribe(self, topics: frozenset[str], notify: Notify) -> MemoryInterest:
        """Notify of every frame on one of the topics from now on."""
        interest = MemoryInterest(topics, notify)
        for topic in topics:
            self._by_topic.setdefault(topic, {})[interest] = None
        return interest

    async def unsubscribe(self, interest: Interest) -> None:
        """Forget a subscriber."""
        assert isinstance(interest, MemoryInterest)
        interest.live = False
        for topic in interest.topics:
            interests = self._by_topic.get(topic, {})
            interests.pop(interest, None)
            if not interests:
                self._by_topic.pop(topic, None)

    def publish(self, topics: tuple[str, ...], frame: Any) -> None:
        """Notify every subscriber of one of the topics, once."""
        if not self._users:
            raise ClosedError("the memory service is closed")
        if len(topics) == 1:
            interests = list(self._by_topic.get(topics[0], ()))
        else:
            interests = list(dict.fromkeys(i for topic in topics for i in self._by_topic.get(topic, ())))
        for interest in interests:
            if self.well_behaved:
                if interest.live:
                    interest.notify(frame)
            else:
                self._mistreat(interest, frame)

    def _mistreat(self, interest: MemoryInterest, frame: Any) -> None:
        bad, rng = self.misbehaviour, self._rng
        copies = 2 if rng.random() < bad.duplicate else 1
        for _ in range(copies):
            if rng.random() < bad.loss:
                continue
            loop = asyncio.get_running_loop()
            handle = loop.call_later(rng.random() * bad.jitter_ms / 1000, self._arrive, interest, frame)
            self._late.add(handle)
            if len(self._late) > 4096:
                self._late = {
                    late for late in self._late if not late.cancelled() and late.when() > loop.time()
                }

    @staticmethod
    def _arrive(interest: MemoryInterest, frame: Any) -> None:
        if interest.live:
            interest.notify(frame)

    async def flush(self) -> None:
        """Everything is handed over at once."""

    async def close(self) -> None:
        """One user fewer; the last one takes what is still under way along."""
        self._users = max(0, self._users - 1)
        if not self._users:
            for handle in self._late:
                handle.cancel()
            self._late.clear()


_shared: WeakValueDictionary[str, MemoryService] = WeakValueDictionary()


def open_memory(name: str, options: dict[str, str]) -> MemoryService:
    """The service of a memory:// URL; a name is shared within the process."""
    numbers: dict[str, float] = {}
    for key, text in options.items():
        if key not in ("jitter_ms", "loss", "duplicate", "seed"):
            raise ConfigError(f"memory:// has no option '{key}'; it has jitter_ms, loss, duplicate and seed")
        try:
            numbers[key] = float(text)
        except ValueError:
            raise ConfigError(f"memory:// option {key}={text!r} is not a number") from None
    seed = int(numbers.pop("seed", 0))
    misbehaviour = Misbehaviour(seed=seed, **numbers)
    if not name:
        return MemoryService(misbehaviour)
    service = _shared.get(name)
    if service is None:
        service = _shared[name] = MemoryService(misbehaviour)
    elif service.misbehaviour != misbehaviour:
        raise ConfigError(f"memory://{name} is already open with other options")
    return service
