"""Who holds a topic together with which others, as the topic's manager knows it.

Registrations are sticky: within an epoch what a subscriber once held stays registered, also after it left, and
its later versions only add to it. Leaving costs no message; the next epoch starts from what is held then.
"""

from __future__ import annotations

from collections.abc import Collection

from unisono.model.frames import Registration


class Registry:
    """The registrations that hold one topic, and the weight of each other topic among them."""

    __slots__ = ("_held", "_shared", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._held: dict[str, Registration] = {}
        self._shared: dict[str, int] = {}

    def add(self, registration: Registration) -> None:
        """Take in a registration, unless a newer version of it is known.

        An epoch may have begun with the same version and fewer topics: what patterns stand for has no version.
        """
        known = self._held.get(registration.subscriber)
        if known is not None and known.version > registration.version:
            return
        before = set(known.topics) if known is not None else {self.topic}
        topics = before.union(registration.topics)
        for other in topics - before:
            self._shared[other] = self._shared.get(other, 0) + registration.weight
        self._held[registration.subscriber] = Registration(
            registration.subscriber, registration.version, tuple(sorted(topics)), registration.weight
        )

    def conflicts(self, threshold: int) -> frozenset[str]:
        """The topics that share enough weight with this one."""
        return frozenset(topic for topic, weight in self._shared.items() if weight >= threshold)

    @property
    def subscribers(self) -> Collection[str]:
        """Who holds the topic, or has held it in this epoch."""
        return self._held.keys()

    def __len__(self) -> int:
        return len(self._held)

    def copy(self) -> Registry:
        """An independent twin."""
        twin = Registry(self.topic)
        twin._held, twin._shared = dict(self._held), dict(self._shared)
        return twin

    def state(self) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
        """Equal for registries that answer alike."""
        return tuple(sorted((r.subscriber, r.version, r.topics) for r in self._held.values()))
