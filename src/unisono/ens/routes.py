"""Which listeners a frame is for, and through which subscription at the broker each of them hears it.

Listeners that ask for the same topic or pattern share one subscription at the broker, called a source. A topic may
reach a listener through several sources (`orders.eu` and `orders.*`); it is notified through the oldest of them
only. So that no frame is missed or doubled while a listener changes its mind, the oldest stays the one it hears a
topic through until the topic is left, even if the source's own name is left before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from unisono.ens.names import overlap
from unisono.ens.port import Notify
from unisono.model.ids import is_pattern, matches

log = logging.getLogger("unisono")


@dataclass(eq=False, slots=True)
class Listener:
    """One subscriber of a broker's service."""

    topics: frozenset[str]
    notify: Notify
    with_topic: bool = False  # whether it is notified of the topic as well
    live: bool = True
    sources: dict[str, None] = field(default_factory=dict)  # oldest first
    is_plain: bool = True  # every topic has one source: no patterns, or nothing but one

    def hears(self, topic: str, source: str) -> bool:
        """Whether a frame of this topic is to be notified when it comes from this source."""
        first = next((s for s in self.sources if matches(s, topic)), None)
        return first == source and any(matches(name, topic) for name in self.topics)


class Routes:
    """Listeners by source."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[Listener, None]] = {}

    @property
    def sources(self) -> list[str]:
        """Every topic and pattern to be subscribed to at the broker."""
        return list(self._listeners)

    def join(self, listener: Listener, topics: frozenset[str]) -> list[str]:
        """Let a listener hear these topics as well; returns the sources that are new to the broker."""
        fresh = []
        for name in sorted(topics - listener.sources.keys()):
            if name not in self._listeners:
                fresh.append(name)
                self._listeners[name] = {}
            self._listeners[name][listener] = None
            listener.sources[name] = None
        listener.is_plain = not any(is_pattern(source) for source in listener.sources)
        return fresh

    def leave(self, listener: Listener, topics: frozenset[str]) -> list[str]:
        """Let a listener hear nothing but these topics; returns the sources that nobody needs any more."""
        listener.topics = topics
        stale = []
        for source in list(listener.sources):
            if source in topics or any(overlap(source, name) for name in topics):
                continue
            del listener.sources[source]
            del self._listeners[source][listener]
            if not self._listeners[source]:
                del self._listeners[source]
                stale.append(source)
        listener.is_plain = listener.sources.keys() == topics and (
            len(topics) == 1 or not any(is_pattern(source) for source in topics)
        )
        return stale

    def deliver(self, source: str, topic: str, frame: bytes) -> None:
        """Notify everybody who hears this topic through this source."""
        listeners = self._listeners.get(source)
        if not listeners:
            return
        for listener in tuple(listeners):
            if listener.live and (listener.is_plain or listener.hears(topic, source)):
                try:
                    if listener.with_topic:
                        listener.notify(topic, frame)
                    else:
                        listener.notify(frame)
                except Exception:
                    log.exception("a subscriber of %s raised while it was notified", sorted(listener.topics))
