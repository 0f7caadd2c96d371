"""Links explored: packets lost, doubled and overtaken; messages in order and once each.

Two engines talk to each other over `Links`. The network is a bag: any packet in it may arrive next. After a
bounded number of faults and early timers it does no more harm; then everything must come through.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import Effect, Send
from unisono.engines.inputs import TICK, Input, Publish, Received
from unisono.engines.links import Arrived, Links, Transmit
from unisono.model.frames import Create, Packet, Publication
from unisono.sim.explore.explorer import Explored
from unisono.sim.explore.search import STATES_MAX, Search, Step
from unisono.sim.explore.story import Finding

SETTLE_STEPS_MAX = 400

_ENCODER = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class LinkScenario:
    """How much each side says, and how much harm the network may do."""

    left: int = 2  # messages from left to right
    right: int = 1  # messages from right to left
    losses: int = 1
    doubles: int = 1
    ticks: int = 1  # timers that fire while harm is done
    make_links: Callable[[Engine], Links] = Links


class Talker:
    """Says what it is told to say to its peer, and remembers what it heard."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.heard: tuple[int, ...] = ()

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Publish(publications):
                return [Send(self.peer, Create(publication)) for publication in publications]
            case Received(_, Create(publication)):
                self.heard += (publication.n,)
        return []

    def next_timer(self) -> float | None:
        """It wants nothing by itself."""
        return None

    def check(self) -> None:
        """It has no invariants."""

    def copy(self) -> Talker:
        """An independent twin."""
        twin = Talker(self.peer)
        twin.heard = self.heard
        return twin

    def state(self) -> Hashable:
        """What it heard."""
        return self.heard


class PacketWorld:
    """Two talkers, and the packets between them."""

    def __init__(self, scenario: LinkScenario) -> None:
        self.scenario = scenario
        self.now = 0.0
        self.sides = {
            "left": scenario.make_links(Talker("right")),
            "right": scenario.make_links(Talker("left")),
        }
        self.network: tuple[tuple[str, bytes, Packet], ...] = ()  # to whom, to compare, the packet
        for side, count in (("left", scenario.left), ("right", scenario.right)):
            self._handle(side, Publish([Publication(side, 0, n + 1, "T") for n in range(count)]))

    def key(self) -> Hashable:
        """Both sides, and the packets."""
        packets = sorted((to, raw) for to, raw, _ in self.network)
        sides = tuple(links.state() for links in self.sides.values())
        return (sides, tuple(packets), self.scenario, self.now)

    def steps(self) -> list[Step]:
        """Any packet arrives, is lost or arrives twice; or a timer fires."""
        steps: list[Step] = []
        known: set[tuple[str, bytes]] = set()
        for i, (to, raw, _) in enumerate(self.network):
            if (to, raw) not in known:
                known.add((to, raw))
                steps.append(("arrive", str(i)))
                if self.scenario.losses:
                    steps.append(("lose", str(i)))
                if self.scenario.doubles:
                    steps.append(("double", str(i)))
        if self.scenario.ticks:
            steps += [("tick", side) for side, links in self.sides.items() if links.next_timer() is not None]
        return steps

    def after(self, step: Step) -> PacketWorld:
        """The world after a step."""
        twin = object.__new__(PacketWorld)
        twin.__dict__.update(self.__dict__)
        twin.sides = dict(self.sides)
        scenario = self.scenario
        if step[0] == "tick":
            twin.scenario = replace(scenario, ticks=max(0, scenario.ticks - 1))
            twin.now = max(self.now, self.sides[step[1]].next_timer() or 0.0)
            twin._handle(step[1], TICK)
            return twin
        i = int(step[1])
        to, _, packet = self.network[i]
        if step[0] == "double":
            twin.scenario = replace(scenario, doubles=scenario.doubles - 1)
        else:
            twin.network = self.network[:i] + self.network[i + 1 :]
        if step[0] == "lose":
            twin.scenario = replace(scenario, losses=scenario.losses - 1)
            return twin
        twin._handle(to, Arrived(_peer(to), packet))
        return twin

    def _handle(self, side: str, input: Input | Arrived) -> None:
        links = self.sides[side].copy()
        self.sides[side] = links
        for effect in links.handle(input, self.now):
            if isinstance(effect, Transmit):
                self.network += ((effect.to, _ENCODER.encode(effect.packet), effect.packet),)

    def settled(self) -> PacketWorld:
        """The world once the network does no more harm."""
        world = self
        for _ in range(SETTLE_STEPS_MAX):
            steps: list[Step] = [("arrive", "0")] if world.network else []
            if not steps:
                due = [
                    (t, side) for side, links in world.sides.items() if (t := links.next_timer()) is not None
                ]
                if not due:
                    break
                steps = [("tick", min(due)[1])]
            world = world.after(steps[0])
        return world

    def judge(self) -> Finding | None:
        """Everything said was heard, in order, once."""
        world = self.settled()
        for side, said in (("right", self.scenario.left), ("left", self.scenario.right)):
            talker = world.sides[side].engine
            assert isinstance(talker, Talker)
            expected, heard = tuple(range(1, said + 1)), talker.heard
            if heard != expected[: len(heard)]:
                return Finding("link_order", f"{side} heard {list(heard)}, said was {list(expected)}")
            if heard != expected:
                return Finding("nothing_lost", f"{side} heard {list(heard)} only, said was {list(expected)}")
        return None


def explore_links(scenario: LinkScenario, states_max: int = STATES_MAX) -> Explored:
    """Every way in which packets can travel, judged."""
    search = Search(PacketWorld(scenario), states_max)
    found: dict[str, Finding] = {}
    ends = 0
    for end in search.ends():
        ends += 1
        finding = end.judge()
        if finding is not None and finding.promise not in found:
            found[finding.promise] = msgspec.structs.replace(finding, trace=search.trace(end))
    return Explored(search.states, ends, tuple(found.values()))


def _peer(side: str) -> str:
    return "left" if side == "right" else "right"
