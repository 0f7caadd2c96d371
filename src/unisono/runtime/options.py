"""What a subscription may ask for, checked before anything happens.

An option that would be ignored, or that contradicts another, is refused by name, with the alternative.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from unisono.engines.durable.holder import WhenHeld
from unisono.engines.filters import parse
from unisono.engines.topic_managers.settings import OnGap, SubscriberSettings
from unisono.ens.port import Capabilities
from unisono.model.errors import ConfigError, PayloadError, TopicError
from unisono.model.ids import check_pattern, check_topic, is_pattern, matches
from unisono.model.payloads import check_type
from unisono.runtime.starts import NEW, Start, check_start

Order: TypeAlias = Literal["none", "fifo", "causal", "total", "total_causal"]
Slow: TypeAlias = Literal["wait", "drop", "fail"]
Ack: TypeAlias = Literal["auto", "manual"]
Gone: TypeAlias = Literal["fail", "skip"]

THRESHOLD = 2
GRACE_S = 0.05  # in which an application can take what was held until its deadline


@dataclass(frozen=True, slots=True)
class Options:
    """Everything about a subscription but its topics."""

    order: Order = "total"
    on_gap: OnGap = "wait"
    buffer: int = 0
    max_hold: float | None = None
    name: str | None = None
    type: Any = Any
    queue: int = 16384  # events that may wait for the application
    slow: Slow = "wait"  # what happens when that many do
    slow_timeout: float = 30.0  # seconds without any progress that slow="wait" puts up with
    deadline: float | None = None
    where: str | None = None
    start: Start = NEW
    ack: Ack | None = None  # with it, the name is that of a durable subscriber
    held: WhenHeld = "refuse"  # what happens when somebody else holds that name
    gone: Gone = "fail"  # what happens when events it has not had are not kept any more

    def __post_init__(self) -> None:
        _one_of("order", self.order, get_args(Order))
        _one_of("on_gap", self.on_gap, get_args(OnGap))
        _one_of("slow", self.slow, get_args(Slow))
        check_number("buffer", self.buffer, whole=True)
        check_number("queue", self.queue, whole=True, least=1)
        check_number("slow_timeout", self.slow_timeout)
        if self.max_hold is not None:
            check_number("max_hold", self.max_hold)
        if self.order == "none" and (self.on_gap != "wait" or self.buffer or self.max_hold is not None):
            raise ConfigError("order='none' knows no gaps; leave out on_gap, buffer and max_hold")
        if self.name is not None and (not isinstance(self.name, str) or not self.name.strip()):
            raise ConfigError("a subscription's name is a word or two, not empty")
        if self.where is not None:
            if not isinstance(self.where, str):
                raise ConfigError(f"where= is a text such as 'price > 100', not {type(self.where).__name__}")
            parse(self.where)  # FilterError shows the place
        check_type(self.type)
        self._check_durable()
        self._check_deadline()
        SubscriberSettings(self.on_gap, self.buffer, self.max_hold)  # refuses contradictions

    def _check_durable(self) -> None:
        """Refuse what a durable subscriber, or one that begins in the past, cannot have."""
        if self.ack is not None:
            _one_of("ack", self.ack, get_args(Ack))
        _one_of("held", self.held, get_args(WhenHeld))
        _one_of("gone", self.gone, get_args(Gone))
        what = f"ack={self.ack!r}" if self.is_durable else f"start={self.start!r:.60}"
        if not self.is_durable:
            if self.held != "refuse":
                raise ConfigError("held= is about the name of a durable subscriber; add name= and ack=")
            if self.beginning == NEW and self.gone != "fail":
                raise ConfigError("gone= is about events that are kept; add start=, or name= and ack=")
            if self.beginning == NEW:
                return
        elif self.name is None:
            raise ConfigError(f"{what} keeps a place for a durable subscriber; say which one with name=")
        else:
            check_durable_name(self.name)
        if not self.is_total:
            raise ConfigError(
                f"{what} needs one order to go by, and order={self.order!r} has none; use order='total'"
            )
        if self.on_gap != "wait":
            raise ConfigError(f"{what} delivers everything in order; leave out on_gap={self.on_gap!r}")
        if self.slow == "drop":
            raise ConfigError(f"{what} leaves nothing out; use slow='wait' or slow='fail'")

    def _check_deadline(self) -> None:
        """Refuse what a deadline contradicts."""
        if self.deadline is None:
            return
        check_number("deadline", self.deadline, positive=True)
        what = f"deadline={self.deadline:g}"
        if self.order in ("none", "fifo"):
            raise ConfigError(
                f"{what}: order={self.order!r} holds nothing back, and knows no deadline; use order='causal', or "
                "'total' with on_gap='tag' or 'skip'"
            )
        if self.is_durable or self.beginning != NEW:
            raise ConfigError(f"{what} is about fresh events; leave out ack= and start=, or deadline=")
        if self.is_fresh:
            if self.on_gap in ("tag", "fail") or self.buffer or self.max_hold is not None:
                raise ConfigError(
                    f"{what} with order='causal' holds an event until its deadline and drops what comes after its "
                    "effects; leave out on_gap=, buffer= and max_hold=, or use order='total'"
                )
        elif self.on_gap in ("wait", "fail"):
            raise ConfigError(
                f"{what}: on_gap={self.on_gap!r} waits for what may never come; with order={self.order!r} use "
                "on_gap='tag' or 'skip', or order='causal'"
            )

    @property
    def is_fresh(self) -> bool:
        """Whether it hears events from bus to bus, in deadline-causal order."""
        return self.order == "causal" and self.deadline is not None

    @property
    def beginning(self) -> str | float | dict[str, int]:
        """Where it begins: `new`, `earliest`, seconds since 1970, or a stamp."""
        return check_start(self.start)

    @property
    def is_durable(self) -> bool:
        """Whether its place is kept."""
        return self.ack is not None

    def check_kept(self, where: str) -> None:
        """Raise ConfigError if it asks for what only a store can keep: `where` keeps nothing."""
        if self.is_durable:
            raise ConfigError(
                f"ack={self.ack!r}: {where} keeps no places; durable subscribers need nodes on nats:// or redis://"
            )
        if self.beginning != NEW:
            raise ConfigError(
                f"start={self.start!r:.60}: {where} keeps no history; replay needs nodes on nats:// or redis://"
            )

    def check_unsequenced(self) -> None:
        """Raise ConfigError if it asks for an order that nobody gives where nobody sequences."""
        if self.is_total:
            raise ConfigError(
                f"order={self.order!r}: nobody sequences on udp://; use order='causal' with deadline=, or 'none', or "
                "'fifo' with on_gap='skip' and max_hold=, or a broker (nats://, redis://, mqtt://)"
            )
        self.check_kept("an overlay")

    def settings(self, capabilities: Capabilities) -> SubscriberSettings:
        """What the subscriber engine needs to know, on this transport."""
        if self.order == "fifo" and self.on_gap in ("wait", "fail") and not capabilities.reliable:
            raise ConfigError(
                "order='fifo' cannot wait for what this transport loses; "
                "use on_gap='skip' with max_hold=, or order='total', which repairs"
            )
        return self.holding(repair=self.is_total and not capabilities.reliable)

    def holding(self, *, repair: bool) -> SubscriberSettings:
        """What a subscriber engine that is driven by the clock of this event loop needs to know."""
        clock_s = 0.0 if self.deadline is None else time.time() - asyncio.get_running_loop().time()
        return SubscriberSettings(
            self.on_gap,
            self.buffer,
            self.max_hold,
            repair=repair,
            deadline_s=self.deadline,
            clock_s=clock_s,
            grace_s=min(GRACE_S, 0.25 * (self.deadline or 0.0)),
        )

    @property
    def is_total(self) -> bool:
        """Whether its topics must be sequenced. Causal order is given by the stronger total_causal."""
        return self.order in ("causal", "total", "total_causal")

    @property
    def weight(self) -> int:
        """How much it weighs against the overlap threshold: causal orders count as if shared."""
        return 1 if self.order == "total" else THRESHOLD


def check_durable_name(name: str) -> str:
    """Return the name of a durable subscriber, or raise ConfigError."""
    try:
        return check_topic(name)
    except TopicError as error:
        raise ConfigError(
            f"name={name!r:.80}: a durable subscriber is named like a topic, and {str(error).split(';')[0]}"
        ) from None


def check_handled(options: Options, concurrency: int) -> None:
    """Raise ConfigError if a handler cannot acknowledge as these options say."""
    if options.ack == "manual":
        raise ConfigError("a handler acknowledges an event by returning; use ack='auto', or subscribe()")
    if options.is_durable and concurrency != 1:
        raise ConfigError("a durable subscriber handles one event at a time; leave out concurrency=")


def check_topics(topics: Iterable[str]) -> frozenset[str]:
    """The topics and patterns of a subscription, or a TopicError that says what is wrong."""
    checked = [check_pattern(topic) for topic in topics]
    if not checked:
        raise TopicError("a subscription needs at least one topic")
    if len(set(checked)) < len(checked):
        twice = next(topic for topic in checked if checked.count(topic) > 1)
        raise TopicError(f"topic '{twice}' is named twice in one subscription")
    return frozenset(checked)


def check_more(name: str, asked: frozenset[str], more: frozenset[str]) -> None:
    """Raise TopicError unless a subscription can ask for these as well."""
    for topic in sorted(asked & more):
        raise TopicError(f"subscription '{name}' already holds '{topic}'; add what it does not hold")


def check_fewer(name: str, asked: frozenset[str], patterns: Iterable[str], fewer: frozenset[str]) -> None:
    """Raise TopicError unless a subscription asks for these, and for something else."""
    for topic in sorted(fewer - asked):
        for pattern in patterns:
            if not is_pattern(topic) and matches(pattern, topic):
                raise TopicError(
                    f"subscription '{name}' holds '{topic}' through '{pattern}'; remove the pattern instead"
                )
        raise TopicError(
            f"subscription '{name}' does not hold '{topic}'; it holds {', '.join(sorted(asked))}"
        )
    if fewer == asked:
        raise TopicError(f"nothing would be left of subscription '{name}'; close it instead")


def check_extras(id: str | None, headers: Mapping[str, str] | None, deadline: float | None) -> None:
    """Raise ConfigError or PayloadError unless an event can be published with these."""
    if deadline is not None:
        check_number("deadline", deadline, positive=True)
    if headers is not None and not isinstance(headers, Mapping):
        raise PayloadError(f"headers are a mapping of strings, not {type(headers).__name__}")
    for key, value in (headers or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise PayloadError(f"headers are strings; {key!r}: {value!r} is not")
        if not (_is_text(key) and _is_text(value)):
            raise PayloadError(f"headers are text; {key!r}: {value!r} has half of a character")
    if id is not None and (not isinstance(id, str) or not id or len(id) > 255 or not _is_text(id)):
        raise ConfigError(f"id={id!r}; an id is a text of 1 to 255 characters")


def _is_text(words: str) -> bool:
    """Whether a string can be written; half a surrogate pair cannot."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True


def make_options(options: dict[str, Any]) -> Options:
    """Options from keywords; an unknown one is refused by name."""
    known = Options.__dataclass_fields__
    for name in options:
        if name not in known:
            raise ConfigError(f"a subscription has no option '{name}'; it has {', '.join(known)}")
    return Options(**options)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name}={value!r} is unknown; use one of {', '.join(allowed)}")


def check_number(
    name: str, value: object, *, whole: bool = False, least: float = 0, positive: bool = False
) -> None:
    """Raise ConfigError unless `value` is a finite number, and not a truth value in disguise."""
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ConfigError(f"{name}={value!r} is not a {'whole ' if whole else ''}number")
    if positive and not 0 < value < float("inf"):
        raise ConfigError(f"{name}={value!r} is out of range; it is positive and finite")
    if not least <= value < float("inf"):
        raise ConfigError(f"{name}={value!r} is out of range; it is at least {least:g} and finite")
