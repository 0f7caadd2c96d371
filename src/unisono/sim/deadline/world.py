"""A world of brokers and subscribers, as data: by hand or drawn from a seed."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.sim.network import Conditions


class BrokerSpec(msgspec.Struct, frozen=True):
    """One life of a broker; `ahead_s` is what its clock is ahead of the true time."""

    name: str
    topics: tuple[str, ...]
    zone: str = ""
    ahead_s: float = 0.0


class SubscriberSpec(msgspec.Struct, frozen=True):
    """One subscriber; with probability `replies` it answers an event that was delivered by one of its own."""

    name: str
    broker: str
    topics: tuple[str, ...]
    ahead_s: float = 0.0
    replies: float = 0.0
    patience_s: float | None = (
        None  # for how long events are of use to it, where that is less than their deadlines
    )


class Say(msgspec.Struct, frozen=True):
    """Somebody, broker or subscriber, publishes."""

    at: float
    who: str
    topic: str
    lives_s: float  # until its deadline


class Crash(msgspec.Struct, frozen=True):
    """A broker is gone without a word; its subscribers go to another a while later."""

    at: float
    who: str


class Start(msgspec.Struct, frozen=True):
    """A broker comes, for the first time or in a new life."""

    at: float
    broker: BrokerSpec


class Switch(msgspec.Struct, frozen=True):
    """A broker or subscriber takes more topics, or fewer."""

    at: float
    who: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Go(msgspec.Struct, frozen=True):
    """A subscriber goes to another broker."""

    at: float
    who: str
    broker: str


class Sleep(msgspec.Struct, frozen=True):
    """Somebody does nothing for a while; what comes meanwhile is taken when it wakes up."""

    at: float
    who: str
    for_s: float


Happening: TypeAlias = Say | Crash | Start | Switch | Go | Sleep


class DeadlineWorld(msgspec.Struct, frozen=True):
    """Who there is, what happens, and what the network does."""

    seed: int
    settings: CausalSettings
    brokers: tuple[BrokerSpec, ...]
    subscribers: tuple[SubscriberSpec, ...]
    happenings: tuple[Happening, ...]
    near: Conditions = Conditions()  # the network within a zone, and to subscribers
    far: Conditions = Conditions()  # and between zones
    reply_s: float = 0.5  # how long replies live
    replies_max: int = 12
    ends_at: float = 4.0

    @property
    def is_calm(self) -> bool:
        """Whether everything is certain to arrive in time: nobody loses, sleeps, goes or is slow."""
        quiet = all(isinstance(h, Say) for h in self.happenings)
        fast = all(
            not c.loss and c.latency_s_max < 0.5 * self.settings.round_s for c in (self.near, self.far)
        )
        return quiet and fast

    def traits(self) -> list[str]:
        """What is special about this world, for the statistics."""
        kinds = {type(h) for h in self.happenings}
        round_s = self.settings.round_s
        facts = {
            "loss": bool(self.near.loss or self.far.loss),
            "duplication": bool(self.near.duplication or self.far.duplication),
            "delay past deadlines": any(c.spread_s > 4 * round_s for c in (self.near, self.far)),
            "crashes": Crash in kinds,
            "brokers that come": Start in kinds,
            "topics that change": Switch in kinds,
            "subscribers that move": Go in kinds,
            "sleepers": Sleep in kinds,
            "clock skew": any(b.ahead_s for b in self.brokers) or any(s.ahead_s for s in self.subscribers),
            "zones": len({broker.zone for broker in self.brokers}) > 1,
            "replies": any(s.replies for s in self.subscribers),
            "less patient subscribers": any(s.patience_s is not None for s in self.subscribers),
            "calm": self.is_calm,
        }
        return [name for name, is_so in facts.items() if is_so]
