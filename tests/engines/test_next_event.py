"""An event that has nothing in its way is numbered with few calls: the same comes of it as of the usual way."""

from random import Random

import pytest
from bundle_kit import serving

from unisono.engines.effects import Append
from unisono.engines.inputs import Appended, Received
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.node import ManagerNode
from unisono.model.bundles import Bundle
from unisono.model.frames import Create, Prepare, Publication, Routed
from unisono.model.runs import bundle_of


class Usual(ManagerNode):
    """Takes every event the usual way."""

    def _take_next(self, source, topic, create, now):
        return None


class Counting(ManagerNode):
    """Counts those that were taken the short way."""

    taken = 0

    def _take_next(self, source, topic, create, now):
        effects = super()._take_next(source, topic, create, now)
        self.taken += effects is not None
        return effects


def requests(random):
    """What publishers ask for: mostly the next event, sometimes anything else."""
    sent, made = {"p": 0, "q": 0}, []
    for _ in range(random.randint(1, 25)):
        source = random.choice("pq")
        kind = random.random()
        if kind < 0.75:
            sent[source] += random.choice((1, 1, 1, 2))
        n, topic = sent[source] or 1, random.choice("ABC")
        event = Publication(
            source if kind < 0.95 else "x",
            0,
            n,
            topic if kind < 0.97 else "A",
            bytes(random.choice((0, 5, 90))),
            key=random.choice((None, None, None, "k")),
            headers=random.choice((None, None, None, {"a": "b"})),
        )
        lowest = random.choice((0, 1, max(0, n - 2), n, n + 1))
        after = random.choice((0, 0, max(0, n - 1), n + 5))
        if kind > 0.9 and random.random() < 0.5:
            sent[source] += 3
            events = [Publication(source, 0, n + i, "ABC"[i % 3]) for i in (1, 2, 3)]
            made.append((source, bundle_of(events, n, lowest, {})))
        else:
            made.append((source, Routed(topic, Create(event, lowest, after))))
    return made


@pytest.mark.parametrize("tells_first", [False, True])
@pytest.mark.parametrize("limit", [0, 120])
def test_both_ways_come_to_the_same(tells_first, limit):
    taken = others = 0
    for seed in range(300):
        random, now = Random(seed), 0.0
        settings = NodeSettings(tells_first=tells_first, event_bytes_max=limit)
        short, usual = serving(Counting("N1", settings)), serving(Usual("N1", settings))
        on_the_way = []
        for source, message in requests(random):
            now += 0.01
            if random.random() < 0.03:
                message, source = Prepare(1, "N1"), "N1"
            effects = [one.handle(Received(source, message), now) for one in (short, usual)]
            assert list(map(repr, effects[0])) == list(map(repr, effects[1]))
            others += isinstance(message, Bundle)
            on_the_way += [effect for effect in effects[0] if isinstance(effect, Append)]
            while on_the_way and random.random() < 0.6:
                append = on_the_way.pop(0)
                stored = Appended(append.lane, append.record, append.expected + 1)
                effects = [one.handle(stored, now) for one in (short, usual)]
                assert list(map(repr, effects[0])) == list(map(repr, effects[1]))
                on_the_way += [effect for effect in effects[0] if isinstance(effect, Append)]
            assert short.state() == usual.state()
            short.check()
        taken += short.taken
    assert taken > 200
    assert others > 50
