"""Bugs of deadline-causal order: the predicates broken one by one, and what paper 004 says to the letter."""

from __future__ import annotations

from msgspec.structs import replace

from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import Past, stamp_of
from unisono.model.frames import Publication
from unisono.sim.deadline.judging import ACCOUNT, CAUSES, DEADLINE, DROPS
from unisono.sim.explore.deadline import SETTINGS, BrokersScenario, Caused, DeadlineScenario, NewsScenario
from unisono.testing.planted_bugs import deadline_engines as weak
from unisono.testing.planted_bugs.bug import PlantedBug


def _bug(
    name: str, says: str, source: str, promise: str, sound: DeadlineScenario, **weaker: object
) -> PlantedBug:
    return PlantedBug(
        name, says, source, promise, sound, sound.but(**weaker, promises=(promise,), invariants=False)
    )


_PAIR = (("a", "T"), ("b", "T"))
_THREE = (("a", "T"), ("b", "T"), ("c", "T"))

SAME_SENDER = BrokersScenario(_PAIR, (Caused("e", "a", "T", 4), Caused("f", "a", "T", 4)), rounds=1)
CAUSE_AND_EFFECT = BrokersScenario(
    _THREE, (Caused("e", "a", "T", 5), Caused("f", "b", "T", 3, after="e")), rounds=2
)
LATE = CAUSE_AND_EFFECT.but(rounds=3)
# g waits for z, which is lost; h follows g and has to go.
CHAIN = BrokersScenario(
    _PAIR, (Caused("z", "a", "T", 6), Caused("g", "a", "T", 6), Caused("h", "a", "T", 2)), rounds=1, losses=1
)
WITH_RESERVE = CAUSE_AND_EFFECT.but(
    settings=replace(SETTINGS, reserve=1),
    rounds=3,
)
_SKEWED = replace(SETTINGS, lifetime=2, skew=1)
WRONG_CLOCKS = BrokersScenario(
    _THREE,
    (Caused("e", "b", "T", 9), Caused("f", "a", "T", 9, after="e")),
    rounds=3,
    ahead=("a",),
    settings=_SKEWED,
)
FAST_CLOCK = BrokersScenario(
    _PAIR, (Caused("e", "a", "T", 3),), rounds=4, ahead=("a",), settings=replace(_SKEWED, lifetime=6)
)


def _event(name: str, broker: str, round: int, last: int, *causes: Event) -> Event:
    past: Past = {}
    for cause in causes:
        past |= cause.past | {cause.stream: cause.stamp}
    return Event(broker, "T", stamp_of(round, 1), last, past, Publication(name, 0, 1, "T"))


# Figure 3: brokers A and B, rounds 1 to 4, and what is sent is of use for two rounds.
RED_B1 = _event("red_B1", "B", 1, 3)
YELLOW_A1 = _event("yellow_A1", "A", 2, 4, RED_B1)
BLUE_B2 = _event("blue_B2", "B", 3, 5, RED_B1, YELLOW_A1)
RED_B3 = _event("red_B3", "B", 4, 6, RED_B1, YELLOW_A1, BLUE_B2)
FIGURE_3 = NewsScenario(
    (RED_B1, YELLOW_A1, BLUE_B2, RED_B3),
    ("T",),
    rounds=6,
    settings=CausalSettings(round_s=1.0, lifetime=2, skew=0, reserve=0),
)
TWO_NEWS = NewsScenario((RED_B1, YELLOW_A1), ("T",), rounds=4, settings=FIGURE_3.settings)

DEADLINE_BUGS: tuple[PlantedBug, ...] = (
    _bug(
        "own_stamp_in_its_past",
        "The matrix of an event has its own stamp in it, and its sender's stream is not waited for.",
        "004 Figures 4 and 5, MB2 before MB3 and Del_ok", DROPS, SAME_SENDER, make_broker=weak.LiteralBroker,
    ),
    _bug(
        "own_stream_left_out",
        "The former event of the same sender is not waited for.",
        "004 Figure 5, Del_ok", DROPS, SAME_SENDER, make_broker=weak.with_hold(weak.LiteralDelOk),
    ),
    _bug(
        "one_stamp_for_a_tick",
        "Two events of one tick of the clock have one stamp.",
        "004 Figure 4, MB1", ACCOUNT, SAME_SENDER, make_broker=weak.OneStampForATick,
    ),
    _bug(
        "only_at_the_moment",
        "An event has to go at the moment of its logical deadline, and after it no more.",
        "004 Figure 5, logical_deadline", DROPS, WITH_RESERVE, make_broker=weak.with_hold(weak.OnlyAtTheMoment),
    ),
    _bug(
        "own_deadline_only",
        "Causes that wait do not go before an effect that has to.",
        "004 Deadline_arr_succ without successors", DROPS, CHAIN, make_broker=weak.with_hold(weak.OwnDeadlineOnly),
    ),
    _bug(
        "effects_before_causes_when_due",
        "What has to go at the same time goes in the order in which it came.",
        "004 messages due together", DROPS, CHAIN, make_broker=weak.with_hold(weak.AsTheyCame),
    ),
    _bug(
        "late_and_overtaken",
        "An event is too late if it is late and overtaken, as the text says; figure 5 has an or.",
        "004 Section 2.2, too_late", DEADLINE, LATE, make_broker=weak.with_hold(weak.LateAndOvertaken),
    ),
    _bug(
        "late_news_and_overtaken",
        "A subscriber takes an event for too late if it is late and overtaken.",
        "004 Section 2.2, too_late", DEADLINE, TWO_NEWS, make_subscriber=weak.reading_with(weak.LateAndOvertaken),
    ),
    _bug(
        "never_overtaken",
        "Nobody looks whether an effect has gone already.",
        "004 Figure 5, Del_viol_CO", CAUSES, CAUSE_AND_EFFECT, make_broker=weak.with_hold(weak.NeverOvertaken),
    ),
    _bug(
        "waits_for_nobody",
        "Every event goes at once.",
        "004 Figure 5, Del_ok", DROPS, CAUSE_AND_EFFECT, make_broker=weak.with_hold(weak.WaitsForNobody),
    ),
    _bug(
        "learns_nothing",
        "With an event that had to go, its past is not passed over.",
        "004 Figure 5, RMB3", CAUSES, CAUSE_AND_EFFECT, make_broker=weak.with_hold(weak.LearnsNothing),
    ),
    _bug(
        "deadline_by_any_clock",
        "Nothing is taken off a deadline for what clocks may differ.",
        "ours", DEADLINE, FAST_CLOCK,
        make_broker=weak.TrustsClocks,
    ),
    _bug(
        "forgets_by_its_own_clock",
        "Pasts leave out what is too late by the sender's clock, though not by a slower one.",
        "ours", CAUSES, WRONG_CLOCKS, make_broker=weak.ForgetsByItsOwnClock,
    ),
    _bug(
        "paper_colours",
        "Three colours for a lifetime of two rounds: red_B1 that lingers for a cycle is taken for new.",
        "004 Section 2.2, log N + alpha", DEADLINE, FIGURE_3,
        palette=weak.PAPER_COLOURS, make_subscriber=weak.PaperColours,
    ),
)  # fmt: skip
