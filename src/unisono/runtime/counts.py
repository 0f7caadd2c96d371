"""How many events a publisher has published on each topic, without remembering every topic for ever."""

from __future__ import annotations

from collections.abc import Callable

TOPICS_TIDY = 4096  # from so many topics on, those that nobody needs are forgotten now and then


class Counts(dict[str, int]):
    """Counts by topic. One that was forgotten goes on above every count that was: none comes twice."""

    def __init__(self) -> None:
        super().__init__()
        self.floor = 0  # no topic that was forgotten had more
        self._tidy_at = TOPICS_TIDY

    @property
    def is_full(self) -> bool:
        """Whether it is time to forget."""
        return len(self) >= self._tidy_at

    def forget(self, is_unneeded: Callable[[str], bool]) -> None:
        """Forget the topics that nobody needs."""
        gone = [topic for topic in self if is_unneeded(topic)]
        self.floor = max([self.floor, *(self.pop(topic) for topic in gone)])
        self._tidy_at = max(TOPICS_TIDY, 2 * len(self))
