"""Random lives of subscriptions: opened, changed and closed while events flow; and what the judges say."""

import asyncio
import itertools

from bus_kit import healed, until
from hypothesis import strategies as st

import unisono
from unisono.history import History, Outcome, judge

TOPICS = ("a", "b", "p.x", "p.y")
NAMES = ("a", "b", "p.x", "p.*")
SUBSCRIBERS = ("s1", "s2", "s3")
ALWAYS = ("no_creation", "no_duplication")
services = itertools.count()

_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
_who = st.sampled_from(SUBSCRIBERS)
_step = st.one_of(
    *[st.tuples(st.just("publish"), st.sampled_from(("p1", "p2")), st.sampled_from(TOPICS))] * 4,
    *[st.tuples(st.just("add"), _who, st.sampled_from(NAMES))] * 2,
    *[st.tuples(st.just("remove"), _who, st.sampled_from(NAMES))] * 2,
    st.tuples(st.just("take"), _who, st.integers(1, 4)),
    st.tuples(st.just("close"), _who, st.none()),
    st.tuples(st.just("subscribe"), _who, _names),
    st.tuples(st.just("pause"), st.just(""), st.sampled_from((0, 0.001, 0.003))),
)
_first = st.tuples(*(st.tuples(st.just("subscribe"), st.just(who), _names) for who in SUBSCRIBERS))
scripts = st.builds(lambda first, steps: [*first, *steps], _first, st.lists(_step, min_size=8, max_size=30))


class Play:
    """A service, two publishers, three subscribers who come and go, and the history of it all."""

    def __init__(self, url, options):
        self.options = options
        self.records = []
        name = f"memory://script{next(services)}{url.removeprefix('memory://')}"
        self.buses = {n: unisono.connect(name, name=n, record=self.records) for n in ("p1", "p2")}
        self.open = {}
        self.lives = itertools.count()

    async def run(self, script):
        """Play the steps, let everything arrive that is owed, and return the history."""
        for bus in self.buses.values():
            await bus.__aenter__()
        try:
            for step, who, what in script:
                await getattr(self, step)(who, what)
            await self.settle()
            for who in list(self.open):
                await self.take(who, None)
            return list(self.records)
        finally:
            for bus in self.buses.values():
                await bus.close()

    async def publish(self, who, topic):
        self.buses[who].publish_nowait(topic, 0)

    async def subscribe(self, who, topics):
        if who not in self.open:
            options = self.options.get(who, self.options)
            events = self.buses["p1"].subscribe(*topics, name=f"{who}.{next(self.lives)}", **options)
            await events.open()
            self.open[who] = events

    async def add(self, who, topic):
        events = self.open.get(who)
        if events is not None and topic not in events.asked:
            await events.add(topic)

    async def remove(self, who, topic):
        events = self.open.get(who)
        if events is not None and topic in events.asked and len(events.asked) > 1:
            await events.remove(topic)

    async def take(self, who, count):
        events = self.open.get(who)
        while events is not None and events.waiting and count != 0:
            await events.get_one(timeout=1)
            count = None if count is None else count - 1

    async def close(self, who, _):
        events = self.open.pop(who, None)
        if events is not None:
            await events.close()

    async def pause(self, _, seconds):
        await asyncio.sleep(seconds)

    async def settle(self):
        for bus in self.buses.values():
            await bus.flush()
            await bus._service.flush()
        await until(self._is_settled)
        for events in self.open.values():
            if events._engine is not None:
                events._engine.check()
        self.buses["p1"]._hub.managers.check()

    def _is_settled(self):
        """Nothing is on its way that is owed, also by those who do not wait for it."""
        managers = self.buses["p1"]._hub.managers
        return all(
            passed.floor >= managers.newest(topic)
            for events in self.open.values()
            if events.options.is_total and events._error is None
            for topic, passed in events._engine.passed.items()
        )


def assert_kept(records, *promises):
    """None of the promises was broken."""
    for verdict in judge(History(healed(records)), promises):
        assert verdict.outcome is not Outcome.VIOLATED, f"{verdict.promise}: {verdict.explanation}"
