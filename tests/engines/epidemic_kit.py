"""A few dispatchers on a table: every message is seen, and can be dropped on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from unisono.engines.epidemic import Dispatcher, DispatcherSettings
from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.messages import Event, Message, decode_message, encode_message
from unisono.engines.filters import parse


class Net:
    """Dispatchers, the links between them, and what is on its way."""

    def __init__(self, *links: str, **settings: object) -> None:
        self.now = 0.0
        self.settings = DispatcherSettings(**({"jitter": 0.0} | settings))
        self.dispatchers: dict[str, Dispatcher] = {}
        self.way: deque[tuple[str, str, Message]] = deque()
        self.sent: list[tuple[str, str, Message]] = []
        self.delivered: list[tuple[str, str, Event]] = []
        self.other: list[io.Effect] = []
        self.drop: Callable[[str, str, Message], bool] = lambda source, to, message: False
        for link in links:
            self.link(*link.split("-"))
        self.settle()

    def __getitem__(self, name: str) -> Dispatcher:
        if name not in self.dispatchers:
            self.begin(name)
        return self.dispatchers[name]

    def begin(self, name: str, life: int = 1) -> None:
        self.dispatchers[name] = Dispatcher(name, life, Random(f"{name} {life}"), parse, self.settings)

    def link(self, a: str, b: str) -> None:
        self.give(a, io.LinkAdded(b))
        self.give(b, io.LinkAdded(a))

    def cut(self, a: str, b: str) -> None:
        self.give(a, io.LinkRemoved(b))
        self.give(b, io.LinkRemoved(a))

    def subscribe(self, name: str, *patterns: str, client: str = "c") -> None:
        for pattern in patterns:
            self.give(name, io.Subscribe(client, pattern))
        self.settle()

    def unsubscribe(self, name: str, pattern: str, client: str = "c") -> None:
        self.give(name, io.Unsubscribe(client, pattern))
        self.settle()

    def publish(self, name: str, settle: bool = True, **attributes: object) -> None:
        self.give(name, io.PublishEvent(attributes, b"payload"))
        if settle:
            self.settle()

    def give(self, name: str, input: io.Input) -> list[io.Effect]:
        dispatcher = self[name]
        effects = dispatcher.handle(input, self.now)
        dispatcher.check()
        for effect in effects:
            match effect:
                case io.Send(to, message):
                    self.sent.append((name, to, message))
                    if not self.drop(name, to, message):
                        self.way.append((name, to, decode_message(encode_message(message))))
                case io.Deliver(clients, event):
                    self.delivered += [(name, client, event) for client in clients]
                case _:
                    self.other.append(effect)
        return effects

    def settle(self) -> None:
        """Let everything arrive that is on its way."""
        while self.way:
            source, to, message = self.way.popleft()
            if to in self.dispatchers:
                self.give(to, io.Heard(source, message))

    def wait(self, seconds: float) -> None:
        """Let time pass, with all timers in order."""
        end = self.now + seconds
        while True:
            timers = [
                (at, name) for name, d in self.dispatchers.items() if (at := d.next_timer()) is not None
            ]
            at, name = min(timers, default=(end + 1, ""))
            if at > end:
                break
            self.now = max(self.now, at)
            self.give(name, io.TICK)
            self.settle()
        self.now = end

    def wanted(self, name: str, neighbour: str) -> set[str]:
        """The patterns that a neighbour leads to."""
        return {pattern.text for pattern in self[name].table.links[neighbour].wanted.values()}

    def got(self, name: str) -> list[int]:
        """The `x` of what was delivered at a dispatcher."""
        return [event.attributes["x"] for at, _, event in self.delivered if at == name]

    def count(self, kind: type[Message]) -> int:
        """Messages of a kind that were sent so far."""
        return sum(isinstance(message, kind) for _, _, message in self.sent)
