"""Short hands for engine tests: events, subscribers, and what effects say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.engines.effects import Deliver, DeliverRun, Drop, Effect, Lose
from unisono.engines.inputs import Notified, Received
from unisono.engines.plan import Plan, conflict_graph, rank_line
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import Create, Heartbeat, Publication, Repair, Stamped


def publication(topic: str, n: int = 1, publisher: str = "p") -> Publication:
    return Publication(publisher, 0, n, topic)


def create(topic: str, n: int = 1, publisher: str = "p", acknowledged: int = 0) -> Received:
    return Received(publisher, Create(publication(topic, n, publisher), acknowledged))


def line(*rank: str, holders: int = 2) -> Plan:
    """A rank line on which everybody holds every topic."""
    return rank_line(conflict_graph([set(rank)] * holders), rank=rank)


def event(topic: str, number: int, others: Mapping[str, int] | None = None, epoch: int = 0) -> Stamped:
    """The event `number` of `topic`; its publisher counts like its topic."""
    return Stamped(publication(topic, number, f"p-{topic}"), epoch, {topic: number, **(others or {})})


def subscriber(*topics: str, floors: Mapping[str, int] | None = None, **settings) -> Subscriber:
    return Subscriber("s", floors or dict.fromkeys(topics, 0), SubscriberSettings(**settings))


def hear(engine: Subscriber, *events: Stamped, now: float = 0.0) -> list[Effect]:
    """Notify of these events, one after the other; check the invariants after each."""
    effects: list[Effect] = []
    for one in events:
        effects += engine.handle(Notified(one), now)
        engine.check()
    return effects


def beat(topic: str, newest: int) -> Notified:
    return Notified(Heartbeat(topic, 0, newest))


def repair(topic: str, *events: Stamped, gone: Iterable[int] = (), newest: int = 0) -> Received:
    return Received("m", Repair(topic, events, tuple(gone), newest))


def told(effects: Iterable[Effect]) -> list[str]:
    """What the application is told: T1#3, T1#4 tagged, T1#5 dropped, T1#6 lost."""
    lines: list[str] = []
    for effect in effects:
        match effect:
            case Deliver(events, in_order):
                lines += [f"{e.topic}#{e.number}{'' if in_order else ' tagged'}" for e in events]
            case DeliverRun(run, places):
                chosen = range(len(run)) if places is None else places
                stamped = [run.stamped(place) for place in chosen]
                lines += [f"{e.topic}#{e.number}" for e in stamped]
            case Drop(e, _):
                lines.append(f"{e.topic}#{e.number} dropped")
            case Lose(topic, numbers):
                lines += [f"{topic}#{number} lost" for number in numbers]
    return lines
