"""What is missing: the numbers of a source and a pattern have no holes, so a hole is an event that was lost.

A stream is (source, incarnation, pattern), kept for patterns that somebody here subscribes to. The first number heard
of a stream is where it begins for us: nothing before it can be claimed. What is missing is asked for until it comes
or its time is up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from unisono.engines.epidemic.inputs import Lose
from unisono.engines.epidemic.messages import Event, Mark
from unisono.engines.epidemic.patterns import Key

Stream: TypeAlias = tuple[str, int, Key]


class Streams:
    """How far each stream has come, and the numbers of it that are missing."""

    def __init__(self, streams_max: int, lost_max: int, lost_s_max: float) -> None:
        self.streams_max = streams_max
        self.lost_max = lost_max
        self.lost_s_max = lost_s_max
        self._highest: dict[Stream, tuple[int, float]] = {}  # and when its event was published, by our clock
        self._lost: dict[Stream, dict[int, float]] = {}  # number -> until when it is asked for
        self._oldest: dict[
            tuple[Stream, int], float
        ] = {}  # the same, all in the order they were found missing
        self.tries: dict[Stream, int] = {}  # how often it was asked for in vain

    def __len__(self) -> int:
        return len(self._highest)

    @property
    def lost(self) -> int:
        """How many numbers are missing."""
        return len(self._oldest)

    def arrive(self, event: Event, keys: Iterable[Key], now: float) -> list[Lose]:
        """An event is here, wanted for these of its patterns."""
        published_at = now - event.age_ms / 1000
        given_up: list[Lose] = []
        for key in keys:
            number = event.numbers.get(key)
            if number is not None:
                given_up += self._reach((event.source, event.incarnation, key), number, published_at, now)
        self.found(event)
        return given_up

    def found(self, event: Event) -> None:
        """An event is missing no more, under whichever of its numbers it was."""
        if self._lost:
            for key, number in event.numbers.items():
                self._find((event.source, event.incarnation, key), number)

    def _reach(self, stream: Stream, number: int, published_at: float, now: float) -> list[Lose]:
        known = self._highest.get(stream)
        if known is None:
            self._begin(stream, number, published_at)
            return []
        if number <= known[0]:
            return []
        self._highest.pop(stream)
        self._highest[stream] = (number, published_at)
        return self._miss(stream, range(known[0] + 1, number), now)

    def tell(self, stream: Stream, number: int, published_at: float, since: float, now: float) -> list[Lose]:
        """Somebody says that a stream has come this far; `since`: when somebody here subscribed to its pattern."""
        known = self._highest.get(stream)
        if known is None:
            self._begin(stream, number, published_at)
            return self._miss(stream, [number], now) if published_at > since else []
        if number <= known[0]:
            return []
        self._highest.pop(stream)
        self._highest[stream] = (number, published_at)
        return self._miss(stream, range(known[0] + 1, number + 1), now)

    def claim(self, stream: Stream, number: int, published_at: float, now: float) -> list[Lose]:
        """This very number is known to be missing, and not from before our time."""
        known = self._highest.get(stream)
        if known is not None and number > known[0]:
            return self.tell(stream, number, published_at, now, now)
        if known is None:
            self._begin(stream, number, published_at)
        return self._miss(stream, [number], now)

    def _begin(self, stream: Stream, number: int, published_at: float) -> None:
        if len(self._highest) >= self.streams_max:
            del self._highest[next(iter(self._highest))]  # the one of which nothing was heard for longest
        self._highest[stream] = (number, published_at)

    def _miss(self, stream: Stream, numbers: Sequence[int], now: float) -> list[Lose]:
        missing = numbers[-self.lost_max :]
        if not missing:
            return []
        until = now + self.lost_s_max
        mine = self._lost.setdefault(stream, {})
        for number in missing:
            if number not in mine:
                mine[number] = self._oldest[stream, number] = until
        excess = [missed for missed, _ in zip(self._oldest, range(self.lost - self.lost_max), strict=False)]
        return self._give_up(excess)

    def _find(self, stream: Stream, number: int) -> None:
        mine = self._lost.get(stream)
        if mine and mine.pop(number, None) is not None:
            del self._oldest[stream, number]
            if not mine:
                del self._lost[stream]
                self.tries.pop(stream, None)

    def expire(self, now: float) -> list[Lose]:
        """Give up what was asked for long enough."""
        due = []
        for missed, until in self._oldest.items():
            if until > now:
                break
            due.append(missed)
        return self._give_up(due)

    def _give_up(self, missed: list[tuple[Stream, int]]) -> list[Lose]:
        by_stream: dict[Stream, list[int]] = {}
        for stream, number in missed:
            self._find(stream, number)
            by_stream.setdefault(stream, []).append(number)
        return [Lose(*stream, tuple(sorted(numbers))) for stream, numbers in by_stream.items()]

    def keep(self, keys: Collection[Key]) -> None:
        """Forget the streams of all other patterns: nobody here subscribes to them any more."""
        for stream in [stream for stream in self._highest if stream[2] not in keys]:
            del self._highest[stream]
        for stream in [stream for stream in self._lost if stream[2] not in keys]:
            for number in list(self._lost[stream]):
                self._find(stream, number)

    def missing(self) -> dict[Stream, dict[int, float]]:
        """The missing numbers of each stream."""
        return self._lost

    def marks(self, key: Key, limit: int, fresh_s: float, now: float) -> list[Mark]:
        """How far the streams of a pattern have come, those that were heard of last."""
        found: list[Mark] = []
        for (source, incarnation, of), (number, published_at) in reversed(self._highest.items()):
            if len(found) >= limit or published_at < now - fresh_s:
                break
            if of != key:
                continue
            found.append((source, incarnation, number, max(0, round((now - published_at) * 1000))))
        return found

    def picture(self) -> tuple[object, ...]:
        """Equal where the same is known and missing."""
        return (tuple(self._highest.items()), tuple(self._oldest.items()), tuple(self.tries.items()))

    def check(self) -> None:
        """Assert the bounds, and that both pictures of what is missing agree."""
        assert len(self._highest) <= self.streams_max
        assert self.lost <= self.lost_max
        assert {(s, n) for s, numbers in self._lost.items() for n in numbers} == set(self._oldest)
        assert set(self.tries) <= set(self._lost)
