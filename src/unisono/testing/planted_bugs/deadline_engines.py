"""Brokers and subscribers with one rule of deadline-causal order broken, the paper's own rules among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from unisono.engines.deadline_causal import literal
from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.colours import Palette
from unisono.engines.deadline_causal.effects import Effect
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.frames import News, Sent
from unisono.engines.deadline_causal.holdback import HoldBack
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import HybridClock, Past, forget, merge, round_of, stamp_of
from unisono.engines.deadline_causal.subscriber import Subscriber
from unisono.engines.deadline_causal.wire import read_news
from unisono.model.frames import Publication

PAPER_COLOURS = Palette(literal.colours(2, 1))  # red, yellow, blue


class LiteralDelOk(HoldBack):
    """Leaves out the stream of the event itself, as figure 5 does."""

    def is_ready(self, event: Event, round: int) -> bool:
        return all(
            stamp <= self.known.get(stream, 0)
            for stream, stamp in event.past.items()
            if stream[1] in self.mine and stream != event.stream
        )


class OnlyAtTheMoment(HoldBack):
    """An event has to go when the time equals its logical deadline, and not when it is over."""

    def is_due(self, event: Event, round: int) -> bool:
        return literal.logical_deadline_reached(round, [self.logical_deadline(event) - self.reserve])


class OwnDeadlineOnly(HoldBack):
    """Nobody goes early for the sake of an effect."""

    def is_due(self, event: Event, round: int) -> bool:
        return event.last - self.reserve <= round


class AsTheyCame(HoldBack):
    """What has to go together goes in the order in which it came."""

    def order(self) -> list[Event]:
        return list(self.pending.values())


class LateAndOvertaken(HoldBack):
    """Too late is what is late and overtaken, as the text has it."""

    def is_late(self, event: Event, round: int) -> bool:
        known = self.known.get(event.stream, 0)
        return literal.too_late_in_the_text(event.last, round, event.stamp, known)


class NeverOvertaken(HoldBack):
    """Does not look whether an effect has gone already."""

    def is_overtaken(self, event: Event) -> bool:
        return False


class LearnsNothing(HoldBack):
    """With an event, its past is not behind us."""

    def pass_over(self, event: Event) -> None:
        merge(self.known, {event.stream: event.stamp})


class WaitsForNobody(HoldBack):
    """Everything can go at once."""

    def is_ready(self, event: Event, round: int) -> bool:
        return True


def with_hold(weak: type[HoldBack]) -> Callable[..., Broker]:
    """Brokers with another hold-back."""

    def make(
        name: str,
        settings: CausalSettings,
        topics: Iterable[str],
        contacts: Mapping[str, Iterable[str]],
        *zone: str,
    ) -> Broker:
        broker = Broker(name, settings, topics, contacts, *zone)
        broker.hold = weak(settings, topics, settings.reserve)
        return broker

    return make


def reading_with(weak: type[HoldBack]) -> Callable[..., Subscriber]:
    """Subscribers with another hold-back."""

    def make(name: str, broker: str, settings: CausalSettings, topics: Iterable[str]) -> Subscriber:
        subscriber = Subscriber(name, broker, settings, topics)
        subscriber.hold = weak(settings, topics)
        return subscriber

    return make


class LiteralBroker(Broker):
    """Figure 4, MB2 before MB3: the matrix of an event has its own stamp in it instead of the former one."""

    def __init__(self, name: str, settings: CausalSettings, topics: Iterable[str], *more: Any) -> None:
        super().__init__(name, settings, topics, *more)
        self.hold = LiteralDelOk(settings, topics, settings.reserve)

    def stamp(self, publication: Publication, last: int, context: Past) -> Event:
        event = super().stamp(publication, last, context)
        return msgspec.structs.replace(event, past=event.past | {event.stream: event.stamp})

    def _past_of(self, sent: Sent) -> Past | None:
        return self.bases.read((sent.broker, sent.topic), sent.stamp, sent.matrix)


class _Ticks(HybridClock):
    def next(self, round: int) -> int:
        self.last = stamp_of(round, 1)
        return self.last


class OneStampForATick(Broker):
    """Figure 4, MB1: the clock as it is, so two events of one tick have one stamp."""

    def stamp(self, publication: Publication, last: int, context: Past) -> Event:
        self.clock = _Ticks(self.clock.last)
        return super().stamp(publication, last, context)


class TrustsClocks(Broker):
    """A deadline is one by any clock: nothing is taken off for what clocks may differ."""

    def _publish(self, publication: Publication, last: int, context: Past) -> list[Effect]:
        return super()._publish(publication, last + self.settings.skew, context)


class ForgetsByItsOwnClock(Broker):
    """Leaves out of pasts what nobody with its own clock can deliver; others' clocks are behind."""

    def stamp(self, publication: Publication, last: int, context: Past) -> Event:
        event = super().stamp(publication, last, context)
        past = dict(event.past)
        forget(past, self.settings.oldest(round_of(event.stamp)))
        return msgspec.structs.replace(event, past=past)


class PaperColours(Subscriber):
    """Reads three colours by its own clock."""

    def read(self, news: News) -> Iterable[Event]:
        return read_news(msgspec.structs.replace(news, sent=self.round), PAPER_COLOURS)
