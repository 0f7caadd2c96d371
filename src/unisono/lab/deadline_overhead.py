"""How many bytes order takes in deadline-causal order: what travels of the matrix, beside the whole of it.

`python -m unisono.lab.deadline_overhead` prints a table. Simulated: everybody publishes at random times, nothing is
lost. The whole matrix is the paper's, a time of 8 bytes for each pair of brokers.
"""

from __future__ import annotations

from random import Random

import msgspec

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.compression import write
from unisono.engines.deadline_causal.effects import Effect, Send
from unisono.engines.deadline_causal.frames import Multicast, News
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.wire import order_bytes
from unisono.sim.deadline.simulation import DeadlineSimulation, Process
from unisono.sim.deadline.world import BrokerSpec, DeadlineWorld, Say, SubscriberSpec
from unisono.sim.network import Conditions

TIME_BYTES = 8
_ENCODER = msgspec.msgpack.Encoder()


class Overhead(msgspec.Struct, frozen=True):
    """Mean bytes for an event: the paper's matrix, a past in whole, what travels; and to subscribers."""

    brokers: int
    groups: int
    events_s: float
    matrix_bytes: float
    past_bytes: float
    sent_bytes: float
    news_bytes: float

    @property
    def news_bytes_per_broker(self) -> float:
        """What a subscriber is sent for the order of an event, for each broker."""
        return self.news_bytes / self.brokers


class _Scales(DeadlineSimulation):
    """Weighs what is sent."""

    def __init__(self, world: DeadlineWorld) -> None:
        super().__init__(world, checks=False)
        self.pasts: list[int] = []
        self.sent: list[int] = []
        self.news: list[int] = []

    def _carry_out(self, who: str, process: Process, effect: Effect) -> None:
        match effect:
            case Send(_, Multicast(event)) if isinstance(process.engine, Broker):
                past = process.engine.cache[event.broker, event.topic, event.stamp].past
                self.pasts.append(len(_ENCODER.encode(write(past))))
                self.sent.append(len(_ENCODER.encode(event.matrix)))
            case Send(_, News(_, _, events)):
                self.news += map(order_bytes, events)
        super()._carry_out(who, process, effect)


def weigh(brokers: int, groups: int, events_s: float, seconds: float = 10.0, seed: int = 1) -> Overhead:
    """Brokers in overlapping groups, each event on one of them."""
    random = Random(f"{seed} {brokers} {groups} {events_s}")
    names = [f"broker-{i + 1}" for i in range(brokers)]
    topics = [f"topic-{i + 1}" for i in range(groups)]
    specs = tuple(
        BrokerSpec(name, tuple(t for j, t in enumerate(topics) if groups == 1 or (i + j) % groups != 0))
        for i, name in enumerate(names)
    )
    said = []
    for _ in range(int(events_s * seconds)):
        spec = random.choice(specs)
        said.append(Say(seconds * random.random(), spec.name, random.choice(spec.topics), 1.0))
    world = DeadlineWorld(
        seed,
        CausalSettings(),
        specs,
        tuple(SubscriberSpec(f"s{i}", spec.name, spec.topics) for i, spec in enumerate(specs)),
        tuple(sorted(said, key=lambda say: say.at)),
        near=Conditions(latency_s=0.001, spread_s=0.002),
        ends_at=seconds + 3,
    )
    scales = _Scales(world)
    scales.run()

    def mean(sizes: list[int]) -> float:
        return round(sum(sizes) / max(1, len(sizes)), 1)

    matrix = float(TIME_BYTES * brokers * brokers)
    return Overhead(
        brokers, groups, events_s, matrix, mean(scales.pasts), mean(scales.sent), mean(scales.news)
    )


def _main() -> None:
    print("brokers  groups  events/s  matrix  past  sent  to subscribers (for each broker)")
    for brokers, groups, events_s in (
        (4, 1, 40),
        (4, 3, 40),
        (8, 1, 40),
        (8, 3, 40),
        (16, 1, 4),
        (16, 1, 40),
    ):
        o = weigh(brokers, groups, events_s)
        print(
            f"{o.brokers:7}  {o.groups:6}  {o.events_s:8.0f}  {o.matrix_bytes:6.0f}  {o.past_bytes:4.0f}  "
            f"{o.sent_bytes:4.0f}  {o.news_bytes:.1f} ({o.news_bytes_per_broker:.1f})"
        )


if __name__ == "__main__":
    _main()
