"""A few brokers and subscribers with a perfect network between them, or one that loses what it is told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import Effect, Heard, Input, Publish, Send
from unisono.engines.deadline_causal.frames import Frame
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.subscriber import Subscriber
from unisono.engines.inputs import TICK
from unisono.model.frames import Publication

SETTINGS = CausalSettings(round_s=1.0, lifetime=20, skew=0, reserve=0, base_rounds=2)


class Room:
    """Engines that talk to each other at once."""

    def __init__(self, engines: Mapping[str, Broker | Subscriber]) -> None:
        self.engines = dict(engines)
        self.now = 0.0
        self.loses: Callable[[str, str, Frame], bool] = lambda source, to, frame: False
        self.sent: list[tuple[str, str, Frame]] = []
        self.told: dict[str, list[str]] = {name: [] for name in engines}
        self.other: list[Effect] = []
        self.counts: dict[str, int] = {}

    def do(self, who: str, input: Input) -> list[Effect]:
        """Hand in an input, and carry everything it leads to."""
        effects = self.engines[who].handle(input, self.now)
        self.engines[who].check()
        for effect in effects:
            match effect:
                case Send(to, frame):
                    self.sent.append((who, to, frame))
                    if to in self.engines and not self.loses(who, to, frame):
                        self.do(to, Heard(who, frame))
                case Deliver(event):
                    self.told[who].append(str(event.publication.body.decode()))
                case Discard(event, reason):
                    self.told[who].append(f"{event.publication.body.decode()} {reason}")
                case _:
                    self.other.append(effect)
        return effects

    def say(self, who: str, topic: str, text: str, lives: float = 15.0) -> list[Effect]:
        """Somebody publishes."""
        n = self.counts[who] = self.counts.get(who, 0) + 1
        publication = Publication(who, 0, n, topic, text.encode())
        return self.do(who, Publish(publication, self.now + lives))

    def wait(self, rounds: int = 1) -> None:
        """Time passes, round by round."""
        for _ in range(rounds):
            self.now += 1.0
            for name in list(self.engines):
                self.do(name, TICK)

    def frames(self, kind: type) -> list[tuple[str, str, Frame]]:
        """What was sent of one kind."""
        return [x for x in self.sent if isinstance(x[2], kind)]


def brokers(names: str, topics: str = "T", settings: CausalSettings = SETTINGS) -> dict[str, Broker]:
    """Brokers that all have the same topics and know each other."""
    return {
        name: Broker(
            name, settings, topics.split(), {other: topics.split() for other in names if other != name}
        )
        for name in names
    }
