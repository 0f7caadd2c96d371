"""A simulation of dispatchers that weighs what they say, and sees who sent what past the tree."""

from __future__ import annotations

from collections import Counter

from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.messages import GOSSIP, Message, Repair, SubscriberPull, encode_message
from unisono.engines.epidemic.numbers import unpack
from unisono.engines.epidemic.patterns import Attributes, Index, Key, Pattern
from unisono.model.ids import EventId
from unisono.sim.epidemic.simulation import Arrival, MakeDispatcher, Simulation
from unisono.sim.epidemic.world import EpidemicWorld

WORD = "exists "  # patterns of these worlds are single words


class WeighedSimulation(Simulation):
    """Counts while it is told to; does not take the time to encode and decode every message."""

    def __init__(self, world: EpidemicWorld, make: MakeDispatcher) -> None:
        super().__init__(world, make, make_index=_index)
        self.is_weighing = False
        self.bytes: Counter[str] = Counter()  # by kind of message
        self.messages: Counter[str] = Counter()
        self.gossip: Counter[str] = Counter()  # digests and requests by who sent them
        self.repairs: dict[EventId, Counter[str]] = {}  # by who sent them
        self.recovered: dict[tuple[str, EventId], float] = {}  # what came past the tree, and when
        self.asked: Counter[bool] = Counter()  # numbers, by whether who is asked subscribes to the pattern
        self.answered: Counter[bool] = Counter()

    def weigh(self, is_weighing: bool = True) -> None:
        """Begin or end to count."""
        self.is_weighing = is_weighing

    def _check(self, host: object) -> None:
        """Not here: worlds of the fuzzer do."""

    def send(self, source: str, to: str, message: Message) -> None:
        """Put a message on the network as it is."""
        if self.is_weighing:
            self._weigh(source, message)
        for at in self.network.arrivals(source, to, self.kernel.now):
            self.kernel.schedule(at, Arrival(source, to, message))

    def _weigh(self, source: str, message: Message) -> None:
        kind = type(message).__name__
        self.bytes[kind] += len(encode_message(message))
        self.messages[kind] += 1
        if isinstance(message, Repair):
            self.repairs.setdefault(message.event.id, Counter())[source] += 1
        elif isinstance(message, GOSSIP):
            self.gossip[source] += 1

    def give(self, name: str, input: io.Input) -> list[io.Effect]:
        """Hand an input to a dispatcher, and see what it makes of what came past the tree."""
        effects = super().give(name, input)
        match input:
            case io.Heard(_, Repair()):
                for effect in effects:
                    if isinstance(effect, io.Deliver):
                        self.recovered[name, effect.event.id] = self.kernel.now
            case io.Heard(_, SubscriberPull(_, pattern, wanted)) if self.is_weighing and name in self.hosts:
                dispatcher = self.hosts[name].dispatcher
                is_subscriber = pattern in dispatcher.table.local
                limit = dispatcher.settings.digest_ids_max
                self.asked[is_subscriber] += sum(len(list(unpack(few, limit))) for _, _, few in wanted)
                self.answered[is_subscriber] += sum(
                    isinstance(effect, io.Send) and isinstance(effect.message, Repair) for effect in effects
                )
        return effects


class _WordIndex:
    """Finds patterns of the kind `exists word` by the words of an event."""

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}

    def add(self, pattern: Pattern) -> None:
        self._keys[pattern.text.removeprefix(WORD)] = pattern.hash

    def discard(self, pattern: Pattern) -> None:
        self._keys.pop(pattern.text.removeprefix(WORD), None)

    def matching(self, attributes: Attributes) -> set[Key]:
        keys = self._keys
        return {keys[word] for word in attributes if word in keys}


def _index() -> Index:
    return _WordIndex()
