"""Planned epochs: gathers what others ask for, lets what is under way finish, then decides.

Only the leader plans; requests that reach another node are passed on to it. Requests of an epoch that is over
are stale and dropped: whoever still wants a change asks again. Should a node not answer, the leader decides
without it: a decided epoch needs nobody's consent, it only costs the numbers that were under way.

Registrations only grow within an epoch. The leader knows from reports, and from leases that ran out, how many of
them say more than is true; when it is a large enough share, it plans an epoch that starts without them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from unisono.engines.effects import Decide, Effect, Send
from unisono.engines.takeover.control import Control, Intent
from unisono.engines.takeover.settings import NodeSettings
from unisono.model.frames import Prepare, Registration, Replan


class Planner:
    """The planning part of one node."""

    def __init__(self, node: str, settings: NodeSettings) -> None:
        self.node = node
        self.settings = settings
        self.wants: dict[tuple[str, ...], None] = {}
        self.rank: tuple[str, ...] = ()
        self.alive: dict[str, None] = {}
        self.waiting: set[str] | None = None  # nodes that have not prepared; None: no change is under way
        self.decide_at: float | None = None
        self.reports: dict[str, tuple[Registration, float]] = {}  # and when the lease runs out
        self.registered: dict[str, Registration] = {}  # what is known to have been held in this epoch
        self.sweep_at = 0.0  # when to look next whether too much of that is no longer true
        self.stale = 0  # requests dropped because their epoch was over
        self.planned = 0

    def request(self, replan: Replan, control: Control, now: float) -> list[Effect]:
        """Somebody wants a change."""
        if replan.epoch != control.epoch or control.state != "active":
            self.stale += 1
            return []
        if control.leader != self.node:
            return [Send(control.leader, replan)]
        if replan.wants:
            self.wants[replan.wants] = None
        if replan.rank:
            self.rank = replan.rank
        if replan.alive:
            self.alive[replan.alive] = None
        return self._prepare(control, now)

    def report(self, registration: Registration, now: float) -> None:
        """A subscriber is alive and says what it holds."""
        known = self.reports.get(registration.subscriber)
        if known is None or known[0].version <= registration.version:
            self.reports[registration.subscriber] = (registration, now + self.settings.lease_s)
            self._note_held(registration)

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
        if self.sweep_at <= now and self.registered and control.leader == self.node:
            self.sweep_at = now + self.settings.lease_s / 4
            untrue = sum(self._is_untrue(held, now) for held in self.registered.values())
            if untrue >= max(1, self.settings.stale_share * len(self.registered)):
                return self._prepare(control, now) if control.state == "active" else []
        return []

    def _is_untrue(self, held: Registration, now: float) -> bool:
        """Whether a subscriber holds less than it is registered for."""
        report, lease = self.reports.get(held.subscriber, (held, now))
        return lease <= now or set(report.topics) < set(held.topics)

    def _decide(self, control: Control, now: float) -> list[Effect]:
        rank = self.rank if sorted(self.rank) == sorted(control.plan.rank) else control.plan.rank
        intent = Intent(self.settings.plan, rank, tuple(self.wants), self._held(now))
        self.waiting = self.decide_at = None
        if control.state != "active":
            return []
        self.planned += 1
        return [Decide(control.sealing(self.node, intent, alive=self.alive))]

    def intent(self, control: Control, now: float) -> Intent:
        """What a forced epoch is to be like: as now, less those that are gone, plus what was asked for."""
        return Intent(self.settings.plan, control.plan.rank, tuple(self.wants), self._held(now))

    def _held(self, now: float) -> tuple[Registration, ...]:
        """The reports; a subscriber whose lease has run out holds nothing."""
        return tuple(
            report if lease > now else Registration(name, report.version, ())
            for name, (report, lease) in sorted(self.reports.items())
        )

    def begun(self, control: Control, registrations: Iterable[Registration], now: float) -> None:
        """A new epoch is here: what was asked for is in it, and who is gone need not be remembered.

        Who leads grants a lease to everybody who is registered, heard of or not; who does not lead would only
        keep reports that grow old.
        """
        self.wants.clear()
        self.alive.clear()
        self.rank = ()
        self.waiting = self.decide_at = None
        leads = control.leader == self.node
        self.reports = {name: kept for name, kept in self.reports.items() if leads and kept[1] > now}
        self.registered = {held.subscriber: held for held in registrations} if leads else {}
        for name, held in self.registered.items():
            self.reports.setdefault(name, (held, now + self.settings.lease_s))

    def copy(self) -> Planner:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.wants, twin.alive, twin.reports = dict(self.wants), dict(self.alive), dict(self.reports)
        twin.registered = dict(self.registered)
        twin.waiting = None if self.waiting is None else set(self.waiting)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two planners would behave alike from now on."""
        waiting = None if self.waiting is None else tuple(sorted(self.waiting))
        reports = tuple(sorted((n, r.version, r.topics, at) for n, (r, at) in self.reports.items()))
        sweep = (tuple(self.registered), self.sweep_at)
        return (tuple(self.wants), tuple(self.alive), self.rank, waiting, self.decide_at, reports, sweep)
