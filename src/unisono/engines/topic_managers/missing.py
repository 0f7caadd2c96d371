"""The receiving end of repair: which numbers must exist and have not come, and when to ask for them.

That a number exists is known from a later one of the same topic, from any stamp that names it (also one of
another topic), or from a heartbeat. A gap may close by itself for a short while; then it is asked for, again
and again with growing pauses, until it is filled or declared gone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.frames import Entries


class Missing:
    """What is known to exist, per topic, and the next time to ask about each topic with a gap."""

    def __init__(self, settings: SubscriberSettings) -> None:
        self.settings = settings
        self.known: dict[str, int] = {}
        self.asks: dict[str, tuple[float, float]] = {}  # topic -> when, and the pause after that

    def learn(self, topic: str, number: int, reached: int, now: float) -> None:
        """`number` of `topic` exists; everything up to `reached` has been dealt with."""
        if number > self.known.get(topic, 0):
            self.known[topic] = number
        if self.known.get(topic, 0) > reached and topic not in self.asks:
            self.asks[topic] = (now + self.settings.nack_delay_s, self.settings.nack_retry_s)

    def learn_stamp(self, entries: Entries, reached: Callable[[str], int | None], now: float) -> None:
        """Every number the stamp names exists."""
        for topic, number in entries.items():
            upto = reached(topic)
            if upto is not None and number > upto:
                self.learn(topic, number, upto, now)

    def ask(self, topic: str, now: float) -> None:
        """Ask about a topic soon, whether or not a number of it is missing."""
        if topic not in self.asks:
            self.asks[topic] = (now + self.settings.nack_delay_s, self.settings.nack_retry_s)

    def hurry(self, topic: str, now: float) -> None:
        """Something came of asking: ask for the rest, if there is one, without the pauses of those who ask in vain."""
        if topic in self.asks:
            self.asks[topic] = (now + self.settings.nack_delay_s, self.settings.nack_retry_s)

    def due(self, now: float) -> list[str]:
        """The topics to ask about now; each is asked about again after a longer pause."""
        topics = sorted(topic for topic, (when, _) in self.asks.items() if when <= now)
        for topic in topics:
            pause = self.asks[topic][1]
            self.asks[topic] = (now + pause, min(2 * pause, self.settings.nack_retry_s_max))
        return topics

    def closed(self, topic: str) -> None:
        """Nothing of the topic is missing any more."""
        self.asks.pop(topic, None)

    def next_timer(self) -> float | None:
        """When to ask next."""
        return min([when for when, _ in self.asks.values()]) if self.asks else None

    def copy(self) -> Missing:
        """An independent twin."""
        twin = Missing(self.settings)
        twin.known, twin.asks = dict(self.known), dict(self.asks)
        return twin

    def state(self) -> Hashable:
        """Equal for twins that ask alike."""
        return (tuple(sorted(self.known.items())), tuple(sorted(self.asks.items())))
