"""Bundles as runs of events, and events as bundles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeVar

from unisono.model.bundles import Bundle, Part, StampedBundle, group_names, ns_of
from unisono.model.columns import pack, pack_steps, pack_times
from unisono.model.frames import RAW, Entries, Publication, Run, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.memo import Memo

T = TypeVar("T")

EVENTS_SHARED = 4096  # of bundles that subscriptions of one process share once they are opened


class BundleRun(Run):
    """The events of some parts of a bundle, as a run; their stamps count those of the other parts too.

    It is made of columns, and each is taken apart only when somebody looks at it.
    """

    __slots__ = ("_bundle", "_order", "_parts")

    def __init__(self, bundle: StampedBundle, parts: Sequence[Part]) -> None:
        super().__init__(
            bundle.epoch,
            {topic: i for i, topic in enumerate(bundle.clock)},
            list(bundle.clock.values()),
            group_names(bundle.clock, bundle.groups, bundle.topics),
            None,
            {part.topic: part.count for part in parts},
        )
        self._bundle = bundle
        self._parts = parts
        absent = bytes([i for i, topic in enumerate(bundle.topics) if topic not in self.counts])
        self._order = (
            bundle.order.translate(None, absent) if absent else bundle.order
        )  # of those that are here

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_whole(self) -> bool:
        """Not if events of other parts lie between them."""
        return len(self._order) == len(self._bundle.order)

    def topic(self, place: int) -> str:
        """The topic of the event at this place."""
        return self._bundle.topics[self._order[place]]

    @property
    def is_raw(self) -> bool:
        """Whether all payloads are what users gave, bytes."""
        return not any([part.contents for part in self._parts])  # noqa: C419 (faster)

    @property
    def bodies(self) -> Sequence[bytes]:
        """The payloads."""
        return self._merge([part.bodies for part in self._parts])

    def _make(self) -> list[Publication]:
        return list(self._merge([publications_of(self._bundle, part) for part in self._parts]))

    def _merge(self, columns: Sequence[Sequence[T]]) -> Sequence[T]:
        """Columns of the parts as one, in the order of the events."""
        if len(columns) == 1:
            return columns[0]
        streams = {part.topic: iter(column) for part, column in zip(self._parts, columns, strict=True)}
        by_index = [streams.get(topic, _NOTHING) for topic in self._bundle.topics]
        return [next(by_index[i]) for i in self._order]

    def entries(self, place: int) -> Entries:
        """The stamp of the event at this place."""
        if self._entries is None:
            bundle, here = self._bundle, self.counts.keys()
            clock = dict(zip(self.index, self.base, strict=True))
            self._entries = []
            for i in bundle.order:
                topic = bundle.topics[i]
                clock[topic] += 1
                if topic in here:
                    self._entries.append({x: clock[x] for x in self.groups[topic]})
        return self._entries[place]

    def events(self) -> list[Stamped]:
        """All of them, each with a stamp of its own."""
        return [self.stamped(place) for place in range(len(self))]


_NOTHING: Iterator[Any] = iter(())


def publications_of(events: Bundle | StampedBundle, part: Part) -> list[Publication]:
    """The events of a part."""
    columns: tuple[Iterable[Any], ...] = (
        repeat(events.publisher),
        repeat(events.incarnation),
        ns_of(events, part.topic),
        repeat(part.topic),
        part.bodies,
        part.contents or repeat(RAW),
        part.published_at,
        part.nths,
    )
    if part.keys or part.headers or part.deadlines:
        places = range(part.count)
        extras = (dict(part.keys), dict(part.headers), dict(part.deadlines))
        columns += tuple(map(column.get, places) for column in extras)
    return list(map(Publication, *columns))


def run_of(*pieces: StampedBundle) -> BundleRun:
    """Pieces of one bundle as a run, in their order; subscriptions that were told the same share it."""
    name = tuple(map(id, pieces))
    if (known := _opened.get(name)) is not None:
        return known[0]
    run = BundleRun(pieces[0], [part for piece in pieces for part in piece.parts])
    _opened.put(name, (run, pieces), len(run))  # with the pieces: so nobody else has their ids
    return run


_opened: Memo[tuple[int, ...], tuple[BundleRun, tuple[StampedBundle, ...]]] = Memo(64, EVENTS_SHARED)


def stamped_in(bundle: StampedBundle, topic: str, number: int) -> Stamped:
    """The event of a bundle with this number on its topic."""
    run = run_of(bundle)
    return run.stamped(run.by_topic[topic][number - bundle.clock[topic] - 1])


def stamps_of(bundle: StampedBundle) -> dict[str, list[Entries]]:
    """The stamps of all events of a bundle, by topic."""
    clock, stamps = dict(bundle.clock), {topic: list[Entries]() for topic in bundle.topics}
    names = group_names(bundle.clock, bundle.groups, bundle.topics) if bundle.groups else {}
    rows = [(topic, stamps[topic], names.get(topic)) for topic in bundle.topics]
    for i in bundle.order:
        topic, row, group = rows[i]
        clock[topic] += 1
        row.append(clock.copy() if group is None else {x: clock[x] for x in group})
    return stamps


def sequenced(bundle: StampedBundle, topic: str, n: int) -> Sequenced:
    """The answer for one event of a bundle; an outline of it will do."""
    end, order = bundle.ns.index(n) + 1, bundle.order
    names = group_names(bundle.clock, bundle.groups, bundle.topics)[topic] if bundle.groups else bundle.clock
    here = {x: order.count(i, 0, end) for i, x in enumerate(bundle.topics)}  # of each topic, up to this event
    stamp = {x: bundle.clock[x] + here.get(x, 0) for x in names}
    return Sequenced(topic, EventId(bundle.publisher, bundle.incarnation, n), bundle.epoch, stamp)


def cut(publications: Iterable[Publication]) -> dict[str, list[Publication]]:
    """Events by topic, both in their order."""
    by_topic: dict[str, list[Publication]] = {}
    for publication in publications:
        try:
            by_topic[publication.topic].append(publication)
        except KeyError:
            by_topic[publication.topic] = [publication]
    return by_topic


def bundle_of(
    publications: Sequence[Publication],
    serial: int,
    acknowledged: int,
    after: Mapping[str, int],
    by_topic: Mapping[str, list[Publication]] | None = None,
) -> Bundle:
    """Events of one publisher, which may have been cut already."""
    if by_topic is None:
        by_topic = cut(publications)
    places = {topic: i for i, topic in enumerate(by_topic)}
    first, last = publications[0], publications[-1]
    is_dense = last.n - first.n == len(publications) - 1
    return Bundle(
        first.publisher,
        first.incarnation,
        first.n,
        b"" if is_dense else pack_steps([publication.n for publication in publications]),
        bytes([places[publication.topic] for publication in publications]),
        tuple([_part(topic, events, after.get(topic, 0)) for topic, events in by_topic.items()]),
        serial,
        acknowledged,
    )


def _part(topic: str, events: list[Publication], after: int) -> Part:
    bodies, contents = [p.body for p in events], bytes([p.content for p in events])
    nth, further = events[0].nth, b""
    if events[-1].nth - nth != len(events) - 1:
        nth = min([p.nth for p in events])
        further = pack([p.nth - nth for p in events])
    extras = [
        (i, p)
        for i, p in enumerate(events)
        if p.key is not None or p.headers is not None or p.deadline is not None
    ]
    return Part(
        topic,
        nth,
        further,
        pack_times([p.published_at for p in events]),
        pack(list(map(len, bodies))),
        b"".join(bodies),
        contents if any(contents) else b"",
        after,
        tuple([(i, p.key) for i, p in extras if p.key is not None]),
        tuple([(i, p.headers) for i, p in extras if p.headers is not None]),
        tuple([(i, p.deadline) for i, p in extras if p.deadline is not None]),
    )


def creates_of(bundle: Bundle) -> list[tuple[Publication, int]]:
    """The events of a bundle one by one, each with the one it follows on its topic."""
    streams = []
    for part in bundle.parts:
        events = publications_of(bundle, part)
        streams.append(iter(zip(events, (part.after, *[event.n for event in events]), strict=False)))
    return [next(streams[i]) for i in bundle.order]
