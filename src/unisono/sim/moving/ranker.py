"""Whoever watches popularity: counts what is published, and asks the leader for a better rank."""

from __future__ import annotations

from unisono.engines.plan import Plan
from unisono.engines.topic_managers.ranking import Ranking, RankingSettings, Saturating

# A world lasts seconds, not days: a few events make a topic popular, and soon count for less.
_SETTINGS = RankingSettings(beta=0.15, half_life_s=1.0, interval_s=0.4)
_POPULARITY = Saturating(alpha=0.3)


class Ranker:
    """A ranking, and the rank it last asked for."""

    def __init__(self, plan: Plan) -> None:
        self.ranking = Ranking(plan, _SETTINGS, _POPULARITY)
        self.asked: tuple[str, ...] | None = None
        self.swaps = 0

    def observe(self, topic: str, now: float) -> None:
        """Something was published."""
        self.ranking.observe(topic, 1, now)

    def wish(self, now: float) -> tuple[str, ...] | None:
        """A rank that is worth an epoch, if there is one."""
        swap = self.ranking.candidate(now)
        if swap is not None:
            self.asked = self.ranking.request(swap, now)
            return self.asked
        return None

    def adopt(self, plan: Plan, now: float) -> None:
        """A plan is in force, whoever asked for it."""
        if plan.epoch > self.ranking.epoch:
            self.swaps += plan.rank == self.asked
            self.asked = None
            self.ranking.adopt(plan, now)
