"""Events as they go to subscribers: one table of streams for a frame, rounds as colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from unisono.engines.deadline_causal.colours import Palette
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.frames import Coloured, News
from unisono.engines.deadline_causal.stamps import Stream, minor_of, round_of, stamp_of

_ENCODER = msgspec.msgpack.Encoder()


def write_news(
    events: Iterable[Event], palette: Palette, sent: int, oldest: int, peers: Iterable[str] = ()
) -> News:
    """A frame with these events; of their pasts only what is not older than `oldest`: the rest comes no more."""
    places: dict[Stream, int] = {}
    coloured = []
    for event in events:
        vector: list[int] = []
        for stream, stamp in event.past.items():
            if stamp >= oldest:
                place = places.setdefault(stream, len(places))
                vector += (place, palette.colour(round_of(stamp)), minor_of(stamp))
        own, round = places.setdefault(event.stream, len(places)), round_of(event.stamp)
        coloured.append(
            Coloured(
                own,
                palette.colour(round),
                minor_of(event.stamp),
                event.last - round,
                tuple(vector),
                event.publication,
            )
        )
    return News(sent, tuple(places), tuple(coloured), tuple(peers))


def read_news(news: News, palette: Palette) -> Iterator[Event]:
    """The events of a frame; what cannot be read is left out."""
    streams = news.streams

    def stamp(colour: int, minor: int) -> int:
        return stamp_of(palette.round(colour, news.sent), minor)

    for e in news.events:
        triples = list(zip(e.vector[::3], e.vector[1::3], e.vector[2::3], strict=False))
        if max([e.stream, *(place for place, _, _ in triples)]) >= len(streams):
            continue
        past = {streams[place]: stamp(colour, minor) for place, colour, minor in triples}
        own = stamp(e.colour, e.minor)
        if max(past.values(), default=0) < own:
            yield Event(*streams[e.stream], own, round_of(own) + e.left, past, e.publication)


def order_bytes(event: Coloured) -> int:
    """How many bytes of an event are there for its order and its deadline."""
    return len(_ENCODER.encode((event.stream, event.colour, event.minor, event.left, event.vector)))
