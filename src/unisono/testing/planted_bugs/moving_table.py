"""The planted bugs of a world that moves."""

from __future__ import annotations

from unisono.engines.topic_managers.manager import TopicManager
from unisono.sim.explore.moving import ANSWERS, JOINS, KEPT, KEYS
from unisono.testing.planted_bugs import moving_members as members
from unisono.testing.planted_bugs import moving_nodes as nodes
from unisono.testing.planted_bugs import moving_worlds as worlds
from unisono.testing.planted_bugs.bug import PlantedBug, moving_bug

ORDER = "total_notification_order"
STUCK = "no_endless_wait"
LOST = "nothing_lost"
CLAIMED = "invariants"  # two events claim one number: subscribers refuse the second


MOVING_BUGS: tuple[PlantedBug, ...] = (
    moving_bug(
        "join_without_lower_numbers",
        "A join learns how far higher topics are, and events say nothing about lower ones.",
        "000 subscribe, CE-7", ORDER, worlds.JOIN, managers=worlds.UPWARD, subscribers=worlds.TAG_UPWARD,
    ),
    moving_bug(
        "join_moves_clock_back",
        "The answer to a join replaces the whole clock of a subscriber that has seen more since.",
        "000 COMPLETED, CE-8", ORDER, worlds.JOIN_THIRD, make_member=members.SetsEveryClock,
    ),
    moving_bug(
        "leave_shrinks_groups",
        "A leave takes effect at once: later events no longer say what they follow.",
        "000 unsubscribe, CE-9", ORDER, worlds.LEAVE,
        make_member=members.TellsLeaves, make_node=nodes.with_manager(nodes.ShrinksGroups),
    ),
    moving_bug(
        "join_skips_old_topics",
        "The answer to a join replaces the whole clock, past events of old topics that are still on their way.",
        "001 COMPLETED, CE-10", LOST, worlds.JOIN_OLD, make_member=members.SetsEveryClock,
    ),
    moving_bug(
        "update_of_all_topics",
        "Joins take numbers, and the update that fills the gap counts only for who holds nothing else.",
        "001 subscriptionUpdate, CE-11", STUCK, worlds.PARTLY_SHARED,
        make_member=members.TellsJoins, make_subscriber=members.UpdateOfAllTopics,
        make_node=nodes.with_manager(nodes.NumbersJoins),
    ),
    moving_bug(
        "update_except_its_topic",
        "Joins take numbers, and the update that fills the gap jumps over an event on its own topic.",
        "001 subscriptionUpdate, CE-12", LOST, worlds.SHARED,
        make_member=members.TellsJoins, make_subscriber=members.UpdateExceptItsTopic,
        make_node=nodes.with_manager(nodes.NumbersJoins),
    ),
    moving_bug(
        "joins_number_each_other",
        "Joins take numbers and overtake each other on direct hops.",
        "001 subscribe, CE-13", STUCK, worlds.TWO_JOINS,
        make_member=members.TellsJoinsOnce, make_subscriber=members.UpdateOfSharedTopics,
        make_node=nodes.with_manager(nodes.NumbersJoins), make_control=nodes.direct_joins,
    ),
    moving_bug(
        "leave_and_equality",
        "A leave takes effect at once, and an event is next only if every entry equals the clock.",
        "001 isNext, CE-14", STUCK, worlds.LEAVE, make_member=members.TellsLeaves,
        make_node=nodes.with_manager(nodes.ShrinksGroups), make_subscriber=members.EveryEntryEqualMoving,
    ),
    moving_bug(
        "listens_late",
        "A subscriber listens only when its join is complete, and misses what came in between.",
        "001 Lemma 6, CE-16", LOST, worlds.JOIN_SILENT, make_member=members.ListensLate,
    ),
    moving_bug(
        "old_leave_overtakes_return",
        "A leave on its own link overtakes the join that follows it, and is believed.",
        "001 UPDATE_SUB, CE-17", ORDER, worlds.LEAVE_AND_RETURN,
        make_member=members.TellsLeaves, make_node=nodes.with_manager(nodes.BelievesOldLeaves),
    ),
    moving_bug(
        "growth_reroutes",
        "A topic whose group grows takes another way, past its own events on the old one.",
        "001 routing, CE-18", STUCK, worlds.GROWING, make_control=nodes.direct_plan, deep=True,
    ),
    moving_bug(
        "held_before_forgotten",
        "A subscriber registers only what it holds now, and nobody orders what it held before.",
        "000 and 001 overlaps, CE-22", ORDER, worlds.ONE_AFTER_THE_OTHER,
        make_member=members.ForgetsWhatItHeld,
    ),
    moving_bug(
        "recovers_topic_by_topic",
        "Each topic goes on from its last stored event, and no lane is sealed.",
        "takeover, CE-23", ORDER, worlds.SUSPICION,
        make_node=nodes.with_finisher(nodes.SealsNothing, nodes.TakesOldMessages),
    ),
    moving_bug(
        "sequence_is_no_fence",
        "A writer takes each accepted append for safe: the seal has taken the place of the one before.",
        "takeover, CE-24", KEPT, worlds.SUSPICION,
        make_node=nodes.with_writer(nodes.ConfirmsWhatIsStored),
    ),
    moving_bug(
        "seals_the_dead_only",
        "The lane of a survivor stays open while it is computed how far it went.",
        "takeover, CE-25", CLAIMED, worlds.SUSPICION, make_node=nodes.with_finisher(nodes.SealsTheDeadOnly),
    ),
    moving_bug(
        "own_numbers_recovered",
        "How far a topic went is taken from its own events, not from every stamp that names it.",
        "takeover, CE-26", STUCK, worlds.TWO_LANES, make_node=nodes.with_finisher(nodes.OwnNumbers),
    ),
    moving_bug(
        "survivor_keeps_seen",
        "A survivor remembers a request that was never stored, and swallows it when it comes again.",
        "takeover, CE-27", ANSWERS, worlds.TAKEOVER, make_node=nodes.KeepsSeen,
    ),
    moving_bug(
        "survivor_keeps_counters",
        "A survivor goes on counting past numbers that were never stored.",
        "takeover, CE-28", STUCK, worlds.TAKEOVER_THREE, make_node=nodes.KeepsCounters,
    ),
    moving_bug(
        "no_voids",
        "Nobody is told which numbers died with a node.",
        "takeover, CE-29", STUCK, worlds.TWO_LANES, make_node=nodes.with_finisher(nodes.NoVoids),
    ),
    moving_bug(
        "acknowledged_when_stamped",
        "A publisher is told that its event has its place before that is stored.",
        "takeover, CE-30", KEPT, worlds.TAKEOVER, make_node=nodes.AcknowledgesEarly,
    ),
    moving_bug(
        "enters_at_once",
        "Events of the next epoch are delivered while some of the one before are missing.",
        "epochs, CE-31", ORDER, worlds.ACROSS_EPOCHS, make_subscriber=members.EntersAtOnce, deep=True,
    ),
    moving_bug(
        "tags_without_epoch",
        "A tag depends on numbers alone, and not on epochs.",
        "epochs, CE-32", ORDER, worlds.ACROSS_EPOCHS.but(subscribers=worlds.TAG),
        make_subscriber=members.IgnoresEpochs, deep=True,
    ),
    moving_bug(
        "joined_before_stored",
        "A subscriber is told that it has joined before that is stored.",
        "takeover, CE-33", ORDER, worlds.JOIN_AND_CRASH, make_node=nodes.AnswersJoinsEarly,
    ),
    moving_bug(
        "join_across_branches",
        "A join climbs one branch of the forest, though a topic of it is on another.",
        "joins on the forest, CE-34", JOINS, worlds.BRANCHES, make_member=members.ClimbsAnyway,
        make_node=nodes.with_manager(TopicManager),
    ),
    moving_bug(
        "branch_moved_live",
        "A branch is hung elsewhere without an epoch, while its events are on the old way.",
        "joins on the forest, CE-35", STUCK, worlds.REHUNG,
        make_control=nodes.any_join_path, make_node=nodes.with_manager(nodes.Rehangs),
    ),
    moving_bug(
        "old_answer_taken",
        "The answer to a join that was given up is taken for the answer to the next one.",
        "joins, CE-36", STUCK, worlds.CHANGED_MIND, make_member=members.TakesAnyAnswer,
    ),
    moving_bug(
        "two_joins_at_once",
        "A subscriber starts a second join while the first is under way.",
        "joins, CE-37", JOINS, worlds.TWICE_AT_ONCE, make_member=members.JoinsAtOnce,
    ),
    moving_bug(
        "own_number_only_joining",
        "An event is untagged by its own number alone, while its other topic is being joined.",
        "CLEAN's second clause, CE-38", ORDER, worlds.JOIN, make_subscriber=members.OwnNumberOnlyMoving,
    ),
    moving_bug(
        "bounded_without_epoch",
        "A bounded buffer compares numbers and not epochs.",
        "bounded delivery, CE-39", ORDER, worlds.ACROSS_EPOCHS.but(subscribers=worlds.BOUNDED),
        make_subscriber=members.IgnoresEpochs, deep=True,
    ),
    moving_bug(
        "sequence_is_no_fence_alone",
        "The writer of the only lane takes each accepted append for safe.",
        "takeover, CE-40", KEPT, worlds.ONE_NODE_SUSPECTED,
        make_node=nodes.with_writer(nodes.ConfirmsWhatIsStored),
    ),
    moving_bug(
        "lane_order_taken",
        "The order of the only lane is taken for the order, where topics that one subscriber shares have none.",
        "one node, CE-41", ORDER, worlds.LANE, threshold=2,
    ),
    moving_bug(
        "old_messages_served",
        "A node goes on with stamps and joins of an epoch that is over.",
        "takeover, CE-46", CLAIMED, worlds.SUSPICION, make_node=nodes.TakesOldMessages, deep=True,
    ),
    moving_bug(
        "appends_around_a_hole",
        "A writer appends around a record that was lost.",
        "one node, CE-47", STUCK, worlds.HOLE, make_node=nodes.with_writer(nodes.NeverGoesBack),
    ),
    moving_bug(
        "old_read_believed",
        "A node starts an epoch from what a lane held before the epoch began in it.",
        "takeover", CLAIMED, worlds.OLD_READ, make_node=nodes.BelievesOldReads, deep=True,
    ),
    moving_bug(
        "keys_forgotten_by_takeover",
        "The next epoch does not know which keys have their places: a retry becomes a second event.",
        "keys", KEYS, worlds.RETRY, make_node=nodes.with_finisher(nodes.ForgetsKeys),
    ),
    moving_bug(
        "key_answered_when_numbered",
        "A retry is told the place of the first while that is not stored, and may die.",
        "keys", KEPT, worlds.RETRY, make_node=nodes.with_manager(nodes.AnswersKeysEarly),
    ),
    moving_bug(
        "survivor_keeps_keys",
        "A survivor waits for a key that was under way when its epoch ended.",
        "keys", ANSWERS, worlds.RETRY, make_node=nodes.KeepsKeys,
    ),
)  # fmt: skip
