"""FIFO links that lose nothing, over a network that does.

Each direction of a link numbers its messages from 1, keeps them until they are acknowledged, and repeats them
after a pause that doubles; the receiver hands them on in order, once each. Repetition is per link and never
end to end: an event re-injected at its publisher would overtake the ones behind it and tie the order in a
knot (three events suffice).

A process that restarts begins a new life, and lives count up. A packet names the life of its sender and the
one it is meant for; what belongs to a former life of either side is dropped. Whoever does not know the other's
life yet learns it from the answer and starts from 1; whoever learns of a new one forgets what the old one was
to be told, and tells its engine (`Lost`). Processes that never restart live in life 0 and know it of each other.

Whoever talks to many keeps a link for each, and not for ever: with `peers_max`, `family_max` and `silent_s` a link
that is not needed, or that one peer has too many of, is forgotten. For that peer we are a new life from then on, and
it goes on as if we had been restarted. Peers in `kept` are never forgotten.

`Links` wraps an engine: it turns its `Send`s into `Packet`s and packets back into `Received`. Wrapped or not,
the engine cannot tell the difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterable
from typing import TypeAlias

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import Effect, Fail, Send
from unisono.engines.inputs import TICK, Input, Lost, Received
from unisono.model.errors import UnisonoError
from unisono.model.frames import Message, Packet, Repair


class Transmit(msgspec.Struct, frozen=True):
    """Put a packet on the network; it may be lost, doubled or overtaken."""

    to: str
    packet: Packet


class Arrived(msgspec.Struct, frozen=True):
    """The network brought a packet."""

    source: str
    packet: Packet
    size: int = 0  # bytes it takes, where that matters


class LinkSettings(msgspec.Struct, frozen=True):
    """Pauses and bounds of a link."""

    retry_s: float = 0.05
    retry_s_max: float = 1.0
    window: int = 1024  # packets on their way; what comes beyond waits its turn
    queue_max: int = 65536  # messages waiting for the window; beyond it the link gives up
    early_bytes_max: int = 64 * 1024 * 1024  # what came out of order, of all peers; the rest will be repeated
    probe_after: int = 0  # after so many repeats without an answer only the oldest packet is; 0: always all
    # For whoever talks to everybody; 0: no bound.
    peers_max: int = 0  # links
    family_max: int = 0  # links with peers whose names begin with the same word
    silent_s: float = 0.0  # a peer that says nothing for so long is forgotten
    answers_max: int = 0  # a `Repair` is left out when so many messages wait: whoever wants it asks again


class LinkBroken(UnisonoError):
    """The other side has not answered for longer than the link can remember."""


LinkEffect: TypeAlias = Effect | Transmit


class _Link:
    """One peer: both directions."""

    __slots__ = (
        "acknowledged",
        "early",
        "early_bytes",
        "heard",
        "heard_at",
        "life",
        "next",
        "own",
        "pause",
        "queue",
        "retry_at",
        "unacknowledged",
    )

    def __init__(self, life: int = 0, own: int = 0) -> None:
        self.life = life  # the newest life of the peer that was heard of
        self.own = own  # which life of ours it knows
        self.next = 1  # number of the next packet out
        self.acknowledged = 0  # the peer has everything up to here
        self.unacknowledged: dict[int, Message] = {}
        self.queue: deque[Message] = deque()
        self.retry_at: float | None = None
        self.pause = 0.0
        self.heard = 0  # handed on everything up to here
        self.heard_at = 0.0
        self.early: dict[int, Message] = {}
        self.early_bytes = 0

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

    def __init__(
        self,
        engine: Engine,
        settings: LinkSettings = LinkSettings(),
        life: int = 0,
        kept: Container[str] = frozenset(),
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.life = life  # larger than that of any earlier process with this address
        self.kept = kept
        self.peers: dict[str, _Link] = {}  # where there are bounds, those heard of last come last
        self.forgotten = 0
        self.repeated = 0  # packets sent again; nothing depends on it
        self._families: dict[str, dict[str, None]] = {}
        self._due: dict[str, float] = {}  # peer -> when what it has not acknowledged is repeated
        self._early_bytes = 0
        self._is_bounded = bool(settings.peers_max or settings.family_max or settings.silent_s)
        self._sweep_at = settings.silent_s

    def handle(self, input: Input | Arrived, now: float) -> list[LinkEffect]:
        """Take one input at time `now`."""
        if isinstance(input, Arrived):
            return self.arrived(input.source, input.packet, input.size, now)
        if input is not TICK:
            return self._wrap(self.engine.handle(input, now), now)
        effects = self._retries(now)
        due = self.engine.next_timer()
        if due is not None and due <= now:
            effects += self._wrap(self.engine.handle(input, now), now)
        return effects

    def next_timer(self) -> float | None:
        """When a link repeats itself, or the engine wants to be called."""
        inner = self.engine.next_timer()
        if not self._due:
            return inner
        soonest = min(self._due.values())
        return soonest if inner is None else min(soonest, inner)

    # Who is known.

    def forget(self, peer: str) -> None:
        """Keep nothing for a peer; should it be heard of again, we are a new life for it."""
        link = self.peers.pop(peer, None)
        if link is None:
            return
        self.forgotten += 1
        self._due.pop(peer, None)
        self._early_bytes -= link.early_bytes
        link.early_bytes = 0  # whoever is at work on it goes on with nothing
        link.early.clear()
        if self._is_bounded:
            family = self._families[_family(peer)]
            family.pop(peer, None)
            if not family:
                del self._families[_family(peer)]

    def _link(self, peer: str) -> _Link:
        link = self.peers.get(peer)
        if link is None:
            link = self.peers[peer] = _Link(own=self.life + self.forgotten)
            if self._is_bounded:
                self._families.setdefault(_family(peer), {})[peer] = None
                self._make_room(peer)
        return link

    def _make_room(self, newcomer: str) -> None:
        settings, family = self.settings, self._families[_family(newcomer)]
        if settings.family_max and len(family) > settings.family_max:
            self._forget_first(family)
        if settings.peers_max and len(self.peers) > settings.peers_max:
            self._forget_first(self.peers)

    def _hear(self, peer: str, now: float) -> _Link:
        """A peer speaks: it is the last to be forgotten, and others may be."""
        link = self.peers.get(peer) or self._link(peer)
        link.heard_at = now
        if next(reversed(self.peers)) != peer:  # mostly the same one speaks again
            self.peers[peer] = self.peers.pop(peer)
            family = self._families[_family(peer)]
            del family[peer]
            family[peer] = None
        settings = self.settings
        if settings.silent_s and now >= self._sweep_at:
            self._sweep_at = now + settings.silent_s / 4
            for other in [other for other, one in self.peers.items() if self._is_gone(other, one, now)]:
                self.forget(other)
        return link

    def _forget_first(self, peers: Iterable[str]) -> None:
        first = next((peer for peer in peers if peer not in self.kept), None)
        if first is not None:
            self.forget(first)

    # Out.

    def _wrap(self, effects: list[Effect], now: float) -> list[LinkEffect]:
        wrapped: list[LinkEffect] = []
        for effect in effects:
            if type(effect) is not Send:
                wrapped.append(effect)
                continue
            link, message = self.peers.get(effect.to) or self._link(effect.to), effect.message
            if type(message) is Repair and self._may_be_left_out(link):
                continue
            if not link.queue and len(link.unacknowledged) < self.settings.window:
                wrapped.append(self._first_time(effect.to, link, message, now))
                continue
            link.queue.append(message)
            wrapped += self._transmit(effect.to, link, now)
            if len(link.queue) > self.settings.queue_max:
                if self._is_bounded and effect.to not in self.kept:
                    self.forget(effect.to)  # it asks without listening
                else:
                    wrapped.append(Fail(LinkBroken(f"'{effect.to}' does not answer")))
        return wrapped

    def _may_be_left_out(self, link: _Link) -> bool:
        """Whether a repair need not be sent: whoever wants it asks again."""
        limit = self.settings.answers_max
        return bool(limit) and len(link.unacknowledged) >= limit

    def _transmit(self, peer: str, link: _Link, now: float) -> list[LinkEffect]:
        effects: list[LinkEffect] = []
        while link.queue and len(link.unacknowledged) < self.settings.window:
            effects.append(self._first_time(peer, link, link.queue.popleft(), now))
        if link.unacknowledged and link.retry_at is None:
            link.pause = self.settings.retry_s
            link.retry_at = self._due[peer] = now + link.pause
        return effects

    def _first_time(self, peer: str, link: _Link, message: Message, now: float) -> Transmit:
        """Send a message, and once more later unless it is acknowledged."""
        number = link.next
        link.next = number + 1
        link.unacknowledged[number] = message
        if link.retry_at is None:
            link.pause = self.settings.retry_s
            link.retry_at = self._due[peer] = now + link.pause
        return Transmit(peer, Packet(number, link.heard, message, link.own, link.life))

    def _packet(self, link: _Link, number: int = 0, message: Message | None = None) -> Packet:
        return Packet(number, link.heard, message, link.own, link.life)

    def _retries(self, now: float) -> list[LinkEffect]:
        effects: list[LinkEffect] = []
        due = {peer for peer, at in self._due.items() if at <= now}
        for peer in [peer for peer in self.peers if peer in due] if due else ():
            link = self.peers[peer]
            if self._is_gone(peer, link, now):
                self.forget(peer)
                continue
            probes = (
                self.settings.probe_after
                and link.pause >= self.settings.retry_s * 2**self.settings.probe_after
            )
            for number, message in link.unacknowledged.items():
                effects.append(Transmit(peer, self._packet(link, number, message)))
                self.repeated += 1
                if probes:
                    break
            link.pause = min(2 * link.pause, self.settings.retry_s_max)
            link.retry_at = self._due[peer] = now + link.pause
        return effects

    def _is_gone(self, peer: str, link: _Link, now: float) -> bool:
        """Whether a peer has been silent for too long; one that never spoke has as long from our first word on."""
        if not self.settings.silent_s or peer in self.kept:
            return False
        link.heard_at = link.heard_at or now
        return link.heard_at + self.settings.silent_s < now

    # In.

    def _meet(self, peer: str, life: int, now: float) -> list[LinkEffect]:
        """Talk to a life of the peer that is new to us."""
        former = self._link(peer)
        waiting = (*former.unacknowledged.values(), *former.queue)
        link = self.peers[peer] = _Link(life, former.own)
        link.heard_at = former.heard_at
        self._early_bytes -= former.early_bytes
        self._due.pop(peer, None)
        if former.life:
            return self._wrap(self.engine.handle(Lost(peer, waiting), now), now) if waiting else []
        link.queue.extend(waiting)  # at the first meeting it was meant for whoever answers
        return self._transmit(peer, link, now)

    def arrived(self, source: str, packet: Packet, size: int, now: float) -> list[LinkEffect]:
        """Take one packet at time `now`, of so many bytes."""
        link = self._hear(source, now) if self._is_bounded else self._link(source)
        effects: list[LinkEffect] = []
        if packet.life < link.life:
            return []  # of a former life
        if packet.life > link.life:
            effects += self._meet(source, packet.life, now)
            link = self._link(source)
        if packet.to != link.own:  # meant for a former life, or for whoever is here: say who it is
            return [*effects, Transmit(source, self._packet(link))]
        if link.acknowledged < packet.acknowledged < link.next:
            for number in range(link.acknowledged + 1, packet.acknowledged + 1):
                link.unacknowledged.pop(number, None)
            link.acknowledged = packet.acknowledged
            link.retry_at = None
            self._due.pop(source, None)
            if link.queue or link.unacknowledged:
                effects += self._transmit(source, link, now)
        if packet.message is None:
            return effects
        if packet.number == link.heard + 1:
            link.heard += 1
            effects += self._wrap(self.engine.handle(Received(source, packet.message), now), now)
        elif packet.number > link.heard:
            self._keep_early(link, packet.number, packet.message, size)
        if link.early:
            effects += self._hand_on_early(source, link, now)
        effects.append(Transmit(source, Packet(0, link.heard, None, link.own, link.life)))
        return effects

    def _hand_on_early(self, source: str, link: _Link, now: float) -> list[LinkEffect]:
        """What came out of order, as far as it is its turn."""
        effects: list[LinkEffect] = []
        while (message := link.early.pop(link.heard + 1, None)) is not None:
            link.heard += 1
            effects += self._wrap(self.engine.handle(Received(source, message), now), now)
        if not link.early and link.early_bytes:
            self._early_bytes -= link.early_bytes
            link.early_bytes = 0
        return effects

    def _keep_early(self, link: _Link, number: int, message: Message, size: int) -> None:
        if number in link.early or len(link.early) >= self.settings.window:
            return
        if self._early_bytes + size <= self.settings.early_bytes_max:
            link.early[number] = message
            link.early_bytes += size
            self._early_bytes += size

    def check(self) -> None:
        """The engine's own invariants, and bounded buffers."""
        self.engine.check()
        for link in self.peers.values():
            assert len(link.unacknowledged) <= self.settings.window
            assert len(link.early) <= self.settings.window
        assert self._due == {p: link.retry_at for p, link in self.peers.items() if link.retry_at is not None}
        assert self._early_bytes == sum(link.early_bytes for link in self.peers.values())

    def copy(self) -> Links:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.engine = self.engine.copy()
        twin.peers = {peer: link.copy() for peer, link in self.peers.items()}
        twin._families = {name: dict(family) for name, family in self._families.items()}
        twin._due = dict(self._due)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (
            self.life,
            self.engine.state(),
            tuple(sorted((p, link.state()) for p, link in self.peers.items())),
        )


def _family(peer: str) -> str:
    return peer.partition(".")[0]
