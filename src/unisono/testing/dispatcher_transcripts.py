"""Transcripts of dispatchers, for `unisono.testing.transcripts`. The commands:

dispatcher a b c [algorithm=push] [covering=false] …    they take part, with these settings; the first command
link a b                                                neighbours from now on; `cut a b`: no longer
a subscribes x > 1                                      a client of a; `a unsubscribes x > 1`
a publishes x=2 y=3                                     an event with these attributes
b hears a                                               the next message of a to b; `b misses a`: it is lost
everybody hears                                         messages travel until none is left
time 0.5                                                and every timer up to then; what is sent then arrives at once
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import msgspec

from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic import messages as ms
from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.engines.epidemic.numbers import unpack
from unisono.engines.epidemic.patterns import Key
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.engines.filters import parse
from unisono.model.errors import UnisonoError

SHOWN_MAX = 64  # numbers of a digest


class DispatcherStage:
    """The dispatchers of one transcript, and what is on its way between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.dispatchers: dict[str, Dispatcher] = {}
        self.ways: dict[tuple[str, str], deque[ms.Message]] = {}
        self.texts: dict[Key, str] = {}

    def carry_out(self, words: list[str]) -> list[str]:
        """Carry out one command; return what the dispatchers asked for."""
        match words:
            case ["dispatcher", *rest]:
                self._begin(rest)
                return []
            case ["link", a, b]:
                return self._give(a, io.LinkAdded(b)) + self._give(b, io.LinkAdded(a))
            case ["cut", a, b]:
                return self._give(a, io.LinkRemoved(b)) + self._give(b, io.LinkRemoved(a))
            case [name, "subscribes", *pattern]:
                self._learn(" ".join(pattern))
                return self._give(name, io.Subscribe("client", " ".join(pattern)))
            case [name, "unsubscribes", *pattern]:
                return self._give(name, io.Unsubscribe("client", " ".join(pattern)))
            case [name, "publishes", *attributes]:
                values: dict[str, Any] = {k: int(v) for k, v in (word.split("=") for word in attributes)}
                return self._give(name, io.PublishEvent(values))
            case [name, "misses", source]:
                return [f"{name}: never hears {self._show(self._next(source, name))}"]
            case ["everybody", "hears"]:
                return self._settle()
            case [name, "hears", source]:
                return self._give(name, io.Heard(source, self._next(source, name)))
            case ["time", seconds]:
                return self._wait(float(seconds))
            case _:
                raise UnisonoError("this is no command")

    def _begin(self, words: list[str]) -> None:
        options = dict(word.split("=", 1) for word in words if "=" in word)
        settings = msgspec.convert({"jitter": "0"} | options, DispatcherSettings, strict=False)
        for name in (word for word in words if "=" not in word):
            self.dispatchers[name] = Dispatcher(name, 1, Random(name), parse, settings)

    def _learn(self, text: str) -> None:
        pattern = parse(text)
        self.texts[pattern.hash] = pattern.text

    def _give(self, name: str, input: io.Input) -> list[str]:
        dispatcher = self.dispatchers[name]
        effects = dispatcher.handle(input, self.now)
        dispatcher.check()
        for effect in effects:
            if isinstance(effect, io.Send):
                self.ways.setdefault((name, effect.to), deque()).append(effect.message)
        return [f"{name}: {self._show_effect(effect)}" for effect in effects]

    def _next(self, source: str, to: str) -> ms.Message:
        way = self.ways.get((source, to))
        if not way:
            raise UnisonoError(f"nothing is on its way from {source} to {to}")
        return way.popleft()

    def _settle(self) -> list[str]:
        happened: list[str] = []
        while busy := [route for route, way in self.ways.items() if way]:
            for source, to in busy:
                happened += self._give(to, io.Heard(source, self._next(source, to)))
        return happened

    def _wait(self, until: float) -> list[str]:
        happened: list[str] = []
        while True:
            timers = [(at, n) for n, d in self.dispatchers.items() if (at := d.next_timer()) is not None]
            at, name = min(timers, default=(until + 1, ""))
            if at > until:
                break
            self.now = max(self.now, at)
            happened += [f"{self.now:.3f} {line}" for line in self._give(name, io.TICK) + self._settle()]
        self.now = until
        return happened

    def _show_effect(self, effect: io.Effect) -> str:
        match effect:
            case io.Send(to, message):
                return f"send {to}: {self._show(message)}"
            case io.Deliver(clients, event):
                return f"deliver {self._name(event)} to {' '.join(clients)}"
            case io.Lose(source, incarnation, pattern, numbers):
                return f"lose {source}:{incarnation}:{self.texts[pattern]} {' '.join(map(str, numbers))}"
            case io.Reject(error):
                return f"reject: {error}"

    def _show(self, message: ms.Message) -> str:
        match message:
            case ms.Event():
                return f"event {self._name(message)} by {' '.join(message.route)}, step {message.step}"
            case ms.Interests(_, first, changes):
                shown = (
                    ("want " if is_wanted else "no more ") + text if text else "begin"
                    for is_wanted, text, _ in changes
                )
                return f"interests from {first}: {', '.join(shown)}"
            case ms.Noted(_, up_to):
                return f"noted up to {up_to}"
            case ms.Steps(_, last):
                return f"steps up to {last}"
            case ms.Missed(_, steps):
                return f"missed steps {_numbers(steps)}"
            case ms.Echo(_, entries):
                return "echo " + ", ".join(
                    f"step {step} was {e[1]}/{e[2]}/{e[3]}, held by {e[0]}" for step, e in entries
                )
            case ms.Push(initiator, pattern, ids):
                return f"push of {initiator} for {self.texts[pattern]}: {_ids(ids)}"
            case ms.Request(ids):
                return f"request {_ids(ids)}"
            case ms.SubscriberPull(initiator, pattern, wanted):
                return f"pull of {initiator} for {self.texts[pattern]}: {_ids(wanted)}"
            case ms.PublisherPull(initiator, source, incarnation, wanted, route):
                shown = (f"{self.texts[key]} {_numbers(packed)}" for key, packed in wanted)
                return f"pull of {initiator} from {source}/{incarnation}: {', '.join(shown)}; then {' '.join(route) or '-'}"
            case ms.Watermark(source, incarnation, numbers):
                return f"watermark {source}/{incarnation}: " + ", ".join(
                    f"{self.texts[k]} {n}" for k, n in numbers.items()
                )
            case ms.Repair(event):
                return f"repair {self._name(event)}"

    def _name(self, event: ms.Event) -> str:
        numbers = ":".join(f"({self.texts[key]})-{number}" for key, number in event.numbers.items())
        return f"{event.id} {event.source}:{event.incarnation}:{numbers}"


def _numbers(packed: tuple[int, ...]) -> str:
    return " ".join(map(str, unpack(packed, SHOWN_MAX)))


def _ids(ids: ms.Ids) -> str:
    return ", ".join(f"{source}/{incarnation} {_numbers(packed)}" for source, incarnation, packed in ids)
