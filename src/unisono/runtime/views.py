"""Events as applications see them, made once for all who may share them."""

from __future__ import annotations

from itertools import repeat
from typing import Any, TypeAlias

from unisono.model.event import Event, RawEvent
from unisono.model.frames import Batch, Run
from unisono.model.memo import Memo

EVENTS_SHARED = 4096  # of batches that subscriptions of one process are being told of

Views: TypeAlias = dict[int | None, list[Event[Any]]]


def shared_views(batch: Batch, places: list[int] | None) -> list[Event[Any]]:
    """The events at these places of a batch, for applications that take them as they are.

    Raw bytes cannot be changed by anybody, so subscriptions that ask for the same places get the same list. Anything
    else is decoded for each application on its own.
    """
    known = _told.get(id(batch))
    if known is None:
        known = (batch, {} if batch.is_raw else None)
        _told.put(id(batch), known, len(batch))
    if known[1] is None:
        return views(batch, places)
    key = None if places is None else id(places)  # a batch keeps its lists of places alive
    events = known[1].get(key)
    if events is None:
        events = known[1][key] = views(batch, places)
    return events


# Not in the batch itself: events know their batch, and nobody would ever take such a circle apart.
_told: Memo[int, tuple[Batch, Views | None]] = Memo(64, EVENTS_SHARED)


def views(batch: Batch, places: list[int] | None, type_: Any = Any) -> list[Event[Any]]:
    """The same for one application alone."""
    if type_ is Any and isinstance(batch, Run) and batch.is_raw:
        return _raw_views(batch, places)
    source, publications = batch if isinstance(batch, Run) else None, batch.publications
    chosen = range(len(publications)) if places is None else places
    return [Event(publications[i], source, i, _type=type_) for i in chosen]


def _raw_views(run: Run, places: list[int] | None) -> list[Event[Any]]:
    """The same without looking at what else is known of each event."""
    bodies = run.bodies
    if places is None:
        return list(map(RawEvent, repeat(None), repeat(run), range(len(bodies)), bodies))
    return [RawEvent(None, run, i, bodies[i]) for i in places]
