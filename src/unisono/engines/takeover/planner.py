"""Planned epochs: gathers what others ask for, lets what is under way finish, then decides.

Only the leader plans; requests that reach another node are passed on to it. Requests of an epoch that is over
are stale and dropped: whoever still wants a change asks again. Should a node not answer, the leader decides
without it: a decided epoch needs nobody's consent, it only costs the numbers that were under way.

Registrations only grow within an epoch. The leader knows from reports, and from leases that ran out, how many of
them say more than is true; when it is a large enough share, it plans an epoch that starts without them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from unisono.engines.effects import Decide, Effect, Send
from unisono.engines.takeover.control import VIEW, Control, Intent, next_plan
from unisono.engines.takeover.patterns import matching
from unisono.engines.takeover.placing import place, relieve, valid_moves
from unisono.engines.takeover.requests import Requests, over
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.spreading import spread
from unisono.model.frames import ANY_EPOCH, Prepare, Refused, Registration, Replan, Report


class Planner:
    """The planning part of one node."""

    def __init__(self, node: str, settings: NodeSettings) -> None:
        self.node = node
        self.settings = settings
        self.requests = Requests(settings)
        self.waiting: set[str] | None = None  # nodes that have not prepared; None: no change is under way
        self.decide_at: float | None = None
        self.reports: dict[str, tuple[Registration, float]] = {}  # and when the lease runs out
        self.dropped: dict[str, tuple[str, ...]] = {}  # what holders of patterns still hold, if that is less
        self.registered: dict[str, Registration] = {}  # what is known to have been held in this epoch
        self.forget: tuple[str, ...] = ()  # lanes that nobody need read any more
        self.sweep_at = 0.0  # when to look next whether too much of that is no longer true
        self.stale = 0  # requests dropped because their epoch was over
        self.planned = 0
        self.events: Mapping[str, int] = {}  # what was published on each topic lately, where work is spread
        self.wall_s = 0.0  # what to add to the time of inputs to get the time of day; 0.0: nobody knows

    def request(
        self, replan: Replan, control: Control, now: float, source: str = "", *, trusted: bool = True
    ) -> list[Effect]:
        """Somebody wants a change; a node says for whom it asks, everybody else asks for itself."""
        if not trusted or not replan.asks:
            replan = msgspec.structs.replace(replan, asks=source)
        any_epoch = trusted and replan.epoch == ANY_EPOCH
        if (replan.epoch != control.epoch and not any_epoch) or control.state != "active":
            self.stale += 1
            return []
        if control.leader != self.node:
            return [Send(control.leader, replan)]
        # What a node passes on, it passes on for somebody who may be nobody.
        known = not replan.asks or replan.asks in control.nodes
        due, refused = self.requests.take(replan, control, now, trusted=trusted and known)
        told: list[Effect] = [Send(replan.asks, refused)] if refused is not None and replan.asks else []
        return told + (self._prepare(control, now) if due else [])

    def report(self, report: Report, control: Control | None, now: float) -> None:
        """A subscriber is alive and says what it holds."""
        held = report.registration
        known = self.reports.get(held.subscriber)
        if known is None and len(self.reports) >= self.settings.subscribers_max:
            return
        if known is not None and known[0].version > held.version:
            return
        counted = None if control is None else control.patterns.get(held.subscriber)
        if (
            counted is None and report.patterns and not held.topics
        ):  # they do not count yet: what it held does
            before = self.registered.get(held.subscriber, held)
            held = msgspec.structs.replace(before, version=held.version)
        self.reports[held.subscriber] = (held, now + self.settings.lease_s)
        self._note_held(held)
        if counted is not None and counted.version <= held.version:
            if set(counted.topics) <= set(report.patterns):
                self.dropped.pop(held.subscriber, None)
            else:
                self.dropped[held.subscriber] = tuple(x for x in counted.topics if x in report.patterns)

    def _note_held(self, registration: Registration) -> None:
        """Within an epoch what was held stays registered."""
        name, topics = registration.subscriber, set(registration.topics)
        if (held := self.registered.get(name)) is not None:
            topics |= set(held.topics)
        if topics:
            self.registered[name] = Registration(name, registration.version, tuple(sorted(topics)))

    def _prepare(self, control: Control, now: float) -> list[Effect]:
        if self.waiting is not None:
            return []
        self.waiting = set(control.lanes)
        self.decide_at = now + self.settings.prepare_s
        prepare = Prepare(control.epoch + 1, self.node)
        return [Send(node, prepare) for node in sorted(self.waiting)]

    def prepared(self, node: str, epoch: int, control: Control, now: float) -> list[Effect]:
        """A node has nothing under way any more."""
        if self.waiting is None or epoch != control.epoch + 1:
            return []
        self.waiting.discard(node)
        return [] if self.waiting else self._decide(control, now)

    def tick(self, control: Control, now: float) -> list[Effect]:
        """Decide without those that do not answer; plan an epoch without those that are gone."""
        if self.decide_at is not None and self.decide_at <= now:
            return self._decide(control, now)
        if self.sweep_at <= now and control.leader == self.node and (self.registered or control.patterns):
            self.sweep_at = now + self.settings.lease_s / 4
            untrue = sum(self._is_untrue(held, control, now) for held in self.registered.values())
            untrue += sum(
                self._is_dropped(name, now) for name in control.patterns.keys() - self.registered.keys()
            )
            counted = len(self.registered.keys() | control.patterns.keys())
            if untrue >= max(1, self.settings.stale_share * counted):
                return self._prepare(control, now) if control.state == "active" else []
        return []

    def _is_untrue(self, held: Registration, control: Control, now: float) -> bool:
        """Whether a subscriber holds less than it is registered for; what its patterns stand for, it will hold."""
        name = held.subscriber
        report, lease = self.reports.get(name, (held, now))
        if lease <= now or name in self.dropped:
            return True
        return {*report.topics, *control.matched(name)} < set(held.topics)

    def _is_dropped(self, name: str, now: float) -> bool:
        """Whether somebody who holds nothing but patterns is gone, or holds fewer of them."""
        return name in self.dropped or (name in self.reports and self.reports[name][1] <= now)

    def _decide(self, control: Control, now: float) -> list[Effect]:
        asked, settings = self.requests, self.settings
        self.waiting = self.decide_at = None
        if control.state != "active":
            return []
        # A rank asked for orders the topics it names; others, made meanwhile perhaps, come after them.
        rank = tuple(t for t in dict.fromkeys((*asked.rank, *control.plan.rank)) if t in control.plan.parent)
        new = tuple(topic for topic in asked.topics if topic not in control.owner)
        patterns, gone, told = self._patterns(control, (*rank, *new), now)
        live = [n for n in sorted({*control.live, *asked.alive}) if n not in asked.leaving]
        leaving = tuple(asked.leaving) if live else ()
        live = live or list(control.live)
        views = {name: v for name, v in control.views.items() if name not in asked.drop_views} | asked.views
        counted = replace(control, patterns=patterns, views=views)
        together = [*asked.wants, *(held.topics for held in self.registered.values())]
        intent = Intent(settings.plan, (*rank, *new), tuple(asked.wants), self._held(now), gone)
        if control.sequencer == "atoms":
            moves = self._spread(counted, intent, live)
            moves |= valid_moves(asked.moves, control, live)
        else:
            moves = relieve(control, live, settings.component_topics_max)
            moves |= valid_moves(asked.moves, control, live)
            moves |= place(counted, new, together, live, settings.component_topics_max)
        self.planned += 1
        sealing = control.sealing(
            self.node,
            intent,
            alive=asked.alive,
            moves=moves,
            leaving=leaving,
            patterns=patterns,
            views=views,
            close=asked.close,
            forget=self.forget,
            at=self._time_of_day(now),
        )
        return [*told, Decide(sealing)]

    def _spread(self, control: Control, intent: Intent, live: Sequence[str]) -> dict[str, str]:
        """The owners that suit the plan to come, as far as we can tell: joins under way may still change it."""
        known, renamed = set(intent.rank), msgspec.structs.replace
        held = [renamed(h, topics=tuple(known.intersection(h.topics))) for h in self.registered.values()]
        held += [renamed(h, topics=tuple(matching(h.topics, intent.rank))) for h in control.holders()]
        plan = next_plan(intent, held, 1, control.epoch + 1)
        return spread(plan, control.owner, live, self.events)

    def _time_of_day(self, now: float) -> float:
        return now + self.wall_s if self.wall_s else 0.0

    def force(self, control: Control, now: float, *, dead: Iterable[str] = ()) -> Control:
        """The record of a forced epoch: as now, less the nodes that are gone, plus what is wanted on one path.

        Whoever decides is alive, whatever was declared before. It may have been asleep, or have led long ago: that
        it has not heard of a subscriber means nothing, so nobody's lease runs out here.
        """
        patterns, gone, _ = self._patterns(control, control.plan.rank, now, forced=True)
        wants = tuple(w for w in self.requests.wants if control.owner.keys() >= set(w))
        held = tuple(registration for registration in self._held(now) if registration.topics)
        intent = Intent(self.settings.plan, control.plan.rank, wants, held, gone)
        at, alive = self._time_of_day(now), (self.node,)
        moves: dict[str, str] = {}
        if control.sequencer == "atoms":
            live = sorted({*control.live, *alive}.difference(dead) | {self.node})
            moves = spread(control.plan, control.owner, live, self.events)
        return control.sealing(
            self.node, intent, dead=dead, alive=alive, moves=moves, patterns=patterns, at=at
        )

    def _patterns(
        self, control: Control, rank: tuple[str, ...], now: float, *, forced: bool = False
    ) -> tuple[dict[str, Registration], tuple[str, ...], list[Effect]]:
        """Who holds patterns in the next epoch; who does not any more; and what is to be told about it."""
        held = dict(control.patterns) | ({} if forced else self.requests.patterns)
        told: list[Effect] = []
        gone: list[str] = []
        for name, left in self.dropped.items():
            if name in control.patterns and held[name] == control.patterns[name]:
                held[name] = msgspec.structs.replace(held[name], topics=left)
        for name in list(held):
            is_silent = name in self.reports and self.reports[name][1] <= now and not forced
            if is_silent and name in control.patterns:
                gone.append(name)
            elif reason := over(held[name], rank, self.settings):
                gone.append(name)
                told.append(Send(name, Refused(reason)))
        patterns = {name: held[name] for name in sorted(held) if held[name].topics and name not in gone}
        return patterns, tuple(sorted(gone)), told

    def _held(self, now: float) -> tuple[Registration, ...]:
        """The reports; a subscriber whose lease has run out holds nothing."""
        return tuple(
            report if lease > now else Registration(name, report.version, ())
            for name, (report, lease) in sorted(self.reports.items())
            if report.version >= 0
        )

    def activated(self) -> None:
        """An epoch has been activated: what was asked for is in it, or will be asked for again."""
        self.requests.clear()

    def begun(self, control: Control, registrations: Iterable[Registration], now: float) -> list[Effect]:
        """We serve a new epoch, and who is gone need not be remembered; what was asked for meanwhile is due.

        Who leads grants a lease to everybody who is registered, heard of or not; who does not lead would only
        keep reports that grow old.
        """
        self.dropped = {}
        self.forget = ()
        self.waiting = self.decide_at = None
        leads = control.leader == self.node
        self.reports = {name: kept for name, kept in self.reports.items() if leads and kept[1] > now}
        expiring = [held for held in registrations if not held.subscriber.startswith(VIEW)]
        self.registered = {held.subscriber: held for held in expiring} if leads else {}
        for name, held in self.registered.items():
            self.reports.setdefault(name, (held, now + self.settings.lease_s))
        for name in control.patterns if leads else ():
            # It has reported nothing yet: this lease says nothing about topics.
            self.reports.setdefault(name, (Registration(name, -1, ()), now + self.settings.lease_s))
        return self._prepare(control, now) if leads and self.requests.is_due else []

    def copy(self) -> Planner:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.requests, twin.reports = self.requests.copy(), dict(self.reports)
        twin.registered, twin.dropped = dict(self.registered), dict(self.dropped)
        twin.waiting = None if self.waiting is None else set(self.waiting)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two planners would behave alike from now on."""
        waiting = None if self.waiting is None else tuple(sorted(self.waiting))
        reports = tuple(sorted((n, r.version, r.topics, at) for n, (r, at) in self.reports.items()))
        sweep = (tuple(self.registered), self.sweep_at, tuple(sorted(self.dropped.items())), self.forget)
        return (self.requests.state(), waiting, self.decide_at, reports, sweep, tuple(self.events.items()))
