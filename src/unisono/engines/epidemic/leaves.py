"""Leaves of the tree: dispatchers that hang on one other, carry nothing for anybody, and come and go as they like.

    leaf   says where it is to one dispatcher after the other, until one takes it; when that falls silent, to the next
    host   takes whoever says so, up to a bound, and forgets whoever falls silent

A leaf that has moved on may still be taken for a neighbour by its former host, for a while: what that one sends is past
the tree for the leaf, and goes no further.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from unisono.engines.epidemic.tree import Attach, Detach
from unisono.engines.inputs import Tick

PEERS_MAX = 16  # dispatchers that are told of at once


class LeafSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How leaves and their hosts keep in touch."""

    beat_s: float = 0.2
    silent_s: float = 1.5  # who says nothing for so long is gone
    leaves_max: int = 1024
    candidates_max: int = 64  # dispatchers that a leaf knows of


class Here(msgspec.Struct, frozen=True, array_like=True, tag="h"):
    """I am a leaf; take me, or keep me."""


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """You hang on me; these other dispatchers are there."""

    peers: tuple[str, ...] = ()


class Full(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """I have no room; these other dispatchers are there."""

    peers: tuple[str, ...] = ()


LeafMessage: TypeAlias = Here | Taken | Full


class SendLeaf(msgspec.Struct, frozen=True):
    """Send this, once."""

    to: str
    message: LeafMessage


LeafEffect: TypeAlias = SendLeaf | Attach | Detach


class LeafKeeper:
    """The leaf's part: which dispatcher it hangs on."""

    def __init__(self, candidates: Iterable[str], settings: LeafSettings | None = None) -> None:
        self.settings = settings or LeafSettings()
        self.candidates = list(dict.fromkeys(candidates))[: self.settings.candidates_max]
        self.host: str | None = None
        self.heard_at = 0.0  # of the host, or of whoever is tried
        self.beat_at: float | None = None
        self._tried = 0  # which candidate
        self._refused = 0  # how many had no room, one after the other

    def next_timer(self) -> float | None:
        """When to hand in a Tick."""
        return self.beat_at

    def handle(self, input: Tick, now: float) -> list[LeafEffect]:
        """Say where we are; if nobody answers, to the next."""
        effects: list[LeafEffect] = []
        if self.beat_at is None:
            self.heard_at = now
        elif now < self.beat_at:
            return []
        if self.candidates and now - self.heard_at > self.settings.silent_s:
            effects += self._move_on(now)
        self.beat_at = now + self.settings.beat_s
        if self.candidates:
            effects.append(SendLeaf(self._current, Here()))
        return effects

    @property
    def _current(self) -> str:
        return self.host or self.candidates[self._tried % len(self.candidates)]

    def _move_on(self, now: float) -> list[LeafEffect]:
        left, self.host = self.host, None
        self._tried += 1
        self.heard_at = now
        return [] if left is None else [Detach(left)]

    def hear(self, source: str, message: Taken | Full, now: float) -> list[LeafEffect]:
        """A dispatcher has answered."""
        if not self.candidates or source != self._current:
            return []
        if isinstance(message, Full):
            return self._refuse(message, now)
        # Those of whom it tells live: they are next, should it fall silent. Who was told of long ago may be gone.
        known = dict.fromkeys([source, *message.peers[:PEERS_MAX], *self.candidates])
        self.candidates = list(known)[: self.settings.candidates_max]
        self._tried = self._refused = 0
        self.heard_at = now
        if self.host is not None:
            return []
        self.host = source
        return [Attach(source)]

    def _refuse(self, full: Full, now: float) -> list[LeafEffect]:
        """Ask the next one: at once, until all were asked; then one with every beat."""
        known = dict.fromkeys([*self.candidates, *full.peers[:PEERS_MAX]])
        self.candidates = list(known)[: self.settings.candidates_max]
        self._refused += 1
        effects = self._move_on(now)
        if self._refused < len(self.candidates):
            effects.append(SendLeaf(self._current, Here()))
        return effects

    def overhear(self, source: str, now: float) -> None:
        """Whatever the host says shows that it is there."""
        if source == self.host:
            self.heard_at = now

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self.candidates) <= self.settings.candidates_max
        assert self.host is None or self.host in self.candidates


class LeafHost:
    """The dispatcher's part: which leaves hang on it."""

    def __init__(self, settings: LeafSettings | None = None) -> None:
        self.settings = settings or LeafSettings()
        self.leaves: dict[str, float] = {}  # and when each was heard, the one heard last comes last

    def next_timer(self) -> float | None:
        """When to hand in a Tick: when the first of them has been silent for too long."""
        oldest = next(iter(self.leaves.values()), None)
        return None if oldest is None else oldest + self.settings.silent_s

    def handle(self, input: Tick, now: float) -> list[LeafEffect]:
        """Forget who is silent."""
        effects: list[LeafEffect] = []
        for leaf, at in list(self.leaves.items()):
            if at + self.settings.silent_s > now:
                break
            del self.leaves[leaf]
            effects.append(Detach(leaf))
        return effects

    def hear(self, source: str, peers: Iterable[str], now: float) -> list[LeafEffect]:
        """A leaf says where it is."""
        told = tuple(peers)[:PEERS_MAX]
        is_new = source not in self.leaves
        if is_new and len(self.leaves) >= self.settings.leaves_max:
            return [SendLeaf(source, Full(told))]
        self.leaves.pop(source, None)
        self.leaves[source] = now
        answer = SendLeaf(source, Taken(told))
        return [Attach(source), answer] if is_new else [answer]

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self.leaves) <= self.settings.leaves_max
