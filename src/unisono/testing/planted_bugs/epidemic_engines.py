"""Dispatchers with one rule broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from unisono.engines.epidemic.cache import Cache
from unisono.engines.epidemic.covering import Covering
from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.inputs import Deliver, Effect, Lose
from unisono.engines.epidemic.known import Known
from unisono.engines.epidemic.links import Link
from unisono.engines.epidemic.messages import Entry, Event, Interests
from unisono.engines.epidemic.patterns import Key
from unisono.engines.epidemic.recovery import Recovery
from unisono.engines.epidemic.streams import Stream, Streams
from unisono.engines.epidemic.table import Table
from unisono.engines.epidemic.tracing import Tracing
from unisono.model.ids import EventId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


class _TakesTwice(Known):
    def add(self, id: EventId, published_at: float, now: float) -> bool:
        super().add(id, published_at, now)
        return True


class TakesTwice(Dispatcher):
    """What is known is taken again."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.known.__class__ = _TakesTwice


class DeliversAll(Dispatcher):
    """Whatever comes by is delivered to every client."""

    def _deliver(self, event: Event, keys: set[Key] | list[Key], now: float) -> list[Effect]:
        clients = {client for clients in self.table.local.values() for client in clients}
        return [Deliver(tuple(sorted(clients)), event)] if clients else []


class _TellsThePast(Table):
    def clients(self, keys: Iterable[Key], published_at: float) -> tuple[str, ...]:
        return super().clients(keys, float("inf"))


class TellsThePast(Dispatcher):
    """Who subscribes is delivered what was published before."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.table.__class__ = _TellsThePast


class _KeepsAll(Cache):
    def _victim(self) -> EventId:
        return EventId("", 0, 0)

    def _forget(self, id: EventId) -> None:
        pass


class KeepsAll(Dispatcher):
    """No event is let go."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cache.__class__ = _KeepsAll


class _MissesAll(Streams):
    def _give_up(self, missed: list[tuple[Stream, int]]) -> list[Lose]:
        return []


class MissesAll(Dispatcher):
    """What is missing is asked for without end."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.streams.__class__ = _MissesAll


class _MakesUp(Cache):
    def get(self, id: EventId, now: float) -> Event | None:
        event = super().get(id, now)
        return None if event is None else msgspec.structs.replace(event, payload=b"")


class MakesUp(Dispatcher):
    """Repairs come without their payload."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cache.__class__ = _MakesUp


class _Silent(Recovery):
    def start_round(self, now: float) -> list[Effect]:
        return []


class NeverGossips(Dispatcher):
    """Rounds begin with nothing."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.recovery.__class__ = _Silent


class LivesAsBefore(Dispatcher):
    """A restarted dispatcher takes its former incarnation, and counts from the beginning."""

    def __init__(self, name: str, incarnation: int, *args: Any) -> None:
        super().__init__(name, 1, *args)


class _TellsOnce(Link):
    def outgoing(self, now: float) -> Interests | None:
        interests = super().outgoing(now)
        self.resend_at = None
        return interests


class TellsOnce(Dispatcher):
    """Subscriptions that are lost on the way are not told again."""

    def handle(self, *args: Any) -> list[Effect]:
        effects = super().handle(*args)
        for link in self.table.links.values():
            link.__class__ = _TellsOnce
        return effects


class _CoversTheWrongWay(Covering):
    def _note(self, below: Key, above: Key, *, is_equal: bool) -> None:
        super()._note(above, below, is_equal=is_equal)


class CoversTheWrongWay(Dispatcher):
    """The narrower subscription is passed on, and the wider one is not."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.table.covering is not None:
            self.table.covering.__class__ = _CoversTheWrongWay


class _NeverForgotten(Link):
    def is_forgotten(self, interests: Interests) -> bool:
        return False


class TrustsTheOldSession(Dispatcher):
    """A neighbour in a new life is not told again what is wanted of it."""

    def handle(self, *args: Any) -> list[Effect]:
        effects = super().handle(*args)
        for link in self.table.links.values():
            link.__class__ = _NeverForgotten
        return effects


class _TellsWhatIsHere(Tracing):
    def _recent(self, fresh: Collection[Key], within_s: float, now: float) -> Iterator[Entry]:
        return (entry for entry in super()._recent(fresh, within_s, now) if entry[0] == self.name)


class KeepsHearsayToItself(Dispatcher):
    """A new neighbour is told of events that are here, not of those that we were only told of."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tracing.__class__ = _TellsWhatIsHere
