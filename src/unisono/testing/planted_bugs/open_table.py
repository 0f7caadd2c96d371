"""The planted bugs of a world in which nothing is fixed: topics are made, nodes leave, patterns wait for topics."""

from __future__ import annotations

from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.manager import TopicManager
from unisono.sim.explore.moving import ANSWERS, BOUNDS, JOINS, PATTERNS, Harm
from unisono.testing.planted_bugs import moving_nodes as nodes
from unisono.testing.planted_bugs import open_engines as weak
from unisono.testing.planted_bugs.bug import PlantedBug, moving_bug
from unisono.testing.planted_bugs.moving_worlds import NEVER_ASKS, NO_RINGS, moving

ORDER = "total_notification_order"
LOST = "nothing_lost"
CLAIMED = "invariants"

NEW = frozenset({"new.*"})

# A topic is made because somebody publishes on it; o and s hold it by pattern, and T1 by name.
NEW_TOPIC = moving(
    "T1:N1", "a:T1 n:new.1", observers={"o": "T1 new.1"}, members={"s": "T1"}, spare=("N2",)
).but(patterns={"o": NEW, "s": NEW})
NEW_TOPIC_TWICE = moving("T1:N1", "n:new.1:p m:new.1:q", members={"s": ""}).but(patterns={"s": NEW})
NEW_TOPIC_SILENT = NEW_TOPIC_TWICE.but(subscribers=NEVER_ASKS, managers=NO_RINGS)
NEW_TOPIC_CRASH = moving("T1:N1", "n:new.1", members={"s": ""}, spare=("N2",)).but(
    patterns={"s": NEW}, harm=Harm(crashes=1, mortal=("N1",))
)

# s comes to hold the pattern while the topic is made.
NEW_PATTERN = moving("T1:N1", "n:new.1", members={"s": "T1"}, scripts={"s": "+new.*"})

# s joins T2 while the topic is made that its pattern stands for.
JOIN_AND_NEW_TOPIC = moving(
    "T1:N1 T2:N1",
    "b:T2 n:new.1",
    observers={"o": "T2 new.1"},
    members={"s": "T1"},
    scripts={"s": "+T2"},
).but(patterns={"o": NEW, "s": NEW})

ONE_TOPIC_ONLY = moving("T1:N1", "n:new.1").but(nodes_are=NodeSettings(topics_max=1))

# Two epochs, and nothing is kept that need not be.
SHORT_LANES = moving("T1:N1", "a:T1:p b:T1:p", observers={"o": "T1"}).but(
    harm=Harm(ranks=(("T1",), ("T1",))), nodes_are=NodeSettings(lane_records_kept=0)
)

DRAIN = moving("T1:N1 T2:N2", "a:T1 b:T2", observers={"o": "T1 T2"}, harm=Harm(drains=("N2",)))


OPEN_BUGS: tuple[PlantedBug, ...] = (
    moving_bug(
        "pattern_not_registered",
        "An epoch begins without registering those whose patterns stand for its new topic.",
        "patterns", ORDER, NEW_TOPIC, make_node=nodes.with_finisher(weak.ForgetsPatterns),
    ),
    moving_bug(
        "floor_guessed",
        "A new topic is owed from the first event of it that happens to arrive.",
        "patterns", PATTERNS, NEW_TOPIC_TWICE, make_subscriber=weak.GuessesFloors,
    ),
    moving_bug(
        "early_events_dropped",
        "What comes of a new topic before the epoch it begins with is known is thrown away.",
        "patterns", LOST, NEW_TOPIC_SILENT, make_subscriber=weak.DropsStrays,
    ),
    moving_bug(
        "enters_untold",
        "A subscriber enters an epoch before it knows whether its patterns count in it.",
        "patterns", JOINS, NEW_PATTERN, make_subscriber=weak.EntersUntold,
    ),
    moving_bug(
        "join_without_patterns",
        "A join names what is held by name, and not what patterns stand for.",
        "patterns", ORDER, JOIN_AND_NEW_TOPIC, make_member=weak.JoinsWithoutPatterns,
        make_node=nodes.with_manager(TopicManager), deep=True,
    ),
    moving_bug(
        "topic_asked_for_once",
        "A publisher asks once for a topic to be made, and the one it asked dies.",
        "new topics", ANSWERS, NEW_TOPIC_CRASH, make_publisher=weak.AsksOnce,
    ),
    moving_bug(
        "quota_ignored",
        "Whoever asks for a topic gets it, however many there are.",
        "quotas", BOUNDS, ONE_TOPIC_ONLY, make_node=weak.GivesWhatIsAskedFor,
    ),
    moving_bug(
        "cut_too_far",
        "A lane is truncated with the beginning of the epoch that is served: the next one starts from nothing.",
        "truncation", CLAIMED, SHORT_LANES, make_node=weak.CutsTooFar,
    ),
    moving_bug(
        "read_too_late",
        "Whoever finishes reads the events of an epoch, and not the record it began with.",
        "where epochs begin", CLAIMED, SHORT_LANES, make_node=nodes.with_finisher(weak.ReadsTooLate),
    ),
    moving_bug(
        "drained_with_its_topics",
        "A node leaves and keeps its topics: nobody serves them any more.",
        "draining", ANSWERS, DRAIN, make_node=weak.KeepsWhatItGives,
    ),
)  # fmt: skip
