"""Breadth-first search of everything that can happen, each state visited once."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from unisono.model.errors import UnisonoError

STATES_MAX = 1_000_000

Step: TypeAlias = tuple[str, ...]
"""One thing that can happen, as words: what, and to whom."""


class TooManyStatesError(UnisonoError):
    """The world is too large to be explored; fewer events or fewer faults make it smaller."""


class Explorable(Protocol):
    """A state of some world. It is never changed: a step makes a new one."""

    def key(self) -> Hashable:
        """Equal exactly when two states have the same futures and will be judged alike."""
        ...

    def steps(self) -> Sequence[Step]:
        """Everything that can happen next; nothing when the world has come to rest."""
        ...

    def after(self, step: Step) -> Self:
        """The state after a step."""
        ...


W = TypeVar("W", bound=Explorable)


class Search(Generic[W]):
    """All states reachable from `start`; `ends` yields those where nothing more can happen."""

    def __init__(self, start: W, states_max: int = STATES_MAX, *, cut: bool = False) -> None:
        """`cut`: a world that is too large is left unfinished, instead of refused."""
        self.start = start
        self.states_max = states_max
        self.cut = cut
        self.whole = True
        self.states = 0
        self._came: dict[Hashable, tuple[Hashable, Step] | None] = {}

    def ends(self) -> Iterator[W]:
        """Every state at rest, nearest first, while the search goes on."""
        came = self._came
        key = self.start.key()
        came[key] = None
        queue = deque([(key, self.start)])
        while queue:
            key, state = queue.popleft()
            self.states += 1
            if self.states > self.states_max and self.cut:
                self.states, self.whole = self.states_max, False
                return
            if self.states > self.states_max:
                raise TooManyStatesError(f"more than {self.states_max} states")
            steps = state.steps()
            if not steps:
                yield state
                continue
            for step in steps:
                next_state = state.after(step)
                next_key = next_state.key()
                if next_key not in came:
                    came[next_key] = (key, step)
                    queue.append((next_key, next_state))

    def trace(self, state: W) -> tuple[Step, ...]:
        """The fewest steps that lead to a state that was found."""
        steps: list[Step] = []
        came = self._came[state.key()]
        while came is not None:
            key, step = came
            steps.append(step)
            came = self._came[key]
        return tuple(reversed(steps))
