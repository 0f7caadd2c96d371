"""The four decisions of the protocol, and what they rest on, as functions of what is known.

`known` has for each stream the last stamp that was delivered or passed over; `mine` are the destinations one
receives. The paper's names stand in the docstrings; what it wrote instead is in `literal.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.stamps import Past


def is_deliverable(event: Event, known: Past, mine: Collection[str], oldest: int = 0) -> bool:
    """Del_ok: all of its past that comes here is behind us; what is older than `oldest` comes no more.

    The sender's own stream counts like any other: its former event is a cause, too.
    """
    return not any(missing(event, known, mine, oldest))


def missing(event: Event, known: Past, mine: Collection[str], oldest: int = 0) -> Iterable[tuple[str, str]]:
    """The streams in which something of its past may still come."""
    for stream, stamp in event.past.items():
        if stream[1] in mine and stamp > known.get(stream, 0) and stamp >= oldest:
            yield stream


def precedes(cause: Event, effect: Event) -> bool:
    """Whether one is in the causal past of the other; both come here."""
    return effect.past.get((cause.broker, cause.topic), 0) >= cause.stamp


def logical_deadline(event: Event, pending: Iterable[Event]) -> int:
    """logical_deadline: the last round in which it can go; effects of it that wait here may have to go earlier."""
    return min([event.last, *(other.last for other in pending if precedes(event, other))])


def is_too_late(event: Event, round: int) -> bool:
    """too_late: the last round in which it was of use is over."""
    return event.last < round


def violates_causal_order(event: Event, known: Past) -> bool:
    """Del_viol_CO: it, or an effect of it, has gone already."""
    return event.stamp <= known.get(event.stream, 0)
