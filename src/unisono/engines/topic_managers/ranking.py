"""When to change the rank: busy topics belong on top, where the paths of their events are short.

Paper 000 section 5, corrected. Whoever decides on plans (a coordinator) tells a `Ranking` what is published and
asks it now and then for a swap:

    ranking.observe(topic, count, now)
    swap = ranking.candidate(now)              # or None: the rank is good enough
    rank = ranking.request(swap, now)          # or None: stale or too soon; build the next plan from it
    ranking.accept(swap, epoch)                # once that plan is in force

The policy touches no stamp: whatever it answers, the order promised to subscribers rests on the epochs alone.
A bad answer costs time, never order. The reading of the paper is in docs/protocols/ranking.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import msgspec

from unisono.engines.plan import Plan
from unisono.model.errors import ConfigError, PlanError


def _positive(name: str, value: float, infinite: bool = False) -> None:
    if not value > 0 or (not infinite and math.isinf(value)):
        raise ConfigError(f"{name} is greater than zero{'' if infinite else ' and finite'}, not {value}")


class Known(msgspec.Struct, frozen=True):
    """What is known of a topic when it is judged."""

    topic: str
    count: float  # publications, the older the less they count
    free: float = 1.0  # the share of its host's capacity that is idle, 0 to 1; 1 when nobody said


class Popularity(Protocol):
    """From what is known of a topic to a number: the larger, the higher the topic should rank."""

    def __call__(self, known: Known, /) -> float:
        """The same number for the same facts, always."""
        ...


class Saturating(msgspec.Struct, frozen=True):
    """000's f(x) = exp(-1 / (alpha (x + 1))): it rises to 1, the later the smaller alpha is.

    It tells counts around 1 / (2 alpha) apart best; far above, all topics are equally popular. With decayed
    counts keep alpha <= beta**2 / 4: then chance alone does not make equal topics change places.
    """

    alpha: float = 0.01  # per publication

    def __post_init__(self) -> None:
        _positive("alpha", self.alpha)

    def __call__(self, known: Known, /) -> float:
        """Between 0 and 1."""
        return math.exp(-1 / (self.alpha * (known.count + 1)))


class HostAware(msgspec.Struct, frozen=True):
    """000's f, scaled down as the topic's host fills up: high ranks are passed by the most events.

    The factor runs from 1 on an idle host to 1 - weight on a full one, so the result stays between 0 and 1 and
    beta means what it meant. If a high rank costs a host up to a share s of its capacity, keep
    weight * s <= beta: else two equal topics chase each other, each too loaded where it is.
    """

    alpha: float = 0.01  # per publication
    weight: float = (
        0.5  # 0: hosts do not matter; up to beta: they only temper; 1: a full host is worth nothing
    )

    def __post_init__(self) -> None:
        _positive("alpha", self.alpha)
        if not 0 <= self.weight <= 1:
            raise ConfigError(f"weight is a share between 0 and 1, not {self.weight}")

    def __call__(self, known: Known, /) -> float:
        """Between 0 and 1."""
        return math.exp(-1 / (self.alpha * (known.count + 1))) * (1 - self.weight * (1 - known.free))


class RankingSettings(msgspec.Struct, frozen=True):
    """How much better is better, how fast the past fades, and how often the rank may change."""

    beta: float = 0.2  # a topic rises past another if it is more popular by more than this
    half_life_s: float = 60.0  # after which a publication counts half; infinite: cumulative, as in the paper
    count_min: float = 0.01  # smaller counts are zero, and forgotten
    interval_s: float = 5.0  # between two changes at least; several times what an epoch's barrier takes

    def __post_init__(self) -> None:
        _positive("half_life_s", self.half_life_s, infinite=True)
        _positive("count_min", self.count_min)
        for name, value in (("beta", self.beta), ("interval_s", self.interval_s)):
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} is a finite number and not negative, not {value}")


class Swap(msgspec.Struct, frozen=True):
    """Two topics of one component to exchange places, in the rank of this epoch."""

    up: str  # the lower-ranked, more popular one
    down: str
    epoch: int


class Counts:
    """Publications per topic, halved with every half-life that passes.

    Topics that fell below `count_min` are zero and soon forgotten, so no more are remembered than recent
    traffic can pay for. Time never runs backwards: an earlier `now` is read as the latest one.
    """

    __slots__ = ("_counts", "_latest", "_swept", "count_min", "half_life_s")

    def __init__(self, half_life_s: float, count_min: float) -> None:
        self.half_life_s = half_life_s
        self.count_min = count_min
        self._counts: dict[str, tuple[float, float]] = {}  # the count, and when it was that much
        self._latest = -math.inf
        self._swept = -math.inf

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, topic: str, count: float, now: float) -> None:
        """Count publications of a topic."""
        if not (math.isfinite(count) and count >= 0):
            raise ConfigError(f"a count of publications is finite and not negative, not {count}")
        self._latest = max(self._latest, now)
        self._counts[topic] = (self.get(topic, now) + count, self._latest)
        # Once per half-life: a topic that is no longer heard of would otherwise stay for ever.
        if self._latest - self._swept >= self.half_life_s:
            self._swept = self._latest
            self._counts = {name: entry for name, entry in self._counts.items() if self.get(name, now)}

    def get(self, topic: str, now: float) -> float:
        """What the topic's publications still count."""
        count, at = self._counts.get(topic, (0.0, 0.0))
        if not count:
            return 0.0
        count *= 0.5 ** ((max(now, self._latest) - at) / self.half_life_s)
        return count if count >= self.count_min else 0.0

    def copy(self) -> Counts:
        """An independent twin."""
        twin = Counts(self.half_life_s, self.count_min)
        twin._counts, twin._latest, twin._swept = self._counts.copy(), self._latest, self._swept
        return twin

    def state(self) -> Hashable:
        """Equal for twins that count alike; what is forgotten and what is about to be look the same."""
        alive = [(topic, *entry) for topic, entry in self._counts.items() if self.get(topic, self._latest)]
        return (self._latest, tuple(sorted(alive)))


class Ranking:
    """The rank in force, how popular its topics are, and which change is worth an epoch."""

    def __init__(
        self,
        plan: Plan | Sequence[str],
        settings: RankingSettings = RankingSettings(),
        popularity: Popularity = Saturating(),
    ) -> None:
        """Start from a plan, or from a mere rank: then at epoch 0, with all topics in one component."""
        self.settings = settings
        self.popularity = popularity
        self.swaps = 0  # accepted
        self.stale = 0  # dropped: meant for the rank of another epoch
        self.early = 0  # dropped: less than the interval after the last change
        self.epoch = 0
        self.rank: tuple[str, ...] = ()
        self._counts = Counts(settings.half_life_s, settings.count_min)
        self._free: dict[str, float] = {}
        self._rates: dict[str, float] = {}  # what the forest in force was built from
        self._ready = -math.inf  # when the next change may be asked for
        if isinstance(plan, Plan):
            self._set(plan.rank, plan.components(), plan.epoch)
        else:
            self._set(tuple(plan), (tuple(plan),), 0)

    def observe(self, topic: str, count: float, now: float) -> None:
        """Count publications; also of a topic not ranked yet, which then arrives with its due."""
        self._counts.add(topic, count, now)

    def observe_host(self, topic: str, free: float) -> None:
        """Note how much of the capacity of the topic's host is idle; the last word counts."""
        if not 0 <= free <= 1:
            raise ConfigError(f"free capacity is a share between 0 and 1, not {free}")
        if topic in self._place:
            self._free[topic] = free

    def score(self, topic: str, now: float) -> float:
        """How popular the topic is."""
        return self.popularity(Known(topic, self._counts.get(topic, now), self._free.get(topic, 1.0)))

    def candidate(self, now: float, topic: str | None = None) -> Swap | None:
        """The swap to ask for: the top-most topic that another below it exceeds by more than beta goes down.

        In its place comes the most popular topic below it in its component, of equals the highest. With `topic`
        only that topic may rise, as when each manager asks for itself.
        """
        if now < self._ready:
            return None
        if topic is not None:
            return self._rise(topic, now)
        found = [swap for line in self._lines if (swap := self._top_most(line, now)) is not None]
        return min(found, key=lambda swap: self._place[swap.down], default=None)

    def request(self, swap: Swap, now: float) -> tuple[str, ...] | None:
        """The rank to build the next plan from; None when the request is stale or too soon.

        A granted request whose epoch never comes is forgotten: after the interval it may be made again.
        """
        if swap.epoch != self.epoch:
            self.stale += 1
            return None
        rank = self._swapped(swap)
        if now < self._ready:
            self.early += 1
            return None
        self._ready = now + self.settings.interval_s
        return rank

    def accept(self, swap: Swap, epoch: int) -> tuple[str, ...] | None:
        """The swap is in force as of this epoch: the new rank; None when another change was faster."""
        if swap.epoch != self.epoch or epoch <= self.epoch:
            self.stale += 1
            return None
        rank = self._swapped(swap)
        place = {name: i for i, name in enumerate(rank)}
        lines = [tuple(sorted(line, key=place.__getitem__)) for line in self._lines]
        self._set(rank, lines, epoch)
        self.swaps += 1
        return rank

    def replan(self, now: float) -> tuple[str, ...] | None:
        """All swaps in one epoch: each component that has a candidate, ranked by popularity; None if none has.

        Equally popular topics keep their order.
        """
        if now < self._ready:
            return None
        rank, changed = list(self.rank), False
        for line in self._lines:
            if self._top_most(line, now) is None:
                continue
            changed = True
            by_popularity = sorted(line, key=lambda name: -self.score(name, now))
            for old, new in zip(line, by_popularity, strict=True):
                rank[self._place[old]] = new
        return tuple(rank) if changed else None

    def rates(self, now: float) -> dict[str, float] | None:
        """The rates to build the next forest from; None until one moved by more than beta since the last.

        A forest is not ranked by popularity alone, so what counts is what changed since it was built.
        """
        if now < self._ready:
            return None
        rates = {topic: self.score(topic, now) for topic in self.rank}
        moved = (abs(rate - self._rate(topic)) > self.settings.beta for topic, rate in rates.items())
        return rates if any(moved) else None

    def adopt(self, plan: Plan, now: float, rates: Mapping[str, float] | None = None) -> None:
        """A plan is in force that is more than a swap, built from these rates if from any.

        Counts stay; the interval starts again, whatever the plan was made for.
        """
        if plan.epoch <= self.epoch:
            self.stale += 1
            return
        self._set(plan.rank, plan.components(), plan.epoch)
        self._free = {topic: free for topic, free in self._free.items() if topic in self._place}
        if rates is not None:
            self._rates = dict(rates)
        self._rates = {topic: rate for topic, rate in self._rates.items() if topic in self._place}
        self._ready = now + self.settings.interval_s

    def copy(self) -> Ranking:
        """An independent twin."""
        twin = Ranking((), self.settings, self.popularity)
        twin._set(self.rank, self._lines, self.epoch)
        twin.swaps, twin.stale, twin.early = self.swaps, self.stale, self.early
        twin._counts, twin._ready = self._counts.copy(), self._ready
        twin._free, twin._rates = self._free.copy(), self._rates.copy()
        return twin

    def state(self) -> Hashable:
        """Equal for twins that would answer alike from now on; statistics are left out."""
        return (
            self.epoch,
            self.rank,
            self._lines,
            self._ready,
            self._counts.state(),
            tuple(sorted(self._free.items())),
            tuple(sorted(self._rates.items())),
        )

    def _set(self, rank: tuple[str, ...], lines: Sequence[tuple[str, ...]], epoch: int) -> None:
        place = {topic: i for i, topic in enumerate(rank)}
        if len(place) != len(rank):
            raise PlanError("a rank names every topic once, but this one repeats some")
        self.rank, self.epoch, self._place = rank, epoch, place
        self._lines = tuple(lines)  # the topics of each component, in rank order
        self._line = {topic: line for line in self._lines for topic in line}

    def _top_most(self, line: tuple[str, ...], now: float) -> Swap | None:
        found: Swap | None = None
        best, best_score = "", -math.inf  # of the topics below
        for topic in reversed(line):
            score = self.score(topic, now)
            if best_score > score + self.settings.beta:
                found = Swap(best, topic, self.epoch)
            if score >= best_score:
                best, best_score = topic, score
        return found

    def _rise(self, topic: str, now: float) -> Swap | None:
        score = self.score(topic, now)
        for higher in self._line.get(topic, ()):
            if higher == topic:
                break
            if score > self.score(higher, now) + self.settings.beta:
                return Swap(topic, higher, self.epoch)
        return None

    def _swapped(self, swap: Swap) -> tuple[str, ...]:
        line = self._line.get(swap.up, ())
        if swap.down not in line:  # between components nothing is ordered: an epoch for nothing
            raise PlanError(f"'{swap.up}' and '{swap.down}' are not of one component")
        up, down = self._place[swap.up], self._place[swap.down]
        if up <= down:
            raise PlanError(f"'{swap.up}' does not rank below '{swap.down}'")
        rank = list(self.rank)
        rank[up], rank[down] = swap.down, swap.up
        return tuple(rank)

    def _rate(self, topic: str) -> float:
        """What the forest in force took the topic for; one built without rates took it for silent."""
        rate = self._rates.get(topic)
        return self.popularity(Known(topic, 0.0)) if rate is None else rate
