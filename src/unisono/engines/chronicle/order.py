"""The order of one closed epoch: the same for everybody who reads it.

Repeatedly, of the events whose predecessors are all out, the one that was published first. What any subscriber held
together is ordered by stamps, so this agrees with every delivery; only events that nobody held together are put in an
order that no stamp gives, by their publishers' clocks. Sorting a part of the epoch would be wrong: what is left out may
lie between two events.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import isfinite
from typing import TypeAlias

from unisono.model.frames import Stamped

_Age: TypeAlias = tuple[float, str, int, int]


def _age(event: Stamped) -> _Age:
    """What tells unrelated events apart; no two of a topic are equal, and what makes no sense counts as old."""
    publication = event.publication
    at = publication.published_at
    return (at if isfinite(at) else 0.0, publication.publisher, publication.incarnation, publication.n)


def in_order(events: Iterable[Stamped]) -> list[Stamped]:
    """All events of an epoch in the order of the log; numbers that are not among them do not exist."""
    queues: dict[str, list[Stamped]] = {}
    for event in events:
        queues.setdefault(event.topic, []).append(event)
    for queue in queues.values():
        queue.sort(key=lambda event: event.number, reverse=True)
    heads = {topic: queue[-1].number for topic, queue in queues.items()}
    waiting: dict[str, list[str]] = {}  # topic -> topics whose next event waits for one of it
    ready: list[tuple[_Age, str]] = []

    def look_at(topic: str) -> None:
        event = queues[topic][-1]
        for x, number in event.entries.items():
            if x != topic and heads.get(x, number + 1) <= number:
                waiting.setdefault(x, []).append(topic)
                return
        heappush(ready, (_age(event), topic))

    for topic in queues:
        look_at(topic)
    ordered: list[Stamped] = []
    while heads:
        if (
            not ready
        ):  # stamps that contradict each other: no promise is left to keep, but nothing is withheld
            stuck = min(heads)
            for topics in waiting.values():
                topics[:] = [topic for topic in topics if topic != stuck]
            ready.append((_age(queues[stuck][-1]), stuck))
        _, topic = heappop(ready)
        queue = queues[topic]
        ordered.append(queue.pop())
        if queue:
            heads[topic] = queue[-1].number
            look_at(topic)
        else:
            del heads[topic]
        for other in waiting.pop(topic, ()):
            look_at(other)
    return ordered
