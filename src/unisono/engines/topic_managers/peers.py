"""Other subscribers, asked before an event is declared lost: a layer around a subscriber, which knows nothing of it.

A node that no longer has a number says that it is gone. Stamped events have dense names, (topic, number), so the gap
is the question: it is put to whoever listens to the topic, and whoever still has the event in its cache tells it to
all. Who heard it told keeps silent. What nobody tells within `wait_s` is gone. Rules:

- Nothing is taken of a peer that was not asked for; what it tells is judged like a repair of a node.
- A cache holds what came here last, delivered or held: at most so many events, and bytes.
- Questions and answers are bounded: numbers in a question, questions at a time, bytes in an answer, answers a second.

Not promised: that a peer tells the truth. Whoever may publish where peers ask can answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from zlib import crc32

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import Announce, Effect
from unisono.engines.inputs import TICK, Input, Notified, Received, Tick
from unisono.model.bundles import StampedBundle
from unisono.model.frames import PeerAsk, PeerTell, Repair, Run, Stamped
from unisono.model.runs import run_of

EVENT_BYTES = 200  # of an event beside its payload, about


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds."""

    cache_events: int = 4096
    cache_bytes: int = 8 * 1024 * 1024
    wait_s: float = 0.6  # after which what nobody tells is gone
    asks: int = 3  # times a question is put in this time: it may get lost as well
    numbers_max: int = 256  # in a question
    asking_max: int = 65536  # numbers that are asked for at a time; what is more is gone
    answer_s: float = 0.05  # within which peers answer, each at a time of its own
    answer_gap_s: float = 0.02  # between two answers
    answer_bytes: int = 128 * 1024
    answers_max: int = 1024  # numbers that are to be told; of more nothing is noted


DEFAULT = PeerSettings()


class Cache:
    """The events that came last, by topic and number."""

    def __init__(self, settings: PeerSettings) -> None:
        self.settings = settings
        self.events: dict[tuple[str, int], Stamped] = {}
        self.bytes = 0

    def keep(self, events: Iterable[Stamped]) -> None:
        """Keep these; the oldest have to go."""
        s = self.settings
        for event in events:
            key = event.topic, event.entries.get(event.topic, 0)
            if key not in self.events:
                self.events[key] = event
                self.bytes += _size(event)
        while self.events and (len(self.events) > s.cache_events or self.bytes > s.cache_bytes):
            self.bytes -= _size(self.events.pop(next(iter(self.events))))

    def copy(self) -> Cache:
        """An independent twin."""
        twin = Cache(self.settings)
        twin.events, twin.bytes = dict(self.events), self.bytes
        return twin


class Asked(msgspec.Struct):
    """A number that is asked for."""

    gone_at: float
    ask_at: float


class Peers:
    """A subscriber that asks its peers, and answers them."""

    def __init__(self, name: str, inner: Engine, settings: PeerSettings = DEFAULT) -> None:
        self.name = name
        self.inner = inner
        self.settings = settings
        self.cache = Cache(settings)
        self.asked: dict[tuple[str, int], Asked] = {}
        self.to_tell: dict[tuple[str, int], float] = {}  # and when
        self.answer_from = 0.0  # no answer before
        self.found = 0  # numbers that a peer had

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Notified(PeerAsk() as ask):
                self._note(ask, now)
                return []
            case Notified(PeerTell() as told):
                return self._hear(told, now)
            case Received(source, Repair(topic, _, gone) as repair) if gone:
                left = self.ask(topic, gone, now)
                repair = msgspec.structs.replace(repair, gone=left)
                return self._inner(Received(source, repair), now) + self._put_questions(now)
            case Tick():
                return self._tick(now)
            case _:
                return self._inner(input, now)

    def keep(self, event: Stamped) -> None:
        """An event that the subscriber took without us."""
        self.cache.keep((event,))

    def next_timer(self) -> float | None:
        """When something is to be asked, told or given up, or the subscriber wants to be called."""
        times = [min(one.gone_at, one.ask_at) for one in self.asked.values()]
        if self.to_tell:
            times.append(max(self.answer_from, min(self.to_tell.values())))
        inner = self.inner.next_timer()
        return min([*times, inner]) if inner is not None else min(times, default=None)

    def _tick(self, now: float) -> list[Effect]:
        effects = self._give_up(now) + self._put_questions(now) + self._answer(now)
        due = self.inner.next_timer()
        return effects + self._inner(TICK, now) if due is not None and due <= now else effects

    def _inner(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Notified(Stamped() as event):
                self.cache.keep((event,))
            case Notified(Run() as run):
                self.cache.keep(map(run.stamped, range(len(run))))
            case Notified(StampedBundle() as piece):
                self.cache.keep(run_of(piece).events())
            case Received(_, Repair(_, events)):
                self.cache.keep(events)
        return self.inner.handle(input, now)

    # Asking. `ask` is separate, so that a planted bug can break it.

    def ask(self, topic: str, gone: tuple[int, ...], now: float) -> tuple[int, ...]:
        """Peers may have numbers that no node has; returns those that are too many to be asked for."""
        left = []
        for number in gone:
            if (topic, number) in self.asked:
                continue
            if len(self.asked) < self.settings.asking_max:
                self.asked[topic, number] = Asked(now + self.settings.wait_s, now)
            else:
                left.append(number)
        return tuple(left)

    def _put_questions(self, now: float) -> list[Effect]:
        due: dict[str, list[int]] = {}
        for (topic, number), one in self.asked.items():
            if one.ask_at <= now and len(due.get(topic, ())) < self.settings.numbers_max:
                due.setdefault(topic, []).append(number)
                one.ask_at = now + self.settings.wait_s / self.settings.asks
        return [
            Announce((topic,), PeerAsk(topic, self.name, tuple(sorted(numbers))))
            for topic, numbers in sorted(due.items())
        ]

    def _give_up(self, now: float) -> list[Effect]:
        """What nobody told in time is gone."""
        gone: dict[str, list[int]] = {}
        for (topic, number), one in list(self.asked.items()):
            if one.gone_at <= now:
                del self.asked[topic, number]
                gone.setdefault(topic, []).append(number)
        effects: list[Effect] = []
        for topic, numbers in sorted(gone.items()):
            effects += self._inner(Received(self.name, Repair(topic, (), tuple(sorted(numbers)), 0)), now)
        return effects

    def _hear(self, told: PeerTell, now: float) -> list[Effect]:
        wanted = []
        for event in told.events:
            key = event.topic, event.entries.get(event.topic, 0)
            self.to_tell.pop(key, None)
            if event.topic == told.topic and self.is_wanted(key):
                self.asked.pop(key, None)
                wanted.append(event)
        if not wanted:
            return []
        self.found += len(wanted)
        return self._inner(Received(self.name, Repair(told.topic, tuple(wanted), (), 0)), now)

    def is_wanted(self, key: tuple[str, int]) -> bool:
        """Whether a number was asked for."""
        return key in self.asked

    # Answering.

    def _note(self, ask: PeerAsk, now: float) -> None:
        if ask.subscriber == self.name:
            return
        # Each peer at a time of its own, the same one every time: most hear another's answer before they give theirs.
        share = crc32(f"{self.name} {ask.topic} {ask.numbers[:1]}".encode()) / 2**32
        at = now + share * self.settings.answer_s
        for number in ask.numbers[: self.settings.numbers_max]:
            key = ask.topic, number
            if key in self.cache.events and len(self.to_tell) < self.settings.answers_max:
                self.to_tell.setdefault(key, at)

    def _answer(self, now: float) -> list[Effect]:
        if not self.to_tell or now < max(self.answer_from, min(self.to_tell.values())):
            return []
        topic = next(topic for (topic, _), at in self.to_tell.items() if at <= now)
        events: list[Stamped] = []
        size = 0
        for key, at in list(self.to_tell.items()):
            if key[0] != topic or at > now:
                continue
            event = self.cache.events.get(key)
            if event is not None and events and size + _size(event) > self.settings.answer_bytes:
                break
            del self.to_tell[key]
            if event is not None:
                events.append(event)
                size += _size(event)
        self.answer_from = now + self.settings.answer_gap_s
        return [Announce((topic,), PeerTell(topic, tuple(events)))] if events else []

    # For the explorer and the simulator.

    def check(self) -> None:
        """Everything is within its bounds."""
        s = self.settings
        assert len(self.cache.events) <= s.cache_events
        assert self.cache.bytes == sum(map(_size, self.cache.events.values())) <= s.cache_bytes
        assert len(self.asked) <= s.asking_max
        assert len(self.to_tell) <= s.answers_max
        self.inner.check()

    def copy(self) -> Peers:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.inner, twin.cache, twin.to_tell = self.inner.copy(), self.cache.copy(), dict(self.to_tell)
        twin.asked = {key: Asked(one.gone_at, one.ask_at) for key, one in self.asked.items()}
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        asked = tuple((key, one.gone_at, one.ask_at) for key, one in sorted(self.asked.items()))
        return (
            tuple(self.cache.events),
            asked,
            tuple(self.to_tell.items()),
            self.answer_from,
            self.inner.state(),
        )


def _size(event: Stamped) -> int:
    return EVENT_BYTES + len(event.publication.body)
