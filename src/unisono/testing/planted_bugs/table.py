"""The table of planted bugs: each must be caught in its world, and its world must be sound without it."""

from __future__ import annotations

from dataclasses import replace

from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.sim.explore import Faults, TopicManagerScenario
from unisono.sim.explore.packets import LinkScenario
from unisono.testing.planted_bugs import engines, worlds
from unisono.testing.planted_bugs.atom_table import ATOM_BUGS
from unisono.testing.planted_bugs.bug import PlantedBug
from unisono.testing.planted_bugs.bundle_table import BUNDLE_BUGS
from unisono.testing.planted_bugs.deadline_table import DEADLINE_BUGS
from unisono.testing.planted_bugs.epidemic_table import EPIDEMIC_BUGS
from unisono.testing.planted_bugs.moving_table import MOVING_BUGS
from unisono.testing.planted_bugs.open_table import OPEN_BUGS
from unisono.testing.planted_bugs.replay_table import REPLAY_BUGS
from unisono.testing.planted_bugs.together_table import TOGETHER_BUGS


def _bug(
    name: str, says: str, source: str, promise: str, sound: TopicManagerScenario, **weaker: object
) -> PlantedBug:
    # Only the promise in question is judged, and engines do not check themselves: the bug must show outside.
    weak = sound.but(**weaker, promises=(promise,), invariants=False)
    return PlantedBug(name, says, source, promise, sound, weak)


def _link_bug(name: str, says: str, promise: str, **weaker: object) -> PlantedBug:
    sound = LinkScenario(left=2, right=0)
    weak = replace(sound, **weaker)  # type: ignore[arg-type]
    return PlantedBug(name, says, "link repetition", promise, sound, weak)


ORDER = "total_notification_order"
STUCK = "no_endless_wait"

_THREE_UPWARD = worlds.THREE.but(managers=worlds.UPWARD, subscribers=worlds.TAG_UPWARD)
_TWO_UPWARD = worlds.TWO.but(managers=worlds.UPWARD, subscribers=worlds.TAG_UPWARD)

BUGS: tuple[PlantedBug, ...] = (
    _bug(
        "any_entry_larger",
        "An event is untagged if any entry of its stamp is larger, not necessarily its own.",
        "000 Definition 3, CE-1", ORDER, _THREE_UPWARD, make_subscriber=engines.AnyEntryLarger,
    ),
    _bug(
        "upward_buffered",
        "Upward stamps are used to tell what is surely next, by equality of every other entry.",
        "000 Section 5, CE-2", STUCK, worlds.TWO,
        managers=worlds.UPWARD, make_subscriber=engines.EveryEntryEqual,
    ),
    _bug(
        "every_entry_counts",
        "An event is next only if all entries of its stamp say so, also those of topics not subscribed.",
        "001 isNext, CE-3", STUCK, worlds.PARTIAL, make_subscriber=engines.EveryEntryCounts,
    ),
    _bug(
        "clock_stands_still",
        "A delivery sets the clock to what it was.",
        "001 Figure 3, lines 14 and 25", STUCK, worlds.ONE, make_subscriber=engines.ClockStandsStill,
    ),
    _bug(
        "transit_skipped",
        "Events hop straight to the next manager of their group and overtake those that take the road.",
        "001 routing, CE-4", STUCK, worlds.DETOUR, plan=engines.direct,
    ),
    _bug(
        "direct_hops_ring",
        "Direct hops around a chordless ring of conflicts that one subscriber sees whole.",
        "001 routing, CE-5", STUCK, worlds.RING, plan=engines.direct,
    ),
    _bug(
        "direct_hops_unseen",
        "Direct hops around a ring of conflicts that nobody sees whole.",
        "001 routing, CE-5b", "acyclic_order", worlds.RING_UNSEEN, plan=engines.direct,
    ),
    _bug(
        "single_overlaps_ignored",
        "Topics that only one subscriber shares are not ordered, where an acyclic order was promised.",
        "000 and 003 double overlaps, CE-5c", "acyclic_order", worlds.TRIANGLE, threshold=2,
    ),
    _bug(
        "links_overtake",
        "A request lost between managers is repeated end to end and comes after a later one.",
        "000 retry, CE-6", STUCK, worlds.RETRY, faults=Faults(overtaking=True),
    ),
    _bug(
        "publisher_publishes",
        "The stamp goes back to the publisher, which dies before it publishes.",
        "000 and 001 EVENT_TS, CE-15", STUCK, worlds.CRASH, managers=ManagerSettings(mode="return"),
    ),
    PlantedBug(
        "two_way_edge",
        "Groups travel one edge of the sequencing graph in both directions.",
        "003 C1 and C2, CE-19", STUCK, worlds.atom_line((1, 1, 1)), worlds.atom_line((1, 1, -1)),
    ),
    PlantedBug(
        "star_of_atoms",
        "Three groups meet two by two on the branches of a star; only a transit atom is common to all paths.",
        "003 transitivity, CE-19b", STUCK, worlds.STAR_AS_LINE, worlds.atom_star((1, 1, 1)),
    ),
    _bug(
        "double_overlaps_causal",
        "Topics that only one subscriber shares are not ordered, where causal order was promised.",
        "003 causality, CE-20", "causal_order", worlds.RUMOUR, threshold=2,
    ),
    _bug(
        "publisher_never_waits",
        "A publisher sends its next event before the last one has its place.",
        "003 causality, CE-21", "causal_order", worlds.SEQUEL, make_publisher=engines.never_waits,
    ),
    _bug(
        "upward_exact",
        "Exact order is built on upward stamps, which say nothing about lower topics.",
        "001 LLC", ORDER, worlds.TWO, managers=worlds.UPWARD,
    ),
    _bug(
        "clock_not_merged",
        "A delivery moves the clock of its own topic only.",
        "000 notify", ORDER, _TWO_UPWARD, make_subscriber=engines.ClockNotMerged,
    ),
    _bug(
        "own_number_only",
        "An event is untagged if its own number is larger, whatever its other entries say.",
        "CLEAN's second clause, CE-38", ORDER, _TWO_UPWARD, make_subscriber=engines.OwnNumberOnly,
    ),
    _bug(
        "never_learns",
        "A manager takes no notice of passing stamps.",
        "001 LLC", ORDER, worlds.TWO, make_manager=engines.NeverLearns,
    ),
    _bug(
        "counts_when_filling",
        "A manager takes a number of its own when it fills another topic's stamp.",
        "000 FILL_IN", STUCK, worlds.TWO, make_manager=engines.CountsWhenFilling,
    ),
    _bug(
        "delivers_again",
        "A subscriber does not remember what it delivered.",
        "at most once", "no_duplication", worlds.TWICE, make_subscriber=engines.DeliversAgain,
    ),
    _bug(
        "second_number",
        "A repeated request takes a second number.",
        "000 retry", "no_duplication", worlds.AGAIN, make_manager=engines.ForgetsRequests,
    ),
    _bug(
        "answers_without_stamp",
        "A repeated request is answered without its stamp, so the publisher never publishes it.",
        "000 EVENT_TS", STUCK, worlds.AGAIN_RETURNED, make_manager=engines.AnswersWithoutStamp,
    ),
    _bug(
        "forced_without_clean",
        "The buffer lets events go untagged without looking at the clock.",
        "000 Section 5", ORDER, worlds.TWO.but(subscribers=worlds.BUFFER_HOLD),
        make_subscriber=engines.NeverTags,
    ),
    _bug(
        "late_untagged",
        "What comes after an event that max_hold let go is delivered, and not tagged.",
        "000 Section 5", ORDER, worlds.TWO.but(subscribers=worlds.HOLD), make_subscriber=engines.LateUntagged,
    ),
    _bug(
        "tag_missing",
        "A late event is delivered untagged, though nobody else happens to contradict it.",
        "000 tags", "tags", worlds.TWO.but(subscribers=worlds.TAG), make_subscriber=engines.LateUntagged,
    ),
    _bug(
        "loss_not_passed",
        "A number is declared lost and still waited for.",
        "repair", STUCK, worlds.LOSSY, make_subscriber=engines.LossNotPassed,
    ),
    _bug(
        "sleeps_after_loss",
        "After a loss nobody looks who waited for it.",
        "repair", STUCK, worlds.LOSSY, make_subscriber=engines.SleepsAfterLoss,
    ),
    _bug(
        "wakes_own_topic_only",
        "A delivery does not wake the events of other topics that wait for it.",
        "hold-back", STUCK, worlds.TWO, make_subscriber=engines.WakesOwnTopicOnly,
    ),
    _bug(
        "no_heartbeats",
        "A manager never tells its newest number, so a lost last event is never missed.",
        "repair", "nothing_lost", worlds.LOSSY, make_manager=engines.NoHeartbeats,
    ),
    _link_bug(
        "link_not_fifo", "A link hands messages on as they arrive.", "link_order",
        make_links=engines.OvertakingLinks,
    ),
    _link_bug(
        "link_repeats", "A link hands on what arrives twice, twice.", "link_order",
        make_links=engines.RepeatingLinks,
    ),
    _link_bug(
        "link_never_retries", "A link never repeats what was lost.", "nothing_lost",
        make_links=engines.SilentLinks,
    ),
    *ATOM_BUGS,
    *MOVING_BUGS,
    *OPEN_BUGS,
    *BUNDLE_BUGS,
    *REPLAY_BUGS,
    *TOGETHER_BUGS,
    *DEADLINE_BUGS,
    *EPIDEMIC_BUGS,
)  # fmt: skip
