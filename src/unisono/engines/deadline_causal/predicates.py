"""The four decisions of the protocol, and what they rest on, as functions of what is known.

`known` has for each stream the last stamp that was delivered or passed over; `mine` are the destinations one
receives. The paper's names stand in the docstrings; what it wrote instead is in `literal.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from unisono.engines.deadline_causal.events import Event, Key
from unisono.engines.deadline_causal.stamps import Past, Stream


def is_deliverable(event: Event, known: Past, mine: Collection[str], oldest: int = 0) -> bool:
    """Del_ok: all of its past that comes here is behind us; what is older than `oldest` comes no more.

    The sender's own stream counts like any other: its former event is a cause, too.
    """
    return not any(missing(event, known, mine, oldest))


def missing(event: Event, known: Past, mine: Collection[str], oldest: int = 0) -> Iterable[Stream]:
    """The streams in which something of its past may still come."""
    for stream, stamp in event.past.items():
        if stream[1] in mine and stamp > known.get(stream, 0) and stamp >= oldest:
            yield stream


def precedes(cause: Event, effect: Event) -> bool:
    """Whether one is in the causal past of the other; both come here."""
    return effect.past.get((cause.broker, cause.topic), 0) >= cause.stamp


def logical_deadlines(pending: Iterable[Event]) -> dict[Key, int]:
    """logical_deadline of all that wait: the last round in which each can go; effects of it may have to go earlier.

    So may effects of effects, and a past need not name what these follow: who publishes through one broker and then
    through another names its own former event, and not what that one's broker had seen.
    """
    deadlines: dict[Key, int] = {}
    followed: dict[Stream, list[tuple[int, int]]] = {}  # up to which stamp, by somebody with which deadline
    for event in sorted(pending, key=lambda event: event.stamp, reverse=True):  # effects have larger stamps
        followers = followed.get(event.stream, ())
        last = min([event.last, *(due for stamp, due in followers if stamp >= event.stamp)])
        deadlines[event.key] = last
        for stream, stamp in event.past.items():
            others = followed.setdefault(stream, [])
            if not any(other >= stamp and due <= last for other, due in others):
                others.append((stamp, last))
    return deadlines


def is_too_late(event: Event, round: int) -> bool:
    """too_late: the last round in which it was of use is over."""
    return event.last < round


def violates_causal_order(event: Event, known: Past) -> bool:
    """Del_viol_CO: it, or an effect of it, has gone already."""
    return event.stamp <= known.get(event.stream, 0)
