"""Deadline-causal order explored: datagrams in every order, lost and doubled, while rounds pass between any two.

`BrokersScenario`: a few brokers multicast to each other, and nobody mends what is lost. `NewsScenario`: one
subscriber is brought events in colours, in every order, each in any round from its own on, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.colours import Palette
from unisono.engines.deadline_causal.effects import Accept, Effect, Heard, Input, Publish, Send
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.frames import Multicast, Read
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.engines.deadline_causal.predicates import precedes
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import round_of
from unisono.engines.deadline_causal.subscriber import Subscriber
from unisono.engines.deadline_causal.wire import write_news
from unisono.engines.inputs import TICK
from unisono.model.frames import Publication
from unisono.sim.deadline.judging import ACCOUNT, CAUSES, DEADLINE, DROPS, ONCE, judge_story
from unisono.sim.deadline.story import Diary, Line, Story
from unisono.sim.explore.explorer import Explored
from unisono.sim.explore.search import STATES_MAX, Search, Step
from unisono.sim.explore.story import Finding

PROMISES = (DEADLINE, CAUSES, DROPS, ONCE, ACCOUNT)
SETTINGS = CausalSettings(round_s=1.0, lifetime=6, skew=0, reserve=0, fanout=0, absent=1000, base_rounds=1000)
LATE_IN_A_ROUND = 0.9  # what happens in a round may happen at its end


@dataclass(frozen=True, slots=True)
class Caused:
    """An event: a broker publishes it, at once or when it was handed another; it lives for some rounds."""

    name: str
    broker: str
    topic: str
    lives: int
    after: str = ""


@dataclass(frozen=True)
class BrokersScenario:
    """Brokers and their topics, what is published, how many rounds pass, and how much harm is done."""

    brokers: tuple[tuple[str, str], ...]  # name, topics
    events: tuple[Caused, ...]
    rounds: int = 4
    losses: int = 0
    doubles: int = 0
    ahead: tuple[str, ...] = ()  # brokers whose clocks are ahead by a round
    settings: CausalSettings = SETTINGS
    make_broker: Callable[..., Broker] = Broker
    promises: tuple[str, ...] = PROMISES
    invariants: bool = True

    def but(self, **changes: Any) -> BrokersScenario:
        """The same with some things changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class NewsScenario:
    """Events that are brought to one subscriber."""

    events: tuple[Event, ...]
    topics: tuple[str, ...]
    rounds: int = 6
    settings: CausalSettings = SETTINGS
    palette: Palette | None = None  # in which events are written; None: as the settings say
    make_subscriber: Callable[..., Subscriber] = Subscriber
    promises: tuple[str, ...] = PROMISES
    invariants: bool = True

    def but(self, **changes: Any) -> NewsScenario:
        """The same with some things changed."""
        return replace(self, **changes)


DeadlineScenario = BrokersScenario | NewsScenario


class _World:
    """What both kinds have in common: engines that are copied before they are touched, and a log."""

    scenario: Any
    engines: dict[str, Any]
    log: tuple[tuple[str, str, str, int, int, str], ...]  # who, what, event, true round, own round, reason
    round: int
    broken: str

    def _twin(self) -> Any:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.engines = dict(self.engines)
        return twin

    def is_overdue(self) -> bool:
        """Whether nothing can be of use any more; what waits then waits for ever."""
        latest: int = self.scenario.rounds + 2 * self.scenario.settings.lifetime
        return self.round > latest

    def _logs(self) -> Hashable:
        return tuple(sorted((name, tuple(x[1:] for x in self.log if x[0] == name)) for name in self.engines))

    def _handle(self, who: str, input: Input, now: float) -> list[Effect]:
        engine = self.engines[who] = self.engines[who].copy()
        effects: list[Effect] = engine.handle(input, now)
        if self.scenario.invariants:
            try:
                engine.check()
            except AssertionError as error:
                self.broken = f"{who}: {error}"
        for effect in effects:
            match effect:
                case Deliver(event):
                    self._note(who, "delivered", event.publication.publisher, engine.round)
                case Discard(event, reason):
                    self._note(who, "discarded", event.publication.publisher, engine.round, reason)
        return effects

    def _note(self, who: str, what: str, event: str, own: int, reason: str = "") -> None:
        self.log += ((who, what, event, self.round, own, reason),)

    def _judge(self, story: Story) -> list[tuple[str, str]]:
        found = [("invariants", self.broken)] if self.broken else []
        return found + [x for x in judge_story(story) if x[0] in self.scenario.promises]


class BrokersWorld(_World):
    """Brokers, and what is on its way between them."""

    def __init__(self, scenario: BrokersScenario) -> None:
        self.scenario = scenario
        topics = {name: mine.split() for name, mine in scenario.brokers}
        self.engines = {
            name: scenario.make_broker(
                name, scenario.settings, mine, {other: t for other, t in topics.items() if other != name}
            )
            for name, mine in topics.items()
        }
        self.bag: tuple[tuple[str, str, Multicast], ...] = ()
        self.planned = scenario.events
        self.log = ()
        self.round = 0
        self.losses, self.doubles = scenario.losses, scenario.doubles
        self.broken = ""

    def key(self) -> Hashable:
        """Everything that decides what can happen, and what is judged."""
        bag = tuple(sorted((to, frame.event.publication.publisher) for _, to, frame in self.bag))
        states = tuple(engine.state() for engine in self.engines.values())
        return (states, bag, self.planned, self.round, self.losses, self.doubles, self._logs(), self.broken)

    def steps(self) -> list[Step]:
        """An event is published; a datagram arrives, is lost or arrives twice; a round ends."""
        if self.broken:
            return []
        told = {(who, event) for who, what, event, *_ in self.log if what == "delivered"}
        steps: list[Step] = [
            ("publish", e.name) for e in self.planned if not e.after or (e.broker, e.after) in told
        ]
        for source, to, frame in self.bag:
            step = (frame.event.publication.publisher, to, source)
            steps.append(("arrive", *step))
            steps += [("lose", *step)] if self.losses else []
            steps += [("double", *step)] if self.doubles else []
        if steps and self.round < self.scenario.rounds:
            steps.append(("round",))
        return steps

    def after(self, step: Step) -> BrokersWorld:
        """The world after a step."""
        twin: BrokersWorld = self._twin()
        match step:
            case ("publish", name):
                twin._publish(next(e for e in self.planned if e.name == name))
            case ("round",):
                twin._pass()
            case (what, event, to, source):
                place = next(
                    i
                    for i, (s, t, frame) in enumerate(self.bag)
                    if (s, t, frame.event.publication.publisher) == (source, to, event)
                )
                frame = self.bag[place][2]
                if what != "double":
                    twin.bag = self.bag[:place] + self.bag[place + 1 :]
                twin.losses -= what == "lose"
                twin.doubles -= what == "double"
                if what != "lose":
                    twin._note(to, "arrived", event, max(twin.engines[to].round, int(twin._now(to))))
                    twin._do(to, Heard(source, frame))
        return twin

    def _now(self, who: str) -> float:
        return float(self.round + (who in self.scenario.ahead))

    def _publish(self, event: Caused) -> None:
        self.planned = tuple(e for e in self.planned if e is not event)
        self._note(event.broker, "published", event.name, self.round)
        publication = Publication(event.name, 0, 1, event.topic)
        self._do(event.broker, Publish(publication, self._now(event.broker) + event.lives))

    def _pass(self) -> None:
        self.round += 1
        for name in self.engines:
            self._do(name, TICK)

    def _do(self, who: str, input: Input) -> None:
        before = len(self.log)
        effects = self._handle(who, input, self._now(who))
        for effect in effects:
            match effect:
                case Send(to, Multicast() as frame):
                    self.bag += ((who, to, frame),)
                case Send(to, Read() as frame):
                    self._do(to, Heard(who, frame))
                case Accept(id):
                    kept = [
                        e for e in self.engines[who].cache.values() if e.publication.publisher == id.publisher
                    ]
                    told = [
                        e.frame.event
                        for e in effects
                        if isinstance(e, Send) and isinstance(e.frame, Multicast)
                    ]
                    last = [*kept, *told][
                        0
                    ].last  # two of one stamp (a planted bug): one is kept, both are told
                    stamped = (who, "stamped", id.publisher, self.round, last, "")
                    arrived = (who, "arrived", id.publisher, self.round, self.engines[who].round, "")
                    self.log = (*self.log[:before], stamped, arrived, *self.log[before:])

    def judge(self) -> list[tuple[str, str]]:
        """What was broken, once every deadline is over."""
        world: BrokersWorld = self._twin()
        while any(engine.hold.pending for engine in world.engines.values()) and not world.is_overdue():
            world._pass()
        story = Story()
        story.diaries = {name: Diary(name, self.scenario.settings.reserve) for name in self.engines}
        planned = {e.name: e for e in self.scenario.events}
        for who, what, event, at, own, reason in world.log:
            if what == "published":
                story.published(who, event, planned[event].topic, at, at + planned[event].lives)
            elif what == "stamped":
                story.stamped(who, event, own)
            elif what == "delivered":
                story.delivered(who, event, at + LATE_IN_A_ROUND, own)
            else:
                story.diaries[who].lines.append(Line(what, event, at, own, reason))
        return world._judge(story)


class NewsWorld(_World):
    """One subscriber, and what may still come."""

    def __init__(self, scenario: NewsScenario) -> None:
        self.scenario = scenario
        self.engines = {"s": scenario.make_subscriber("s", "b", scenario.settings, scenario.topics)}
        self.left = frozenset(range(len(scenario.events)))
        self.log = ()
        self.round = 0
        self.is_over = False
        self.broken = ""
        self._handle("s", TICK, 0.0)

    def key(self) -> Hashable:
        """Everything that decides what can happen, and what is judged."""
        return (self.engines["s"].state(), self.left, self.round, self._logs(), self.is_over, self.broken)

    def steps(self) -> list[Step]:
        """What was sent by now arrives, or a round ends; in the last, nothing more may come."""
        if self.is_over or self.broken:
            return []
        events, skew = self.scenario.events, self.scenario.settings.skew
        steps: list[Step] = [
            ("arrive", str(i)) for i in sorted(self.left) if round_of(events[i].stamp) <= self.round + skew
        ]
        return [*steps, ("round",) if self.round < self.scenario.rounds else ("rest",)]

    def after(self, step: Step) -> NewsWorld:
        """The world after a step."""
        twin: NewsWorld = self._twin()
        match step:
            case ("round",):
                twin.round += 1
                twin._handle("s", TICK, float(twin.round))
            case ("rest",):
                twin.is_over = True
            case (_, place):
                twin.left = self.left - {int(place)}
                event = self.scenario.events[int(place)]
                palette = self.scenario.palette or self.scenario.settings.palette
                news = write_news([event], palette, round_of(event.stamp), 0)
                twin._note("s", "arrived", event.publication.publisher, twin.round)
                twin._handle("s", Heard("b", news), float(twin.round))
        return twin

    def judge(self) -> list[tuple[str, str]]:
        """What was broken, once every deadline is over."""
        world: NewsWorld = self._twin()
        while world.engines["s"].hold.pending and not world.is_overdue():
            world.round += 1
            world._handle("s", TICK, float(world.round))
        story = Story()
        story.diaries = {"s": Diary("s", 0), "b": Diary("b", 0)}
        for event in self.scenario.events:
            name, skew = event.publication.publisher, self.scenario.settings.skew
            story.published("b", name, event.topic, 0.0, event.last + 1.0 + skew)
            story.events[name].last = event.last
            story.events[name].causes = {
                other.publication.publisher for other in self.scenario.events if precedes(other, event)
            }
        for who, what, id, at, own, reason in world.log:
            story.diaries[who].lines.append(Line(what, id, at + LATE_IN_A_ROUND, own, reason))
        return world._judge(story)


def explore_deadline(scenario: DeadlineScenario, states_max: int = STATES_MAX) -> Explored:
    """Every end of a world of deadline-causal order, judged."""
    if isinstance(scenario, BrokersScenario):
        return _explore(BrokersWorld(scenario), states_max)
    return _explore(NewsWorld(scenario), states_max)


def _explore(start: Any, states_max: int) -> Explored:
    search: Search[Any] = Search(start, states_max)
    found: dict[str, Finding] = {}
    ends = 0
    for end in search.ends():
        ends += 1
        for promise, explanation in end.judge():
            if promise not in found:
                found[promise] = Finding(promise, explanation, search.trace(end))
    return Explored(search.states, ends, tuple(found.values()))
