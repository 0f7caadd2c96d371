"""Planted bugs of bundles: many events that are numbered, stored and told at once, in pieces."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unisono.engines.effects import Announce, Effect, Send
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.recovery import Recovery, recover
from unisono.engines.takeover.writer import Written
from unisono.engines.topic_managers.assembly import Assembled, Assembly
from unisono.engines.topic_managers.line import Line
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.bundles import Bundle, SequencedBundle, StampedBundle, is_same
from unisono.model.lanes import BundleRecord, LaneRecord
from unisono.sim.explore.moving import ANSWERS, KEPT, MOVING_LIVENESS, MOVING_SAFETY, Harm
from unisono.testing.planted_bugs import moving_nodes as nodes
from unisono.testing.planted_bugs.bug import PlantedBug, moving_bug
from unisono.testing.planted_bugs.moving_worlds import moving

ORDER = "total_notification_order"
STUCK = "no_endless_wait"
CLAIMED = "invariants"  # two events claim one number: subscribers refuse the second

# One bundle on two topics comes in two pieces, which may overtake each other.
PIECES = moving("T1:N1 T2:N1", "a:T1:p b:T2:p", members={"s1": "T1 T2", "s2": "T1 T2"}, at_once=True)

# A bundle on the lowest topic, and a single event on the one above it, which shares others with a topic elsewhere.
BESIDE_ONE = moving(
    "T1:N2 T2:N1 T3:N1",
    "b:T3:p c:T3:p a:T2:q",
    observers={"o1": "T1 T2", "o2": "T1 T2"},
    members={"s1": "T2 T3", "s2": "T2 T3"},
    at_once=True,
)

# A bundle and a single event may die with their node, and are numbered again in another order.
DYING = moving(
    "T1:N1",
    "a:T1:p b:T1:p c:T1:q",
    members={"s": "T1"},
    spare=("N2",),
    at_once=True,
    harm=Harm(crashes=1, mortal=("N1",)),
)

# A publisher asks again before its bundle is stored.
IMPATIENT = moving(
    "T1:N1",
    "a:T1:p b:T1:p",
    members={"s": "T1"},
    spare=("N2",),
    at_once=True,
    harm=Harm(crashes=1, mortal=("N1",), ticks=1, ticking=("p",)),
)

# Events of a publisher that are ready together.
IN_A_ROW = moving("T1:N1", "a:T1:p b:T1:p", members={"s": "T1"}, at_once=True).but(
    promises=(*MOVING_SAFETY, *MOVING_LIVENESS, "publisher_fifo")
)

# T2's events end in the lane of N2, and may die with it; those of T3 are a bundle in the lane of N1 that names them.
NAMED = moving(
    "T1:N2 T2:N1 T3:N1",
    "b:T2:q c:T3:p d:T3:p",
    observers={"o1": "T1 T2", "o2": "T1 T2", "o3": "T2 T3"},
    members={"s": "T2 T3"},
    at_once=True,
    harm=Harm(crashes=1, mortal=("N2",)),
)

# T3's events climb to T1 through another node, and nobody holds what that one owns.
THROUGH_ANOTHER = moving(
    "T1:N1 T2:N2 T3:N1",
    "c:T3:q a:T1:p b:T1:p",
    observers={"o1": "T1 T3", "o2": "T1 T3"},
    at_once=True,
)


class HandsOverPieces(Assembly):
    """Takes each piece for the whole."""

    __slots__ = ()

    def add(self, piece: StampedBundle, is_ours: Callable[[str], bool]) -> list[Assembled]:
        """The rest will come."""
        return [Assembled((piece,), is_whole=True)]

    def copy(self) -> HandsOverPieces:
        """It keeps nothing."""
        return HandsOverPieces()


class TakesPieces(MovingSubscriber):
    """Does not wait for the rest of a bundle."""

    def __init__(self, name: str, settings: SubscriberSettings) -> None:
        super().__init__(name, settings)
        self.assembly = HandsOverPieces()


class HearsOfNoBundles(TopicManager):
    """Learns from single events only."""

    def hear_of(self, topic: str, number: int) -> None:
        """No."""


class LooksAtNothingBetween(ManagerNode):
    """Takes bundles wherever it has the topics that they are ordered with."""

    def _is_whole(self, manager: TopicManager) -> bool:
        return all(topic in self.managers for topic in (*manager.group, *manager.path))


class AnnouncesBundlesEarly(ManagerNode):
    """Tells of a bundle when it is numbered, not when it is stored."""

    def _store(self, record: Written, then: list[Effect], now: float) -> list[Effect]:
        early = [e for e in then if isinstance(e, Announce) and isinstance(e.notification, StampedBundle)]
        return super()._store(record, [e for e in then if e not in early], now) + early


class AnswersAgainEarly(ManagerNode):
    """Answers a bundle that comes again while it is being stored."""

    def _answer_again(self, bundle: Bundle) -> list[Effect] | None:
        effects = super()._answer_again(bundle)
        if effects == [] and self.writer is not None:
            for record in self.writer.unconfirmed.values():
                if isinstance(record, BundleRecord) and is_same(record.bundle, bundle):
                    clock, groups = record.bundle.clock, record.bundle.groups
                    answer = SequencedBundle(bundle.incarnation, bundle.serial, record.epoch, clock, groups)
                    return [Send(bundle.publisher, answer)]
        return effects


class SendsTheLastFirst(Publisher):
    """What is ready last is sent first."""

    def _next(self, queue: Line, now: float) -> Effect | None:
        *others, last = queue
        alone = Line([last])
        effect = super()._next(alone, now)
        queue.leave(len(queue))
        queue.extend((*others, *alone))
        return effect


class ForgetsClocksOfBundles(Finisher):
    """Takes what bundles are about for all that they say."""

    def _recover(self) -> Recovery:
        intent = self.control.intent
        assert intent is not None
        lanes = {lane: tuple(map(_own_topics_only, records)) for lane, records in self.read.items()}
        return recover(lanes, self.control.epoch, intent.rank, intent.reports)


def _own_topics_only(record: LaneRecord) -> LaneRecord:
    if not isinstance(record, BundleRecord):
        return record
    bundle = record.bundle
    clock = {topic: bundle.clock[topic] for topic in bundle.topics}
    return BundleRecord(record.epoch, record.index, msgspec.structs.replace(bundle, clock=clock, groups=()))


BUNDLE_BUGS: tuple[PlantedBug, ...] = (
    moving_bug(
        "piece_taken_for_the_whole",
        "A piece of a bundle is delivered before the piece that it follows is here.",
        "bundles", ORDER, PIECES, make_subscriber=TakesPieces,
    ),
    moving_bug(
        "bundle_not_heard_of",
        "A bundle is numbered, and the managers above do not hear of it.",
        "bundles", ORDER, BESIDE_ONE, make_node=nodes.with_manager(HearsOfNoBundles),
    ),
    moving_bug(
        "bundle_past_a_climbing_event",
        "A bundle is numbered while an event of a lower topic is on its way up, on another node: each follows the other.",
        "bundles", STUCK, THROUGH_ANOTHER, make_node=LooksAtNothingBetween,
    ),
    moving_bug(
        "bundle_announced_early",
        "A bundle is told before it is stored, and its numbers are given again after a takeover.",
        "bundles", CLAIMED, DYING, make_node=AnnouncesBundlesEarly,
    ),
    moving_bug(
        "bundle_answered_before_it_is_stored",
        "A bundle that comes again while it is being stored is answered: should the node die now, it is lost.",
        "bundles", KEPT, IMPATIENT, make_node=AnswersAgainEarly,
    ),
    moving_bug(
        "last_ready_sent_first",
        "A publisher sends an event before one that waits: nodes take that one for answered, and number it never.",
        "bundles", ANSWERS, IN_A_ROW, make_publisher=SendsTheLastFirst,
    ),
    moving_bug(
        "bundle_clock_not_recovered",
        "How far a topic went is not taken from the clocks of bundles.",
        "bundles", STUCK, NAMED, make_node=nodes.with_finisher(ForgetsClocksOfBundles),
    ),
)  # fmt: skip
