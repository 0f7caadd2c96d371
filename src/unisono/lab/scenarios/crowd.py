"""Reads who takes part: groups of subscribers, and feeds of publications."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, cast

from unisono.engines.topic_managers.settings import OnGap, Stamps, SubscriberSettings
from unisono.lab.scenarios.reading import Table, one_line, shown
from unisono.lab.scenarios.scenario import Feed, Group, Popular, Shape, Traced
from unisono.model.errors import ConfigError, TopicError
from unisono.model.ids import check_topic, is_pattern, matches

GAP_KEYS = ("on_gap", "buffer", "max_hold", "repair")
GROUP_KEYS = (
    "count",
    "name",
    "topics",
    "pick",
    "popularity",
    *GAP_KEYS,
    "replies",
    "joins_at",
    "leaves_at",
)
FEED_KEYS = (
    "rate",
    "publishers",
    "name",
    "topics",
    "popularity",
    "arrivals",
    "burst",
    "size_bytes",
    "start",
    "stop",
    "trace",
)
POPULARITY_KEYS = ("kind", "shape")
POPULARITIES = {"uniform": 0.0, "power-law": 0.901, "zipf": 1.0, "worst-case": 0.0}  # and the usual shape
PROCESSES_MAX = 100_000
SUBSCRIPTIONS_MAX = 2_000_000  # subscribers times the topics they hold, in one group
CHOICES_MAX = 100_000_000  # the same with topics they choose from
EVENTS_MAX = 1_000_000
SIZE_BYTES = 100
SIZE_BYTES_MAX = 100_000
WARM_UP_S = 1.0  # with nodes subscribers join first

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TAKEN = ("node", "world", "lanes", "store", "service")


class Names:
    """The processes of a scenario: every name means one of them."""

    def __init__(self, top: Table) -> None:
        self.top = top
        self.known: dict[str, None] = {}
        self._counts: dict[str, int] = {}

    def take(self, table: Table, key: str, name: str) -> str:
        """Give a name to a process."""
        if name in self.known or name in _TAKEN or name.startswith("node-"):
            table.fail(key, f"makes a second process called '{name}'; give each a name of its own")
        self.known[name] = None
        return name

    def make(self, table: Table, count: int, prefix: str) -> tuple[str, ...]:
        """Names for so many processes alike: as the table says, or numbers that go on through all tables."""
        name = table.string("name", prefix)
        if not _NAME.fullmatch(name):
            table.fail("name", f"is letters, digits, - and _ after a letter, not {shown(name)}")
        if "name" in table and count == 1:
            return (self.take(table, "name", name),)
        first = 0 if "name" in table else self._counts.get(prefix, 0)
        if "name" not in table:
            self._counts[prefix] = first + count
        return tuple(self.take(table, "name", f"{name}{first + i + 1}") for i in range(count))

    def check(self, table: Table, key: str, wanted: Iterable[str]) -> None:
        """Each of these is a process, or the place where things are stored or announced."""
        places = ("store", "service") if key == "side" else ()
        for name in wanted:
            if name not in self.known and name not in places:
                table.fail(key, f"names {shown(name)}, and there is no such process{near(name, self.known)}")


class Topics:
    """The topics of a scenario."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._known = frozenset(names)

    def named(self, table: Table) -> tuple[str, ...]:
        """Those that a table names or has patterns for; all if it does not say."""
        if table.data.get("topics", "all") == "all":
            return self.names
        found: dict[str, None] = {}
        wanted = table.strings("topics")
        if not wanted:
            table.fail("topics", "is empty: name at least one, or leave it out for all of them")
        for place, name in enumerate(wanted):
            fitting = [t for t in self.names if matches(name, t)] if is_pattern(name) else [name]
            if not fitting or fitting[0] not in self._known:
                self._fail(table, name, place)
            found |= dict.fromkeys(fitting)
        return tuple(found)

    def _fail(self, table: Table, name: str, place: int) -> NoReturn:
        hint = near(name, self.names) or f"; there are {', '.join(self.names[:5])}"
        more = ", …" if len(self.names) > 5 and "there are" in hint else ""
        table.fail(
            "topics", f"has {shown(name)}, which is no topic of this scenario{hint}{more}", place=place
        )


def near(name: str, names: Iterable[str]) -> str:
    """The name that was probably meant."""
    found = get_close_matches(name, list(names), 1, 0.7)
    return f"; did you mean '{found[0]}'?" if found else ""


# Subscribers.


def read_groups(
    top: Table, topics: Topics, names: Names, shape: Shape, *, repair: bool, duration: float
) -> tuple[Group, ...]:
    """The subscribers."""
    tables = top.tables("subscribers", GROUP_KEYS)
    if not tables:
        top.missing("subscribers", "write [[subscribers]] with a count, and topics or pick")
    return tuple(_group(top, table, topics, names, shape, repair, duration) for table in tables)


def _group(
    top: Table, table: Table, topics: Topics, names: Names, shape: Shape, repair: bool, duration: float
) -> Group:
    held = topics.named(table)
    pick = table.whole("pick", 0, least=1 if "pick" in table else 0)
    if pick > len(held):
        table.fail("pick", f"is {pick}, and there are {len(held)} topics to pick from")
    count = table.whole("count", 1, least=1, most=PROCESSES_MAX)
    for topics_each, most in ((pick or len(held), SUBSCRIPTIONS_MAX), (len(held), CHOICES_MAX)):
        if count * topics_each > most:
            table.fail("count", f"times {topics_each:,} topics is over the limit of {most:,}")
    popularity = _popularity(table)
    if "popularity" in table and not pick:
        table.fail("popularity", "says how topics are picked: give 'pick' as well")
    if popularity.kind == "worst-case":
        table.fail("popularity", 'is "worst-case" for publications only')
    for key in ("joins_at", "leaves_at"):
        if key in table and shape != "nodes":
            table.fail(key, f'is not simulated with shape = "{shape}" yet; take shape = "nodes"')
    joins_at = table.number("joins_at", 0.0, most=duration)
    leaves_at = table.positive("leaves_at", duration, most=duration) if "leaves_at" in table else None
    if leaves_at is not None and leaves_at <= joins_at:
        table.fail("leaves_at", f"is after 'joins_at', {joins_at:g}, not {leaves_at:g}")
    return Group(
        names=names.make(table, count, "s"),
        topics=held,
        pick=pick,
        popularity=popularity,
        settings=_settings(top, table, repair),
        replies=table.number("replies", 0.0, most=1.0),
        joins_at=joins_at,
        leaves_at=leaves_at,
        said_at=table.place_of("pick" if pick else "topics"),
    )


def _settings(top: Table, table: Table, repair: bool) -> SubscriberSettings:
    """What a group asks for at a gap, or else what the whole scenario does."""
    place = {key: table if key in table else top for key in GAP_KEYS}
    stamps = cast(Stamps, top.word("stamps", "full", ("full", "upward")))
    on_gap = cast(OnGap, place["on_gap"].word("on_gap", "wait", ("wait", "tag", "skip", "fail")))
    buffer = place["buffer"].whole("buffer", 0)
    holds = "max_hold" in place["max_hold"]
    max_hold = place["max_hold"].number("max_hold", 0.0, most=3600.0) if holds else None
    repair = place["repair"].flag("repair", repair)
    try:
        return SubscriberSettings(
            on_gap=on_gap, buffer=buffer, max_hold=max_hold, stamps=stamps, repair=repair
        )
    except ConfigError as error:
        wrong = "on_gap"
        if stamps == "full":
            wrong = "max_hold" if not buffer else "buffer"
        place[wrong].fail(wrong, f"contradicts the rest: {error}")


def _popularity(table: Table) -> Popular:
    value = table.data.get("popularity", "uniform")
    inner = table
    if isinstance(value, dict):
        inner = table.table("popularity", POPULARITY_KEYS)
        if "kind" not in inner:
            inner.missing("kind", f"it is one of {', '.join(POPULARITIES)}")
        kind = inner.word("kind", "", tuple(POPULARITIES))
    else:
        kind = table.word("popularity", "uniform", tuple(POPULARITIES))
        return Popular(kind, POPULARITIES[kind])
    if "shape" in inner and not POPULARITIES[kind]:
        inner.fail("shape", f'goes with "power-law" and "zipf", not with "{kind}"')
    shape = inner.positive("shape", POPULARITIES[kind], most=10.0) if "shape" in inner else POPULARITIES[kind]
    return Popular(kind, shape)


# Publications.


def read_feeds(
    top: Table, topics: Topics, names: Names, shape: Shape, folder: Path, duration_s: float
) -> tuple[tuple[Feed, ...], Topics, float]:
    """What is published, all the topics there are then, and how long it takes."""
    tables = top.tables("publications", FEED_KEYS)
    if not tables:
        top.missing("publications", "write [publications] with a rate, or a trace")
    traces = [_trace(table, folder) for table in tables]
    duration = top.positive("duration", _last(traces) or duration_s, most=1e6)
    if not topics.names:
        if not all(traces):
            top.missing("topics", "write [topics] with a count, or names")
        topics = Topics(tuple(dict.fromkeys(event.topic for trace in traces for event in trace)))
    feeds = [
        _replay(table, trace, topics, names, duration)
        if trace
        else _feed(table, topics, names, shape, duration)
        for table, trace in zip(tables, traces, strict=True)
    ]
    most, events = max(feeds, key=lambda feed: feed.events), sum(feed.events for feed in feeds)
    if events > EVENTS_MAX:
        raise ConfigError(
            f"{most.said_at} makes {events:,.0f} events; the exact simulator takes {EVENTS_MAX:,} at most in one run"
        )
    return tuple(feeds), topics, duration


def _last(traces: list[tuple[Traced, ...]]) -> float:
    return max((event.at for trace in traces for event in trace), default=0.0)


def _feed(table: Table, topics: Topics, names: Names, shape: Shape, duration: float) -> Feed:
    if "rate" not in table:
        table.missing("rate", "how many events a second are published, or 'trace'")
    start = table.number("start", min(WARM_UP_S, duration / 2) if shape == "nodes" else 0.0)
    stop = table.positive("stop", duration)
    if stop > duration:
        table.fail("stop", f"is {stop:g}, and 'duration' is {duration:g}")
    if start >= stop:
        key = "start" if "start" in table else "stop"
        table.fail(key, f"leaves no time to publish: from {start:g} to {stop:g} seconds")
    return Feed(
        publishers=names.make(table, table.whole("publishers", 1, least=1, most=PROCESSES_MAX), "p"),
        rate=table.positive("rate", 1.0, most=1e6),
        topics=topics.named(table),
        popularity=_popularity(table),
        poisson=table.word("arrivals", "poisson", ("poisson", "regular")) == "poisson",
        burst=table.whole("burst", 1, least=1, most=1000),
        size_bytes=table.whole("size_bytes", SIZE_BYTES, most=SIZE_BYTES_MAX),
        start=start,
        stop=stop,
        said_at=table.place_of("rate"),
    )


def _replay(table: Table, trace: tuple[Traced, ...], topics: Topics, names: Names, duration: float) -> Feed:
    for key in table.data:
        if key != "trace":
            table.fail(key, "contradicts 'publications.trace', which says all about its events")
    known = set(topics.names)
    for event in trace:
        if event.topic not in known:
            hint = near(event.topic, topics.names)
            table.fail(
                "trace", f"has events of {shown(event.topic)}, which is no topic of this scenario{hint}"
            )
    publishers = tuple(dict.fromkeys(event.publisher for event in trace))
    for name in publishers:
        names.take(table, "trace", name)
    if trace[0].at > duration:
        table.fail("trace", f"begins at {trace[0].at:g} seconds, and 'duration' is {duration:g}")
    trace = tuple(event for event in trace if event.at <= duration)
    return Feed(publishers, 0.0, (), Popular(), False, 1, 0, 0.0, duration, trace, table.place_of("trace"))


def _trace(table: Table, folder: Path) -> tuple[Traced, ...]:
    """The events of a trace beside the scenario; nothing if there is none."""
    if "trace" not in table:
        return ()
    file = folder / table.string("trace", "")
    from unisono.sim.traces import TraceError, read_trace  # needs pyarrow for Parquet

    try:
        found = []
        for event in read_trace(file):
            if not _NAME.fullmatch(event.publisher):
                table.fail(
                    "trace", f"has a publisher {shown(event.publisher)}; names are letters, digits, - and _"
                )
            if event.size_bytes > SIZE_BYTES_MAX:
                table.fail(
                    "trace", f"has an event of {event.size_bytes:,} bytes; the limit is {SIZE_BYTES_MAX:,}"
                )
            found.append(Traced(event.at, event.publisher, check_topic(event.topic), event.size_bytes))
            if len(found) > EVENTS_MAX:
                table.fail("trace", f"is over the limit of {EVENTS_MAX:,} events in one run")
    except (TraceError, TopicError) as error:
        table.fail("trace", f"is no good: {error}")
    except OSError as error:
        table.fail("trace", f"cannot be read: {file}: {error.strerror or error}")
    except ModuleNotFoundError as error:
        table.fail("trace", f"in Parquet needs {error.name}: pip install 'unisono[journal]'")
    except Exception as error:  # whatever a file that is no trace does to who reads it
        if isinstance(error, ConfigError):
            raise
        table.fail("trace", f"cannot be read: {file}: {one_line(str(error))}")
    if not found:
        table.fail("trace", f"has no events: {file}")
    return tuple(found)
