"""One tree among dispatchers that come and go: a root, its beats, and for each of the others a parent.

    root     the lowest name that anybody lives by; its beats are counted, and each passes them on with its own way
    parent   whoever has the lower root, else newer beats of it, else is nearer to it, has room, and whose way to the
             root does not lead through here
    link     between child and parent, while they hear each other and the parent counts the child among its children

Counts only grow, and who has lost its parent takes none that has heard no more of the root than itself: so what hung on
the lost one does not take each other for the way to the root. A root that is silent is left by all who hung on it, and
beats of it that are hardly newer are not believed again. Not promised: the shortest tree; and while it heals, one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec

from unisono.engines.epidemic.settings import TreeSettings
from unisono.engines.inputs import Tick

if TYPE_CHECKING:
    from random import Random

Count: TypeAlias = tuple[int, int]  # incarnation of the root, and which of its beats


class Beat(msgspec.Struct, frozen=True, array_like=True, tag="b"):
    """I live, this is my way to the root, and these are my children."""

    root: str
    count: Count
    path: tuple[str, ...]  # from here to the root, both included
    children: tuple[str, ...]
    has_room: bool


class BeatHeard(msgspec.Struct, frozen=True):
    """A beat has come."""

    source: str
    beat: Beat


class Meet(msgspec.Struct, frozen=True):
    """These dispatchers may be there."""

    candidates: tuple[str, ...]


class SendBeat(msgspec.Struct, frozen=True):
    """Send a beat, once."""

    to: str
    beat: Beat


class Attach(msgspec.Struct, frozen=True):
    """From now on this is a neighbour on the tree."""

    neighbour: str


class Detach(msgspec.Struct, frozen=True):
    """No longer."""

    neighbour: str


TreeInput: TypeAlias = BeatHeard | Meet | Tick
TreeEffect: TypeAlias = SendBeat | Attach | Detach


class TreeKeeper:
    """One dispatcher's part in keeping the tree."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        random: Random,
        candidates: Iterable[str] = (),
        settings: TreeSettings | None = None,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.random = random
        self.settings = settings or TreeSettings()
        # Dispatchers to beat to, and when each was last heard, or met.
        few = [c for c in dict.fromkeys(candidates) if c != name][: self.settings.candidates_max]
        self.candidates: dict[str, float] = dict.fromkeys(few, 0.0)
        self.heard: dict[str, tuple[Beat, float]] = {}
        self.parent: str | None = None
        self.chosen_at = 0.0
        self.beats = 0
        self.root = name
        self.count: Count = (incarnation, 0)
        self.path: tuple[str, ...] = (name,)
        self.advanced_at = 0.0  # when the root's count last grew
        self.gone: dict[str, Count] = {}  # roots that fell silent, and their last count
        self.children: dict[str, None] = {}
        self.neighbours: set[str] = set()
        self.beat_at: float | None = None
        s = self.settings
        self._late_beats = int(0.6 * s.root_silent_s / s.beat_s)  # one that lives makes more in the meantime

    @property
    def is_root(self) -> bool:
        """Whether the tree hangs on us."""
        return self.root == self.name

    def handle(self, input: TreeInput, now: float) -> list[TreeEffect]:
        """Take one input at time `now`."""
        if self.beat_at is None:
            self.beat_at = now
            self.advanced_at = now
            self.candidates = dict.fromkeys(self.candidates, now)
        match input:
            case Meet(candidates):
                self._meet(candidates, now)
                return []
            case BeatHeard(source, beat):
                return self._hear(source, beat, now)
            case Tick():
                return self._tick(now)

    def next_timer(self) -> float | None:
        """When to hand in a Tick."""
        return self.beat_at

    def _tick(self, now: float) -> list[TreeEffect]:
        if self.beat_at is None or now < self.beat_at:
            return []
        jitter = 1 + 0.2 * (2 * self.random.random() - 1)
        self.beat_at = now + self.settings.beat_s * jitter
        for name in [name for name, (_, at) in self.heard.items() if at < now - self.settings.silent_s]:
            del self.heard[name]
            self.children.pop(name, None)
        if not self.is_root and self.advanced_at < now - self.settings.root_silent_s:
            self._stand_alone(now)
        if self.is_root:
            self.beats += 1
            self.count, self.advanced_at = (self.incarnation, self.beats), now
        self._choose(now)
        beat = self._beat()
        return self._relink() + [SendBeat(to, beat) for to in self.candidates]

    def _stand_alone(self, now: float) -> None:
        """The root is silent: be one's own, until a lower one is heard of."""
        self.gone.pop(self.root, None)
        self.gone[self.root] = self.count
        while len(self.gone) > self.settings.roots_max:
            del self.gone[next(iter(self.gone))]
        self.beats += 1
        self.root, self.count, self.path = self.name, (self.incarnation, self.beats), (self.name,)
        self.parent, self.advanced_at = None, now

    def _hear(self, source: str, beat: Beat, now: float) -> list[TreeEffect]:
        if not beat.path or beat.path[0] != source or beat.path[-1] != beat.root or source == self.name:
            return []
        if len(beat.path) > self.settings.path_max or len(beat.children) > self.settings.degree_max:
            return []
        is_child = len(beat.path) > 1 and beat.path[1] == self.name
        is_stranger = beat.root != self.root
        if not self._know(source, now, is_needed=is_child or is_stranger):
            return []
        self.candidates[source] = now
        self.heard[source] = (beat, now)
        if is_stranger and not beat.has_room:
            self._meet(beat.children, now)  # one of them may have room
        was_child = source in self.children
        if not is_child:
            self.children.pop(source, None)
        elif len(self.children) < self._room() and source != self.parent:
            self.children[source] = None
        before = (self.parent, self.root)
        self._choose(now)
        effects = self._relink()
        is_answered = is_child and not (was_child and source in self.children)  # admitted or refused, at once
        if (self.parent, self.root) != before or is_answered:
            told = self._beat()
            effects += [SendBeat(to, told) for to in dict.fromkeys(x for x in (self.parent, source) if x)]
        return effects

    def _meet(self, names: Iterable[str], now: float) -> None:
        for name in names:
            self._know(name, now, is_needed=False)

    def _know(self, name: str, now: float, *, is_needed: bool) -> bool:
        """Beat to somebody from now on; where there is no room, in place of one that is gone, or of any if need be.

        Needed are those who hang on us, and those of another tree: whoever they ask may know enough others already.
        """
        if name in self.candidates:
            return True
        if name == self.name:
            return False
        if len(self.candidates) >= self.settings.candidates_max:
            others = [
                other for other in self.candidates if other not in self.children and other != self.parent
            ]
            gone = [o for o in others if self.candidates[o] < now - self.settings.root_silent_s]
            if not gone and not (is_needed and others):
                return False
            victim = gone[0] if gone else self.random.choice(others)
            del self.candidates[victim]
            self.heard.pop(victim, None)
        self.candidates[name] = now
        return True

    def _room(self) -> int:
        return self.settings.degree_max - (0 if self.is_root else 1)

    def _choose(self, now: float) -> None:
        """Follow the parent, or take a better one."""
        if self.parent is not None and not self._follow(now):
            self.parent = None
        best = self.parent
        for name, (beat, _) in self.heard.items():
            if self._is_better(name, beat) and (best is None or self._rank(name) < self._rank(best)):
                best = name
        if best is not None and best != self.parent:
            self.parent, self.chosen_at = best, now
            self.children.pop(best, None)
            self._adopt(self.heard[best][0], now)
            while len(self.children) > self._room():
                self.children.popitem()

    def _follow(self, now: float) -> bool:
        """Take over what the parent says; False if it is gone, full, or hangs on us."""
        assert self.parent is not None
        known = self.heard.get(self.parent)
        if known is None or self.name in known[0].path or self._is_gone(known[0]):
            return False
        beat, at = known
        is_refused = not beat.has_room or at > self.chosen_at + 3 * self.settings.beat_s
        if is_refused and at > self.chosen_at and self.name not in beat.children:
            return False
        if (beat.root, _newer(beat.count)) <= (self.root, _newer(self.count)):
            self._adopt(beat, now)
            return True
        return beat.root == self.root

    def _adopt(self, beat: Beat, now: float) -> None:
        if (beat.root, beat.count) != (self.root, self.count):
            self.advanced_at = now
        self.root, self.count, self.path = beat.root, beat.count, (self.name, *beat.path)

    def _is_gone(self, beat: Beat) -> bool:
        """Whether a beat is of a root that fell silent: some have heard a few of its last beats that others have not."""
        last = self.gone.get(beat.root)
        if last is None or beat.count[0] > last[0]:
            return False
        return beat.count <= (last[0], last[1] + self._late_beats)

    def _is_better(self, name: str, beat: Beat) -> bool:
        """Whether somebody may be the parent: nothing that could lead back here, nothing that is older news."""
        if name == self.parent:
            return False
        if self.name in beat.path or self._is_gone(beat) or len(beat.path) >= self.settings.path_max:
            return False
        if not beat.has_room and self.name not in beat.children:
            return False
        if beat.root != self.root:
            return beat.root < self.root
        if self.parent is None:
            return not self.is_root and beat.count > self.count
        return False  # a parent that serves is kept

    def _rank(self, name: str) -> tuple[object, ...]:
        beat = self.heard[name][0]
        return (beat.root, len(beat.path), _newer(beat.count), name)

    def _beat(self) -> Beat:
        children = tuple(self.children)
        return Beat(self.root, self.count, self.path, children, len(children) < self._room())

    def _relink(self) -> list[TreeEffect]:
        """Attach and detach what has become a neighbour, or is one no more."""
        wanted = set(self.children) | ({self.parent} if self.parent else set())
        effects: list[TreeEffect] = [Detach(name) for name in sorted(self.neighbours - wanted)]
        effects += [Attach(name) for name in sorted(wanted - self.neighbours)]
        self.neighbours = wanted
        return effects

    def check(self) -> None:
        """Assert the invariants."""
        assert self.path[0] == self.name
        assert self.path[-1] == self.root
        assert len(set(self.path)) == len(self.path)
        assert len(self.neighbours) <= self.settings.degree_max
        assert len(self.candidates) <= self.settings.candidates_max
        assert self.parent not in self.children

    def copy(self) -> Self:
        """An independent twin."""
        return deepcopy(self)

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (
            self.name,
            self.incarnation,
            tuple(self.candidates.items()),
            tuple(self.heard.items()),
            (self.parent, self.root, self.count, self.path, self.beats),
            (self.chosen_at, self.advanced_at, self.beat_at),
            tuple(self.gone.items()),
            tuple(self.children),
            self.random.getstate(),
        )


def _newer(count: Count) -> tuple[int, int]:
    """So that the newer one comes first."""
    return (-count[0], -count[1])
