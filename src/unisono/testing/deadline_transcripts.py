"""Golden transcripts of deadline-causal order: commands at the margin, and what happened beneath each.

    settings lifetime=6 skew=0 …           of everybody; a round is a second
    broker A T U                           a broker and its topics
    subscriber S3 B T                      a subscriber, its broker and topics
    A publishes m1 on T for 9              an event that is called m1, with its deadline in so many rounds
    D gets m1                              the network brings it to D: the multicast or the news that was sent there
    round 4                                time passes up to a round; every timer in it

What brokers send each other besides multicasts, and subscribers besides news, is left out: there is no gossip here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import Effect, Heard, Input, Publish, Send
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.frames import Attach, Multicast, News
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import Past, minor_of, round_of
from unisono.engines.deadline_causal.subscriber import Subscriber
from unisono.engines.deadline_causal.wire import read_news
from unisono.engines.inputs import TICK
from unisono.model.frames import Publication
from unisono.testing.transcripts import INDENT, TranscriptError


def replay_deadline_transcript(text: str) -> str:
    """The transcript with what happens now beneath each of its commands."""
    stage, lines = _Stage(), []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            try:
                happened = stage.carry_out(line.split())
            except (TranscriptError, KeyError) as error:
                raise TranscriptError(f"line {number}, '{line}': {error}") from error
            lines += [INDENT + what for what in happened]
    return "\n".join(lines) + "\n"


def write_deadline_transcript(path: Path) -> None:
    """Write what happens now into the file."""
    path.write_text(replay_deadline_transcript(path.read_text()))


class _Stage:
    def __init__(self) -> None:
        self.settings = CausalSettings(round_s=1.0, fanout=1, absent=1000, base_rounds=1000)
        self.brokers: dict[str, tuple[str, ...]] = {}
        self.engines: dict[str, Broker | Subscriber] = {}
        self.on_the_way: dict[tuple[str, str], tuple[str, Multicast | News]] = {}  # to whom, which event
        self.round = 0

    def carry_out(self, words: list[str]) -> list[str]:
        """Carry out one command; return what the engines asked for."""
        match words:
            case ["settings", *options]:
                given = {name: int(value) for name, value in (word.split("=") for word in options)}
                self.settings = msgspec.structs.replace(self.settings, **given)
            case ["broker", name, *topics]:
                self.brokers[name] = tuple(topics)
            case ["subscriber", name, broker, *topics]:
                self._meet()
                self.engines[name] = Subscriber(name, broker, self.settings, topics)
                self._do(broker, Heard(name, Attach(tuple(topics))))
            case [name, "publishes", event, "on", topic, "for", rounds]:
                self._meet()
                publication = Publication(event, 0, 1, topic)
                return self._do(name, Publish(publication, self.round + float(rounds)))
            case [name, "gets", event]:
                source, frame = self.on_the_way[name, event]
                return self._do(name, Heard(source, frame))
            case ["round", number]:
                return self._pass(int(number))
            case _:
                raise TranscriptError("this is no command")
        return []

    def _meet(self) -> None:
        """All brokers are named: make those that are not there yet."""
        for name, topics in self.brokers.items():
            if name not in self.engines:
                others = {other: mine for other, mine in self.brokers.items() if other != name}
                self.engines[name] = Broker(name, self.settings, topics, others)

    def _pass(self, until: int) -> list[str]:
        happened: list[str] = []
        while self.round < until:
            self.round += 1
            for name in self.engines:
                happened += [f"{self.round}: {line}" for line in self._do(name, TICK)]
        return happened

    def _do(self, who: str, input: Input) -> list[str]:
        engine = self.engines[who]
        effects = engine.handle(input, float(self.round))
        engine.check()
        return [f"{who}: {shown}" for effect in effects if (shown := self._show(who, effect))]

    def _show(self, who: str, effect: Effect) -> str:
        match effect:
            case Send(to, Multicast() as frame):
                sent = frame.event
                self.on_the_way[to, sent.publication.publisher] = (who, frame)
                past = {(broker, topic): stamp for broker, topic, stamp in sent.matrix.new}
                event = Event(sent.broker, sent.topic, sent.stamp, sent.last, past, sent.publication)
                return f"multicast to {to}: {_describe(event)}"
            case Send(to, News() as frame):
                lines = []
                for event, coloured in zip(
                    read_news(frame, self.settings.palette), frame.events, strict=True
                ):
                    self.on_the_way.setdefault((to, event.publication.publisher), (who, frame))
                    lines.append(f"{_describe(event)} in colour {coloured.colour}")
                return f"news to {to}: " + "; ".join(lines)
            case Deliver(event):
                return f"deliver {event.publication.publisher}"
            case Discard(event, reason):
                return f"drop {event.publication.publisher}: {reason}"
        return ""


def _describe(event: Event) -> str:
    past = " ".join(f"{broker}.{topic}:{_stamp(s)}" for (broker, topic), s in _sorted(event.past))
    return f"{event.publication.publisher} at {_stamp(event.stamp)} until {event.last}, after {past or 'nothing'}"


def _sorted(past: Past) -> list[tuple[tuple[str, str], int]]:
    return sorted(past.items())


def _stamp(stamp: int) -> str:
    return f"{round_of(stamp)}.{minor_of(stamp)}"
