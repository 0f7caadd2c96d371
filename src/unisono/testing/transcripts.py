"""Golden transcripts: small exchanges as text, with everything the engines ask for beneath each line.

A transcript is a script and its own expected output. Lines at the margin are commands; the indented lines
beneath are what happened. Replaying runs the commands again and compares. The commands:

    plan T1 T2 T3 [stamps=upward] [mode=return] [ring_events=2] …   managers on a rank line, top first
    subscriber si T1 T2 [on_gap=tag] [buffer=2] …                   one subscriber, and what it asks for
    publisher p [causal=true]
    start                                                           the managers learn who shares what
    p publishes T1 T2                                               two events, one after the other
    X hears Y                                                       the next message of the link from Y to X
    X hears all                                                     every message on its way to X, link by link
    everybody hears                                                 messages travel until none is left
    si is notified T1#2                                             the event service brings it
    si is told T1                                                   the newest heartbeat of T1
    time 0.5                                                        and every timer up to then, in order

Those of dispatchers are in `unisono.testing.dispatcher_transcripts`.

`python -m unisono.testing.transcripts --write FILES` writes what happened into the files.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from unisono.engines import effects as fx
from unisono.engines.contract import Engine
from unisono.engines.inputs import TICK, Input, Notified, Publish, Received
from unisono.engines.plan import Plan, conflict_graph, rank_line
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.errors import UnisonoError
from unisono.model.frames import Heartbeat, Message, Notification, Publication, Stamped
from unisono.sim.notation import show_effect
from unisono.testing.dispatcher_transcripts import DispatcherStage

INDENT = "    "


class TranscriptError(UnisonoError, ValueError):
    """A transcript has a line that cannot be carried out."""


def replay_transcript(text: str) -> str:
    """The transcript with what happens now beneath each of its commands."""
    stage, lines = _stage(text), []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            try:
                happened = stage.carry_out(line.split())
            except (UnisonoError, KeyError, msgspec.ValidationError) as error:
                raise TranscriptError(f"line {number}, '{line}': {error}") from error
            lines += [INDENT + what for what in happened]
    return "\n".join(lines) + "\n"


def _stage(text: str) -> _Stage | DispatcherStage:
    """Dispatchers have commands of their own."""
    is_of_dispatchers = any(line.startswith("dispatcher ") for line in text.splitlines())
    return DispatcherStage() if is_of_dispatchers else _Stage()


def write_transcript(path: Path) -> bool:
    """Write what happens now into the file; return whether that changed it."""
    before = path.read_text()
    after = replay_transcript(before)
    path.write_text(after)
    return after != before


class _Stage:
    """The engines of one transcript, and what is on its way between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rank: list[str] = []
        self.managers = ManagerSettings()
        self.held: list[frozenset[str]] = []
        self.engines: dict[str, Engine] = {}
        self.links: dict[tuple[str, str], deque[Message]] = {}
        self.notifications: dict[str, Notification] = {}
        self.published: dict[str, int] = {}
        self.plan: Plan | None = None
        self.waiting: list[Callable[[Plan], None]] = []  # subscribers, until the plan is known

    def carry_out(self, words: list[str]) -> list[str]:
        """Carry out one command; return what the engines asked for."""
        match words:
            case ["plan", *rest]:
                self.rank, options = _split(rest)
                self.managers = msgspec.convert(options, ManagerSettings, strict=False)
            case ["subscriber", name, *rest]:
                self._subscriber(name, *_split(rest))
            case ["publisher", name, *options]:
                self.engines[name] = Publisher(causal=options == ["causal=true"])
            case ["start"]:
                return self._start()
            case [name, "publishes", *topics]:
                return self._step(name, Publish([self._publication(name, topic) for topic in topics]))
            case [name, "hears", "all"]:
                return self._hear_all(name)
            case [name, "hears", source]:
                return self._hear(source, name)
            case ["everybody", "hears"]:
                return self._hear_everything()
            case [name, "is", "notified", *events]:
                return [x for e in events for x in self._step(name, Notified(self.notifications[e]))]
            case [name, "is", "told", topic]:
                return self._step(name, Notified(self.notifications[f"heartbeat {topic}"]))
            case ["time", seconds]:
                return self._wait(float(seconds))
            case _:
                raise TranscriptError("this is no command")
        return []

    def _subscriber(self, name: str, topics: list[str], options: dict[str, str]) -> None:
        settings = msgspec.convert(options, SubscriberSettings, strict=False)
        self.held.append(frozenset(topics))

        def join(plan: Plan) -> None:
            self.engines[name] = Subscriber(
                name,
                dict.fromkeys(topics, 0),
                settings,
                emitter=lambda topic: manager_address(plan.emitter(topic)),
            )

        self.waiting.append(join)

    def _start(self) -> list[str]:
        self.plan = rank_line(conflict_graph(self.held, self.rank), rank=self.rank)
        for topic in self.rank:
            self.engines[manager_address(topic)] = TopicManager(topic, self.plan, self.managers)
        for join in self.waiting:
            join(self.plan)
        return [f"path of {topic}: {' '.join(self.plan.path(topic))}" for topic in self.rank]

    def _publication(self, publisher: str, topic: str) -> Publication:
        n = self.published[publisher] = self.published.get(publisher, 0) + 1
        return Publication(publisher, 0, n, topic)

    def _step(self, name: str, input: Input) -> list[str]:
        engine = self.engines[name]
        effects = engine.handle(input, self.now)
        engine.check()
        for effect in effects:
            match effect:
                case fx.Send(to, message):
                    self.links.setdefault((name, to), deque()).append(message)
                case fx.Announce(_, Stamped() as event):
                    self.notifications[f"{event.topic}#{event.number}"] = event
                case fx.Announce(_, Heartbeat() as heartbeat):
                    self.notifications[f"heartbeat {heartbeat.topic}"] = heartbeat
        return [f"{name}: {show_effect(effect)}" for effect in effects]

    def _hear(self, source: str, to: str) -> list[str]:
        link = self.links.get((source, to))
        if not link:
            raise TranscriptError(f"nothing is on its way from {source} to {to}")
        return self._step(to, Received(source, link.popleft()))

    def _hear_all(self, name: str) -> list[str]:
        happened: list[str] = []
        for source, to in list(self.links):
            while to == name and self.links[source, to]:
                happened += self._hear(source, to)
        return happened

    def _hear_everything(self) -> list[str]:
        happened: list[str] = []
        while busy := [route for route, link in self.links.items() if link]:
            for source, to in busy:
                happened += self._hear(source, to)
        return happened

    def _wait(self, until: float) -> list[str]:
        happened: list[str] = []
        while True:
            timers = [(due, name) for name, e in self.engines.items() if (due := e.next_timer()) is not None]
            due, name = min(timers, default=(until + 1, ""))
            if due > until:
                break
            self.now = max(self.now, due)
            happened += [f"{self.now:.3f} {line}" for line in self._step(name, TICK)]
        self.now = until
        return happened


def _split(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return [word for word in words if "=" not in word], options


def _main(arguments: list[str]) -> int:
    if len(arguments) < 2 or arguments[0] != "--write":
        print("usage: python -m unisono.testing.transcripts --write FILES", file=sys.stderr)
        return 2
    for name in arguments[1:]:
        print(f"{name}: {'changed' if write_transcript(Path(name)) else 'as it was'}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
