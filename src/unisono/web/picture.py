"""The picture of a running system that a page shows: put together from what nodes tell, told on in parts.

Topics have places 0, 1, 2 and so on, by rank, as long as the layout stays. A page is told the whole picture once and
whenever the layout changes, and in between only what has changed since it was told last.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from unisono.model.places import Place
from unisono.runtime.remote.telling import BUSES_MAX, FORGET_S, BusTelling, NodeTelling
from unisono.runtime.remote.wire import Beat
from unisono.web.figures import Latencies, Tally
from unisono.web.happenings import Happenings

if TYPE_CHECKING:
    from unisono.engines.takeover.control import Control

UNKNOWN = -1  # the number of a topic that nobody has told yet
RATE_S = 1.0  # over which rates are taken
SILENT_S = 1.5  # a node that gave no sign of life for so long is shown as silent
SUBSCRIPTIONS_MAX = 300  # rows that a page is told of
EDGES_MAX = 2000  # overlaps of one group that a page is told of
SHOWN = ("held", "tagged", "dropped", "voided", "lost", "repaired", "rejected", "takeovers", "delivered")


class Picture:
    """What is known of a system now."""

    def __init__(self) -> None:
        self.control: Control | None = None
        self.durability = ""
        self.trouble = "not connected yet"  # why nothing is known; "" if all is well
        self.happenings = Happenings()
        self.layout = 0  # counts up with every change of the topics
        self.version = 0  # counts up with every look
        self.topics: tuple[str, ...] = ()
        self._place: dict[str, int] = {}
        self._numbers: list[int] = []
        self._rates: list[float] = []
        self._changed: list[int] = []  # the version with which each topic changed last
        self._subscribers: dict[str, int] = {}
        self._past: deque[tuple[float, list[int]]] = deque()
        self._nodes: dict[str, NodeTelling] = {}
        self._named: dict[str, tuple[int, tuple[str, ...]]] = {}  # node -> its layout, and the topics in it
        self._beats: dict[str, tuple[float, Beat]] = {}
        self._answered: dict[str, float] = {}
        self._silent: set[str] = set()
        self._tally, self._latencies = Tally(), Latencies()
        self._behind: dict[tuple[str, str], int] = {}
        self._places: list[Place] = []
        self._buses: dict[str, tuple[float, BusTelling]] = {}

    # What is heard.

    def see(self, control: Control, at: float) -> None:
        """The control record, again or anew."""
        before = self.control
        if before is not None and control.version == before.version:
            return
        self.happenings.control(before, control, at)
        self.control = control
        self.layout += 1
        if control.plan.rank != self.topics:
            known = dict(zip(self.topics, zip(self._numbers, self._rates, strict=True), strict=True))
            self.topics = control.plan.rank
            self._place = {topic: i for i, topic in enumerate(self.topics)}
            self._numbers = [known.get(topic, (UNKNOWN, 0.0))[0] for topic in self.topics]
            self._rates = [known.get(topic, (UNKNOWN, 0.0))[1] for topic in self.topics]
            self._changed = [self.version] * len(self.topics)
            self._past.clear()
        self._nodes = {n: told for n, told in self._nodes.items() if n in control.live}

    def beat(self, beat: Beat, now: float, at: float) -> None:
        """A node gave a sign of life."""
        before = self._beats.get(beat.node)
        if self.control is not None and beat.node not in self.control.nodes and len(self._beats) > 1000:
            return
        self._beats[beat.node] = (now, beat)
        if beat.node in self._silent:
            self._silent.discard(beat.node)
            self.happenings.note(at, "well", f"{beat.node} is heard again")
        was, is_now = "" if before is None else before[1].trouble, beat.trouble
        if is_now and is_now != was:
            self.happenings.note(at, "trouble", f"{beat.node} says: {is_now[:200]}")
        elif was and not is_now:
            self.happenings.note(at, "well", f"{beat.node} stores again")

    def hear(self, telling: NodeTelling, now: float) -> bool:
        """What a node tells; False if it was brief and the topics it means are not known."""
        node = telling.node
        self._answered[node] = now
        if telling.topics:
            self._named[node] = (telling.layout, tuple(t.topic for t in telling.topics))
            self._subscribers.update({t.topic: t.subscribers for t in telling.topics})
            numbers: list[tuple[str, int]] = [(t.topic, t.number) for t in telling.topics]
        else:
            layout, names = self._named.get(node, (-1, ()))
            if layout != telling.layout or len(names) != len(telling.numbers):
                self._note_counts(telling, now)
                return not telling.numbers
            numbers = list(zip(names, telling.numbers, strict=True))
        self._note_counts(telling, now)  # before the numbers: what buses tell is older than they are
        owner = {} if self.control is None else self.control.owner
        for topic, number in numbers:
            place = self._place.get(topic)
            if place is not None and owner.get(topic) == node and number > self._numbers[place]:
                self._numbers[place] = number
                self._changed[place] = self.version + 1
        return True

    def _note_counts(self, telling: NodeTelling, now: float) -> None:
        self._nodes[telling.node] = telling
        self._tally.add(f"node {telling.node}", telling.counts)
        self._latencies.add(f"node {telling.node}", telling.phases, now)
        for bus in telling.buses:
            self._note_bus(bus, now)
        if len(self._behind) > 10 * SUBSCRIPTIONS_MAX:
            self._behind.clear()

    def _note_bus(self, bus: BusTelling, now: float) -> None:
        """What a bus told; nodes tell it again and again, and one that led before may tell what is old."""
        known = self._buses.get(bus.bus)
        if known is not None and bus.told_at <= known[1].told_at:
            self._buses[bus.bus] = (max(now, known[0]), known[1])
            return
        if known is None and len(self._buses) >= BUSES_MAX:
            return
        self._buses[bus.bus] = (now, bus)
        self._tally.add(f"bus {bus.bus}", bus.counts)
        self._latencies.add(f"bus {bus.bus}", bus.phases, now)
        for told in bus.subscriptions:
            self._behind[bus.bus, told.name] = self._lag(told.clock)

    def _lag(self, clock: dict[str, int]) -> int:
        """How many events of its topics somebody with this clock has not come to."""
        places = ((self._place.get(topic), number) for topic, number in clock.items())
        return sum(max(0, self._numbers[place] - n) for place, n in places if place is not None)

    def keep_places(self, places: list[Place]) -> None:
        """The durable subscribers' places."""
        self._places = places[:SUBSCRIPTIONS_MAX]

    def forget_numbers(self) -> None:
        """Nobody has asked for a while: what comes next is no measure of how fast it goes."""
        self._numbers = [UNKNOWN] * len(self.topics)
        self._rates = [0.0] * len(self.topics)
        self._changed = [self.version + 1] * len(self.topics)
        self._past.clear()

    # What is told.

    def look(self, now: float, at: float) -> None:
        """A moment has passed: take rates, and see who is silent."""
        self.version += 1
        self._past.append((now, self._numbers.copy()))
        while len(self._past) > 2 and self._past[1][0] <= now - RATE_S:
            self._past.popleft()
        then, before = self._past[0]
        if now > then:
            for i, (number, earlier) in enumerate(zip(self._numbers, before, strict=True)):
                rate = 0.0 if earlier == UNKNOWN else (number - earlier) / (now - then)
                if rate != self._rates[i]:
                    if round(rate) != round(self._rates[i]):
                        self._changed[i] = self.version
                    self._rates[i] = rate
        for late in [bus for bus, (heard_at, _) in self._buses.items() if now - heard_at > FORGET_S]:
            del self._buses[late]
        for node in () if self.control is None else self.control.live:
            heard = self._beats.get(node)
            if heard is not None and now - heard[0] > SILENT_S and node not in self._silent:
                self._silent.add(node)
                self.happenings.note(at, "trouble", f"{node} gives no sign of life")

    def whole(self) -> dict[str, Any]:
        """What holds as long as the layout stays."""
        control = self.control
        if control is None:
            return {"layout": self.layout, "trouble": self.trouble, "topics": [], "groups": [], "epoch": None}
        groups = self._groups(control)
        group_of = {topic: i for i, group in enumerate(groups) for topic in group}
        return {
            "layout": self.layout,
            "trouble": self.trouble,
            "epoch": control.epoch,
            "state": control.state,
            "sequencer": control.sequencer,
            "durability": self.durability,
            "began_at": control.began_at,
            "topics": [
                {
                    "topic": topic,
                    "owner": control.owner.get(topic, ""),
                    "with": len(control.plan.group[topic]) - 1,
                    "group": group_of[topic],
                    "closed": topic in control.closed,
                }
                for topic in self.topics
            ],
            "groups": [
                {
                    "size": len(group),
                    "first": group[0],
                    "owners": sorted({control.owner.get(t, "") for t in group}),
                }
                for group in groups
            ],
        }

    def tick(self, seen: int, now: float) -> dict[str, Any]:
        """What has changed since the version that somebody has seen."""
        if self.trouble:
            return {"version": self.version, "layout": self.layout, "trouble": self.trouble}
        changed = [
            (i, max(0, self._numbers[i]), round(self._rates[i], 1), self._subscribers.get(self.topics[i], 0))
            for i, version in enumerate(self._changed)
            if version > seen
        ]
        return {
            "version": self.version,
            "layout": self.layout,
            "trouble": "",
            "topics": changed,
            "rate": round(sum(self._rates), 1),
            "events": sum(number for number in self._numbers if number != UNKNOWN),
            "counts": {name: self._tally.totals[name] for name in SHOWN},
            "phases": self._latencies.quantiles(now),
            "nodes": self._node_rows(now),
            **self._subscription_rows(),
        }

    def overlaps(self, group: int) -> dict[str, Any] | None:
        """Which topics of a group are ordered with which, and the forest their events climb."""
        control = self.control
        groups = [] if control is None else self._groups(control)
        if control is None or not 0 <= group < len(groups):
            return None
        mine = groups[group]
        place = {topic: i for i, topic in enumerate(mine)}
        edges = [
            (place[topic], place[other])
            for topic in mine
            for other in sorted(control.plan.group[topic])
            if place[topic] < place.get(other, -1)
        ]
        parents = [place.get(control.plan.parent[topic] or "", -1) for topic in mine]
        return {
            "group": group,
            "topics": [{"topic": t, "owner": control.owner.get(t, "")} for t in mine],
            "edges": edges[:EDGES_MAX],
            "overlaps": len(edges),
            "parents": parents,
        }

    def reached(self, topic: str, number: int) -> list[dict[str, Any]]:
        """Who holds a topic, as far as buses tell, and whether it has come to this number of it."""
        return [
            {"bus": bus.bus, "name": told.name, "reached": told.clock[topic] >= number, "on_gap": told.on_gap}
            for _, bus in self._buses.values()
            for told in bus.subscriptions
            if topic in told.clock
        ]

    def _groups(self, control: Control) -> list[list[str]]:
        """Topics that are ordered with each other, directly or not: the largest first, each by rank."""
        left, found = dict.fromkeys(control.plan.rank), []
        while left:
            group: set[str] = set()
            todo = [next(iter(left))]
            while todo:
                topic = todo.pop()
                if topic not in group:
                    group.add(topic)
                    left.pop(topic, None)
                    todo += control.plan.group[topic]
            found.append(sorted(group, key=self._place.__getitem__))
        return sorted(found, key=lambda group: (-len(group), self._place[group[0]]))

    def _node_rows(self, now: float) -> list[dict[str, Any]]:
        control = self.control
        if control is None:
            return []
        owned = list(control.owner.values())
        rows = []
        for node in control.nodes:
            told, heard = self._nodes.get(node), self._beats.get(node)
            counts = {} if told is None else told.counts
            rows.append(
                {
                    "node": node,
                    "state": self._state(node, now),
                    "leader": bool(control.live) and node == control.leader,
                    "topics": owned.count(node),
                    "epoch": None if told is None else told.epoch,
                    "unconfirmed": 0 if told is None else told.unconfirmed,
                    "beat_s": None if heard is None else round(now - heard[0], 2),
                    "speaks": None if heard is None else heard[1].speaks,
                    "sequenced": counts.get("sequenced", 0),
                    "stored": counts.get("stored", 0),
                    "takeovers": counts.get("takeovers", 0),
                }
            )
        return rows

    def _state(self, node: str, now: float) -> str:
        assert self.control is not None
        if node in self.control.dead:
            return "dead"
        if node in self._silent:
            return "silent"
        heard = self._beats.get(node)
        return "trouble" if heard is not None and heard[1].trouble else "alive"

    def _subscription_rows(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = [
            {
                "bus": bus.bus,
                "name": told.name,
                "order": told.order,
                "on_gap": told.on_gap,
                "topics": told.topics,
                "behind": self._behind.get((bus.bus, told.name), 0),
                "waiting": told.waiting,
                "held": told.held,
                "delivered": told.delivered,
                "tagged": told.tagged,
                "dropped": told.dropped,
                "durable": told.durable,
            }
            for _, bus in self._buses.values()
            for told in bus.subscriptions
        ]
        held = {row["name"] for row in rows}
        away = [
            {
                "bus": place.session if place.is_held else "",
                "name": place.name,
                "topics": len(place.clock) or len(place.names),
                "behind": self._lag(place.clock),
                "acknowledged": place.acknowledged,
            }
            for place in self._places
            if not place.is_held and place.name not in held
        ]
        rows.sort(key=lambda row: (-row["behind"], row["bus"], row["name"]))
        return {
            "subscriptions": rows[:SUBSCRIPTIONS_MAX],
            "subscribed": len(rows),
            "buses": len(self._buses),
            "away": away,
        }
