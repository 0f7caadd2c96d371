"""Planted bugs that show only where several things come together: finishers, leaves, forests, joins, late storage."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from unisono.engines.effects import Effect
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.recovery import Recovery
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.sim.explore.moving import KEPT, MOVING_LIVENESS, MOVING_SAFETY, Harm
from unisono.testing.planted_bugs import moving_members as members
from unisono.testing.planted_bugs import moving_nodes as nodes
from unisono.testing.planted_bugs import open_engines as open_ones
from unisono.testing.planted_bugs.bug import PlantedBug, moving_bug
from unisono.testing.planted_bugs.moving_worlds import BOUNDED, TAG, TAG_UPWARD, UPWARD, moving

ORDER = "total_notification_order"
STUCK = "no_endless_wait"
CLAIMED = "invariants"
CAUSES, CYCLES = "causal_order", "acyclic_order"

# N1 is taken for dead, and finishes the epoch that begins without it as well.
TWO_FINISHERS = moving(
    "T1:N1", "a:T1", observers={"o": "T1"}, spare=("N2",), harm=Harm(zombies=1, finishers=1, mortal=("N1",))
)

# Lanes are cut when two epochs have begun, or much later, and then N1 may die.
SHORT_LANES = moving("T1:N1", "a:T1:p b:T1:p", observers={"o": "T1"}, spare=("N2",)).but(
    harm=Harm(ranks=(("T1",), ("T1",)), late_cuts=True), nodes_are=NodeSettings(lane_records_kept=0)
)

# s leaves T1 and tells N1, and then N2 dies: the next epoch need not order T1 and T2 any more.
LEAVES = moving(
    "T1:N2 T2:N2",
    "a:T1:p b:T2:p",
    observers={"o": "T1 T2"},
    members={"s": "T1 T2"},
    scripts={"s": "-T1"},
    spare=("N1",),
    harm=Harm(crashes=1, reports=1, mortal=("N2",)),
)

FOREST = moving(
    "R:N1 A:N2 B:N1",
    "r:R a:A",
    observers={"o1": "R A", "o2": "R A", "o3": "R B"},
    kind="forest",
    harm=Harm(crashes=1),
)

THREE_JOINS = moving(
    "T1:N1 T2:N1",
    "a:T1 b:T2",
    members=dict.fromkeys(("s1", "s2", "s3"), "T2"),
    scripts=dict.fromkeys(("s1", "s2", "s3"), "+T1"),
    subscribers=TAG,
)

BOUNDED_JOIN = moving(
    "T1:N1 T2:N2",
    "a:T1 b:T2",
    observers={"o": "T1 T2"},
    members={"s": "T2"},
    scripts={"s": "+T1"},
    subscribers=BOUNDED,
    harm=Harm(expiries=1),
)


def causal_publisher() -> Publisher:
    """One that sends an event when the one before it has its place."""
    return Publisher(causal=True)


# N3 dies, on which nothing depends: T1 and T2 stay on two nodes.
CAUSAL = moving(
    "T1:N1 T2:N2",
    "a:T1:p b:T2:p",
    observers={"o1": "T1 T2", "o2": "T1"},
    spare=("N3",),
    threshold=1,
    harm=Harm(crashes=1, mortal=("N3",)),
).but(
    promises=(*MOVING_SAFETY, *MOVING_LIVENESS, CYCLES, CAUSES),
    order="total_causal",
    make_publisher=causal_publisher,
)

# An append was accepted, and is stored only when N1 is taken for dead.
LATE_APPEND = moving(
    "T1:N1",
    "a:T1:p b:T1:p",
    observers={"o": "T1"},
    spare=("N2",),
    harm=Harm(late_appends=1, zombies=1, mortal=("N1",)),
)


class CountsWhatItKnows(ManagerNode):
    """Whoever finishes an epoch adds what its own managers have numbered, stored or not."""

    def _finish(self, now: float) -> list[Effect]:
        known = {topic: manager.number for topic, manager in self.managers.items()}
        effects = super()._finish(now)
        if self.finisher is not None and type(self.finisher) is Finisher:
            self.finisher.__class__ = _AddsKnown
            vars(self.finisher)["known"] = known
        return effects


class _AddsKnown(Finisher):
    known: dict[str, int]

    def _recover(self) -> Recovery:
        recovery = super()._recover()
        notice = recovery.notice
        numbers = {topic: max(n, self.known.get(topic, 0)) for topic, n in notice.numbers.items()}
        return recovery._replace(notice=msgspec.structs.replace(notice, numbers=numbers))


class WaitsForWhatItLeft(MovingSubscriber):
    """Enters an epoch only when topics that it has left are behind it too."""

    left: frozenset[str] = frozenset()

    def dismiss(self, topic: str) -> list[Effect]:
        """It is not forgotten."""
        self.left |= {topic}
        return super().dismiss(topic)

    def _enter_if_due(self) -> bool:
        notice = self.epochs.after(self.epoch)
        if notice is not None and any(
            notice.numbers.get(topic, 0) for topic in self.left - self.clock.keys()
        ):
            return False
        return super()._enter_if_due()

    def state(self) -> Hashable:
        """What was left too."""
        return (super().state(), tuple(sorted(self.left)))


class PlansWithoutRegistrations(Finisher):
    """Lays the paths of the next epoch as if nobody held anything."""

    def _activate(self) -> Effect:
        recovery = self.recovery
        assert recovery is not None
        self.recovery = recovery._replace(registrations=())
        effect = super()._activate()
        self.recovery = recovery
        return effect


class ForgetsCauses(Publisher):
    """When an epoch begins, sends everything at once: what had no answer will have its place anyway."""

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        is_first = self.control is None
        effects = super()._controlled(control, now)
        if is_first or control.state != "active":
            return effects
        self.causal = False
        return effects + self._send(now)


def forgetful_publisher() -> Publisher:
    """A causal one that is so until the first takeover."""
    return ForgetsCauses(causal=True)


TOGETHER_BUGS: tuple[PlantedBug, ...] = (
    moving_bug(
        "finisher_counts_what_it_knows",
        "Two finish an epoch, and one adds what it has numbered itself: they do not agree on how far topics went.",
        "concurrent finishers", STUCK, TWO_FINISHERS, make_node=CountsWhatItKnows,
    ),
    moving_bug(
        "cut_too_far_later",
        "A truncation that takes its time takes the beginning of the epoch that is served.",
        "truncation", CLAIMED, SHORT_LANES, make_node=open_ones.CutsTooFar,
    ),
    moving_bug(
        "waits_for_what_it_left",
        "Somebody leaves a topic, a takeover tells how far it went, and it waits to get there.",
        "leave during a takeover", STUCK, LEAVES, make_subscriber=WaitsForWhatItLeft,
    ),
    moving_bug(
        "forest_without_registrations",
        "A takeover lays the paths of a forest without looking at who holds what.",
        "forest and takeover", ORDER, FOREST, make_node=nodes.with_finisher(PlansWithoutRegistrations),
    ),
    moving_bug(
        "three_joins_without_lower_numbers",
        "Three join at once, and learn how far higher topics are, not how far lower ones.",
        "three subscribers join", ORDER, THREE_JOINS, managers=UPWARD, subscribers=TAG_UPWARD,
    ),
    moving_bug(
        "bounded_join_own_number_only",
        "What a full or expired buffer lets go is untagged by its own number alone, while a topic is being joined.",
        "bounded delivery and a join", ORDER, BOUNDED_JOIN, make_subscriber=members.OwnNumberOnlyMoving,
    ),
    moving_bug(
        "causes_forgotten_by_takeover",
        "After a takeover a causal publisher sends what it has without waiting for answers.",
        "causes across a takeover", CAUSES, CAUSAL, make_publisher=forgetful_publisher,
    ),
    moving_bug(
        "cycle_across_takeover",
        "Topics that one subscriber shares with nobody else are not ordered together.",
        "causes across a takeover", CAUSES, CAUSAL, threshold=2,
    ),
    moving_bug(
        "late_append_confirmed",
        "An append that is answered late is taken for safe, though a seal came before it.",
        "replicated lanes", KEPT, LATE_APPEND, make_node=nodes.with_writer(nodes.ConfirmsWhatIsStored),
    ),
)  # fmt: skip
