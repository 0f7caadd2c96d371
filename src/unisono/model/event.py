"""What an application is handed."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from unisono.model.frames import RAW, Publication, Run
from unisono.model.payloads import decode

T = TypeVar("T")


class Event(msgspec.Struct, Generic[T], eq=False, gc=False, repr_omit_defaults=True):
    """An event, as one subscription is told of it. `Event[Order]` in a handler's signature decodes to Order."""

    _given: Publication | None  # as it was published; None: the run that it is from tells
    _source: Run | dict[str, int] | None = None  # where the stamp is read from
    _place: int = 0
    _data: Any = UNSET
    in_order: bool = True  # False: delivered although others may be told of it in another place
    missed: int = 0  # events that were lost or dropped just before this one
    redelivered: bool = False  # True: a former session of this durable subscriber may have been handed it
    _type: Any = Any
    _epoch: int = 0  # in which it was sequenced, where a place is kept
    late: bool = False  # True: handed over after its deadline, by a subscription that has one and tags
    waited: float = 0.0  # seconds it was held back for earlier ones, where deadlines count
    _until: float | None = None  # its deadline for this subscription, where that is an earlier one

    @property
    def _publication(self) -> Publication:
        if self._given is not None:
            return self._given
        assert isinstance(self._source, Run)
        return self._source.publications[self._place]

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        if self._given is None and isinstance(self._source, Run):
            return self._source.topic(self._place)
        return self._publication.topic

    @property
    def data(self) -> T:
        """What was published; decoded when first asked for (PayloadError if it is not what you expect)."""
        if self._data is UNSET:
            publication = self._publication
            if publication.content == RAW and self._type is Any:
                self._data = publication.body
            else:
                self._data = decode(publication.body, publication.content, self._type)
        return self._data  # type: ignore[no-any-return]

    @property
    def body(self) -> bytes:
        """The payload as it travelled."""
        return self._publication.body

    @property
    def id(self) -> str:
        """The id it was published with, or one that is its alone."""
        return self._publication.key or str(self._publication.id)

    @property
    def headers(self) -> dict[str, str]:
        """The headers it was published with."""
        return dict(self._publication.headers or {})

    @property
    def publisher(self) -> str:
        """Who published it."""
        return self._publication.publisher

    @property
    def published_at(self) -> float:
        """When it was published, seconds since 1970 by the publisher's clock."""
        return self._publication.published_at

    @property
    def deadline(self) -> float | None:
        """Until when it is of use, seconds since 1970 by its publisher's clock; None: for as long as you like."""
        return self._publication.deadline if self._until is None else self._until

    @property
    def stamp(self) -> dict[str, int]:
        """Its numbers: its place on its own topic, and how far the topics it is ordered with were.

        Empty for events that nobody sequenced (order="none" or "fifo" only).
        """
        if isinstance(self._source, Run):
            return dict(self._source.entries(self._place))
        return dict(self._source or {})

    def __repr__(self) -> str:
        late = "" if self.in_order else ", in_order=False"
        return f"Event({self.topic!r}, id={self.id!r}, stamp={self.stamp}{late})"


class RawEvent(Event[bytes], eq=False, gc=False):
    """An event whose payload is taken as it travelled: `data` is there from the beginning, and takes no call to read."""


RawEvent.data = Event._data  # type: ignore[method-assign]
