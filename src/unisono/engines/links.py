"""FIFO links that lose nothing, over a network that does.

Each direction of a link numbers its messages from 1, keeps them until they are acknowledged, and repeats them
after a pause that doubles; the receiver hands them on in order, once each. Repetition is per link and never
end to end: an event re-injected at its publisher would overtake the ones behind it and tie the order in a
knot (three events suffice).

A process that restarts begins a new life, and lives count up. A packet names the life of its sender and the
one it is meant for; what belongs to a former life of either side is dropped. Whoever does not know the other's
life yet learns it from the answer and starts from 1; whoever learns of a new one forgets what the old one was
to be told, and tells its engine (`Lost`). Processes that never restart live in life 0 and know it of each other.

`Links` wraps an engine: it turns its `Send`s into `Packet`s and packets back into `Received`. Wrapped or not,
the engine cannot tell the difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TypeAlias

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import Effect, Fail, Send
from unisono.engines.inputs import TICK, Input, Lost, Received
from unisono.model.errors import UnisonoError
from unisono.model.frames import Message, Packet


class Transmit(msgspec.Struct, frozen=True):
    """Put a packet on the network; it may be lost, doubled or overtaken."""

    to: str
    packet: Packet


class Arrived(msgspec.Struct, frozen=True):
    """The network brought a packet."""

    source: str
    packet: Packet


class LinkSettings(msgspec.Struct, frozen=True):
    """Pauses and bounds of a link."""

    retry_s: float = 0.05
    retry_s_max: float = 1.0
    window: int = 1024  # packets on their way; what comes beyond waits its turn
    queue_max: int = 65536  # messages waiting for the window; beyond it the link gives up


class LinkBroken(UnisonoError):
    """The other side has not answered for longer than the link can remember."""


LinkEffect: TypeAlias = Effect | Transmit


class _Link:
    """One peer: both directions."""

    __slots__ = (
        "acknowledged",
        "early",
        "heard",
        "life",
        "next",
        "pause",
        "queue",
        "retry_at",
        "unacknowledged",
    )

    def __init__(self, life: int = 0) -> None:
        self.life = life  # the newest life of the peer that was heard of
        self.next = 1  # number of the next packet out
        self.acknowledged = 0  # the peer has everything up to here
        self.unacknowledged: dict[int, Message] = {}
        self.queue: deque[Message] = deque()
        self.retry_at: float | None = None
        self.pause = 0.0
        self.heard = 0  # handed on everything up to here
        self.early: dict[int, Message] = {}

    def copy(self) -> _Link:
        twin = _Link()
        for name in _Link.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict | deque) else value)
        return twin

    def state(self) -> Hashable:
        return (
            self.life,
            self.next,
            self.acknowledged,
            tuple((n, str(message)) for n, message in self.unacknowledged.items()),
            tuple(str(message) for message in self.queue),
            self.retry_at,
            self.pause,
            self.heard,
            tuple(sorted((n, str(message)) for n, message in self.early.items())),
        )


class Links:
    """An engine behind reliable FIFO links."""

    def __init__(self, engine: Engine, settings: LinkSettings = LinkSettings(), life: int = 0) -> None:
        self.engine = engine
        self.settings = settings
        self.life = life  # larger than that of any earlier process with this address
        self.peers: dict[str, _Link] = {}

    def handle(self, input: Input | Arrived, now: float) -> list[LinkEffect]:
        """Take one input at time `now`."""
        if isinstance(input, Arrived):
            return self._arrived(input, now)
        effects: list[LinkEffect] = []
        if input is TICK:
            effects += self._retries(now)
        due = self.engine.next_timer()
        if input is not TICK or (due is not None and due <= now):
            effects += self._wrap(self.engine.handle(input, now), now)
        return effects

    def next_timer(self) -> float | None:
        """When a link repeats itself, or the engine wants to be called."""
        times = [link.retry_at for link in self.peers.values() if link.retry_at is not None]
        inner = self.engine.next_timer()
        if inner is not None:
            times.append(inner)
        return min(times, default=None)

    def forget(self, peer: str) -> None:
        """A peer is gone and will never be heard of again under this life: keep nothing for it."""
        self.peers.pop(peer, None)

    def _link(self, peer: str) -> _Link:
        if peer not in self.peers:
            self.peers[peer] = _Link()
        return self.peers[peer]

    def _wrap(self, effects: list[Effect], now: float) -> list[LinkEffect]:
        wrapped: list[LinkEffect] = []
        for effect in effects:
            if isinstance(effect, Send):
                link = self._link(effect.to)
                link.queue.append(effect.message)
                wrapped += self._transmit(effect.to, link, now)
                if len(link.queue) > self.settings.queue_max:
                    wrapped.append(Fail(LinkBroken(f"'{effect.to}' does not answer")))
            else:
                wrapped.append(effect)
        return wrapped

    def _transmit(self, peer: str, link: _Link, now: float) -> list[LinkEffect]:
        effects: list[LinkEffect] = []
        while link.queue and len(link.unacknowledged) < self.settings.window:
            message = link.queue.popleft()
            link.unacknowledged[link.next] = message
            effects.append(Transmit(peer, self._packet(link, link.next, message)))
            link.next += 1
        if link.unacknowledged and link.retry_at is None:
            link.pause = self.settings.retry_s
            link.retry_at = now + link.pause
        return effects

    def _packet(self, link: _Link, number: int = 0, message: Message | None = None) -> Packet:
        return Packet(number, link.heard, message, self.life, link.life)

    def _meet(self, peer: str, life: int, now: float) -> list[LinkEffect]:
        """Talk to a life of the peer that is new to us."""
        former = self._link(peer)
        waiting = (*former.unacknowledged.values(), *former.queue)
        link = self.peers[peer] = _Link(life)
        if former.life:
            return self._wrap(self.engine.handle(Lost(peer, waiting), now), now) if waiting else []
        link.queue.extend(waiting)  # at the first meeting it was meant for whoever answers
        return self._transmit(peer, link, now)

    def _arrived(self, arrived: Arrived, now: float) -> list[LinkEffect]:
        link, packet = self._link(arrived.source), arrived.packet
        effects: list[LinkEffect] = []
        if packet.life < link.life:
            return []  # of a former life
        if packet.life > link.life:
            effects += self._meet(arrived.source, packet.life, now)
            link = self._link(arrived.source)
        if packet.to != self.life:  # meant for a former life, or for whoever is here: say who it is
            return [*effects, Transmit(arrived.source, self._packet(link))]
        if link.acknowledged < packet.acknowledged < link.next:
            for number in range(link.acknowledged + 1, packet.acknowledged + 1):
                link.unacknowledged.pop(number, None)
            link.acknowledged = packet.acknowledged
            link.retry_at = None
            effects += self._transmit(arrived.source, link, now)
        if packet.message is None:
            return effects
        if packet.number > link.heard and len(link.early) < self.settings.window:
            link.early[packet.number] = packet.message
        while link.heard + 1 in link.early:
            link.heard += 1
            message = link.early.pop(link.heard)
            effects += self._wrap(self.engine.handle(Received(arrived.source, message), now), now)
        effects.append(Transmit(arrived.source, self._packet(link)))
        return effects

    def _retries(self, now: float) -> list[LinkEffect]:
        effects: list[LinkEffect] = []
        for peer, link in self.peers.items():
            if link.retry_at is not None and link.retry_at <= now:
                for number, message in link.unacknowledged.items():
                    effects.append(Transmit(peer, self._packet(link, number, message)))
                link.pause = min(2 * link.pause, self.settings.retry_s_max)
                link.retry_at = now + link.pause
        return effects

    def check(self) -> None:
        """The engine's own invariants, and bounded buffers."""
        self.engine.check()
        for link in self.peers.values():
            assert len(link.unacknowledged) <= self.settings.window
            assert len(link.early) <= self.settings.window

    def copy(self) -> Links:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.engine = self.engine.copy()
        twin.peers = {peer: link.copy() for peer, link in self.peers.items()}
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (
            self.life,
            self.engine.state(),
            tuple(sorted((p, link.state()) for p, link in self.peers.items())),
        )
