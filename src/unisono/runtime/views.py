"""Events as applications see them, made once for all who may share them."""

from __future__ import annotations

from typing import Any, TypeAlias

from unisono.model.event import Event
from unisono.model.frames import Batch, Run
from unisono.model.memo import Memo

EVENTS_SHARED = 8192  # of batches that subscriptions of one process are being told of

Views: TypeAlias = dict[int | None, list[Event[Any]]]


def shared_views(batch: Batch, places: list[int] | None) -> list[Event[Any]]:
    """The events at these places of a batch, for applications that take them as they are.

    Raw bytes cannot be changed by anybody, so subscriptions that ask for the same places get the same list. Anything
    else is decoded for each application on its own.
    """
    known = _told.get(id(batch))
    if known is None:
        raw = not any([publication.content for publication in batch.publications])  # noqa: C419 (faster)
        known = (batch, {} if raw else None)
        _told.put(id(batch), known, len(batch.publications))
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
    source, publications = batch if isinstance(batch, Run) else None, batch.publications
    chosen = range(len(publications)) if places is None else places
    if type_ is Any:
        return [Event(publications[i], source, i) for i in chosen]
    return [Event(publications[i], source, i, _type=type_) for i in chosen]
