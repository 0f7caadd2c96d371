"""What a subscription wants of the content of events: `where="price > 100"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.engines.filters import parse
from unisono.model.errors import PayloadError
from unisono.model.event import Event
from unisono.model.payloads import decode

UNWANTED = "not what where= asks for"


class Wanting:
    """A filter, asked of events.

    Its names are those of the payload, if that is a mapping; another payload is `data`. Where the payload has no such
    name, `topic`, `publisher` and `headers.<name>` are the event's own.
    """

    __slots__ = ("_filter",)

    def __init__(self, text: str) -> None:
        self._filter = parse(text)

    def __str__(self) -> str:
        return self._filter.text

    def __call__(self, event: Event[Any]) -> bool:
        """Whether it is wanted."""
        return self._filter.matches(attributes_of(event))


def attributes_of(event: Event[Any]) -> dict[str, Any]:
    """What a filter sees of an event; a payload that cannot be read has no names."""
    publication = event._publication
    own: dict[str, Any] = {"topic": publication.topic, "publisher": publication.publisher}
    if publication.headers:
        own["headers"] = publication.headers
    try:
        data = event.data if event._type is Any else decode(publication.body, publication.content)
    except PayloadError:
        return own
    if isinstance(data, Mapping):
        own.update((name, value) for name, value in data.items() if isinstance(name, str))
    else:
        own["data"] = data
    return own
