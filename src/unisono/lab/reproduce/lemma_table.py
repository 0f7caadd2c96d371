"""The statements of paper 001, the worlds in which they are tried, and what became of those that are false."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.lab.reproduce import lemma_worlds as tiny
from unisono.lab.reproduce.families import Profile
from unisono.lab.reproduce.lemma_trials import (
    Tiny,
    groups_only_grow,
    hears_all_after_call,
    hears_all_after_return,
    promise,
    stamped_by_new_group,
    stamps_grow,
    watched,
)
from unisono.lab.reproduce.lemmas import Statement
from unisono.testing.planted_bugs import engines, moving_worlds, worlds
from unisono.testing.planted_bugs import moving_members as members
from unisono.testing.planted_bugs import moving_nodes as nodes

ORDER = promise("total_notification_order")
NO_STALL = promise("no_endless_wait")
NO_LOSS = promise("nothing_lost")
RETURNS = promise("joins_complete")

FOUR_TOPICS = 100  # drawn ways to hold them, with --full

WORDS = (tiny.WRITTEN, tiny.READ)  # as it is written, and with isNext read kindly
PLANS = (tiny.LINE, tiny.FOREST)
OURS = (tiny.OURS,)


@cache
def _fixed(profile: Profile) -> tuple[Tiny, ...]:
    more = tiny.four_topics(FOUR_TOPICS) if profile == "full" else ()
    return (*tiny.once_on_a_topic(), *more)


@cache
def _fixed_twice(profile: Profile) -> tuple[Tiny, ...]:
    return tiny.twice_on_a_topic()


def _adding(profile: Profile) -> tuple[Tiny, ...]:
    return (*tiny.ADDING, *(tiny.ADDING_MORE if profile == "full" else ()))


def _two_events(profile: Profile) -> tuple[Tiny, ...]:
    return tiny.ADDING_MORE if profile == "full" else (tiny.ADD_BOTH,)


def _only(*chosen: Tiny) -> Callable[[Profile], tuple[Tiny, ...]]:
    return lambda profile: chosen


def _rules(**changed: object) -> tuple[tiny.Rules, ...]:
    return ({**changed, "invariants": False},)


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "001-lemma-1",
        "groups do not change: whoever notifies two events of one topic notifies them in the same order",
        ORDER, _fixed_twice, WORDS, PLANS,
    ),
    Statement(
        "001-lemma-1",
        "its proof: of two events of a topic, the stamp of the first is smaller in every entry",
        stamps_grow, _fixed_twice, (tiny.READ,), PLANS,
    ),
    Statement(
        "001-lemma-2",
        "groups do not change: whoever notifies two events of two topics notifies them in the same order",
        ORDER, _fixed, WORDS, PLANS,
    ),
    Statement(
        "001-lemma-2",
        "its proof: what is held back is notified once what it follows has been, and two topics stand for any number",
        NO_STALL, _only(worlds.DETOUR, worlds.RING), (tiny.READ,), PLANS,
        repaired="three events wait for each other, as stamps overtake on direct hops; ours take paths with transit, "
        "each edge in one direction",
    ),
    Statement(
        "001-lemma-3",
        "subscribe returns, if the service is reliable",
        RETURNS, _adding, (tiny.JOINS,), OURS,
    ),
    Statement(
        "001-lemma-4",
        "a subscriber notifies all events published on T after it called subscribe(T)",
        watched(hears_all_after_call), _only(*tiny.ADDING), (tiny.JOINS,), OURS,
        repaired="an event may be numbered before the join passes its manager, however late it was published; ours "
        "promise what has a larger number than the one that the join brings back",
        is_promised=False,
    ),
    Statement(
        "001-lemma-4",
        "the same of events published after subscribe(T) has returned, as in its proof",
        watched(hears_all_after_return), _adding, (tiny.JOINS,), OURS,
    ),
    Statement(
        "001-lemma-5",
        "a subscribe makes no sequencing group smaller",
        watched(groups_only_grow, at_once=True), _adding, (tiny.JOINS,), OURS,
    ),
    Statement(
        "001-lemma-5",
        "the same while somebody else unsubscribes, which the lemma does not exclude",
        watched(groups_only_grow, at_once=True), _only(tiny.ADD_AND_LEAVE), (tiny.LEAVES,), OURS,
        repaired="an unsubscribe shrinks groups at once; ours only grow within an epoch",
    ),
    Statement(
        "001-lemma-6",
        "what a subscriber notifies of T is stamped by the group of T after its subscription",
        watched(stamped_by_new_group), _adding, (tiny.JOINS,), OURS,
    ),
    Statement(
        "001-lemma-6",
        "the same while somebody else subscribes, which the lemma does not exclude",
        watched(stamped_by_new_group, at_once=True), _only(tiny.ADD_AND_ADD), (tiny.JOINS,), OURS,
        repaired="the other join may make the group larger before this one returns; ours promise the group that the "
        "join found at the manager of T, which is enough for the order",
        is_promised=False,
    ),
    Statement(
        "001-lemma-6",
        "its proof: a subscriber listens at the service when its join is complete, and hears what is published then",
        watched(hears_all_after_return), _only(moving_worlds.JOIN_SILENT),
        _rules(make_member=members.ListensLate), OURS,
        repaired="figure 4 has it the other way round: what is numbered in between is never heard and always waited "
        "for; ours listen first",
    ),
    Statement(
        "001-theorem-1",
        "any two events are notified in the same order by everybody, while subscriptions are made",
        ORDER, _two_events, (tiny.JOINS,), OURS,
    ),
    Statement(
        "001-theorem-1",
        "the same while topics are dropped: T is removed at once, so that order cannot be violated",
        ORDER, _only(moving_worlds.LEAVE), (tiny.LEAVES,), OURS,
        repaired="events stamped after the leave do not say that they follow what the leaver has seen; ours leave "
        "groups as they are until the next epoch",
    ),
    Statement(
        "001-theorem-1",
        "the same of one who holds first one topic and then the other",
        ORDER, _only(moving_worlds.ONE_AFTER_THE_OTHER), _rules(make_member=members.ForgetsWhatItHeld), OURS,
        repaired="no two subscriptions ever share both topics at once, so nothing orders them; ours register what was "
        "held in this epoch too",
    ),
    Statement(
        "001-fig-2",
        "the publisher gets the stamp and publishes the event",
        NO_STALL, _only(worlds.CRASH), _rules(managers=ManagerSettings(mode="return")), OURS,
        repaired="a publisher that dies with its stamp leaves a number that all wait for; ours let the last manager publish",
    ),
    Statement(
        "001-fig-2",
        "topic managers route by their present group, also when it has grown",
        NO_STALL, _only(moving_worlds.GROWING), _rules(make_control=nodes.direct_plan), OURS,
        repaired="later events take another way and overtake earlier ones; ours climb one way whatever the group",
        profiles=("full",),
    ),
    Statement(
        "001-fig-3",
        "what is held back is notified when its turn comes: isNext counts every entry of a stamp",
        NO_STALL, _fixed, (tiny.WRITTEN,), PLANS,
        repaired="entries of topics that the subscriber does not hold never come true; ours look at those it holds",
    ),
    Statement(
        "001-fig-3",
        "lines 14 and 25: a delivery moves the clock",
        NO_STALL, _only(worlds.ONE), _rules(make_subscriber=engines.ClockStandsStill), OURS,
        repaired="they store the old value, so that the second event waits for ever; ours store the larger one",
    ),
    Statement(
        "001-fig-4",
        "subscriptionUpdate keeps other subscribers aligned with the numbers that a subscribe takes",
        NO_STALL, _adding, (tiny.JOINS,), OURS,
        repaired="whoever holds a topic that the update does not name never takes it; our joins take no numbers, so "
        "that nothing has to be aligned",
    ),
    Statement(
        "001-fig-4",
        "the same with an update that counts for shared topics, except the one it comes on (line 02)",
        NO_LOSS, _only(tiny.ADD_UPPER), ({**tiny.JOINS, "make_subscriber": members.UpdateExceptItsTopic},), OURS,
        repaired="it jumps over an event that is on its way; our joins take no numbers",
    ),
    Statement(
        "001-fig-4",
        "line 09: the stamp of the subscription becomes the clock",
        NO_LOSS, _only(moving_worlds.JOIN_OLD), _rules(make_member=members.SetsEveryClock), OURS,
        repaired="it moves past events of old topics that are on their way; ours set the entry of the new topic only",
    ),
    Statement(
        "001-fig-5",
        "after an unsubscribe everybody else goes on: isNext compares for equality",
        NO_STALL, _only(moving_worlds.LEAVE),
        ({**tiny.LEAVES, "make_subscriber": members.EveryEntryEqualMoving},), OURS,
        repaired="an entry that is behind the clock never becomes equal; ours ask for at most, and groups stay",
    ),
    Statement(
        "001-fig-5",
        "managers know what subscribers hold: UPDATE_SUB and a later subscribe",
        ORDER, _only(moving_worlds.LEAVE_AND_RETURN), (tiny.OLD_LEAVES,), OURS,
        repaired="the two go by different links, and the older one may come last and stay; ours number registrations",
        profiles=("full",),
    ),
)  # fmt: skip
