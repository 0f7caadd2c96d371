"""The planted bugs of a world that tells its past."""

from __future__ import annotations

from unisono.engines.topic_managers.recalling import Start
from unisono.sim.explore.moving import MOVING_LIVENESS, MOVING_SAFETY
from unisono.testing.planted_bugs import replay_engines as weak
from unisono.testing.planted_bugs.bug import PlantedBug, moving_bug
from unisono.testing.planted_bugs.moving_worlds import moving

ORDER = "total_notification_order"
ACYCLIC = "acyclic_order"

# s comes late to what o has held all the time.
LATE = moving(
    "T1:N1 T2:N1", "a:T1 b:T2", observers={"o": "T1 T2"}, members={"s": ""}, scripts={"s": "+T1,T2"}
).but(starts={"s": Start()}, retained=True)

# Two come late to what nobody has held together.
LATE_TWICE = moving(
    "T1:N1 T2:N1", "a:T1 b:T2", members={"r": "", "s": ""}, scripts={"r": "+T1,T2", "s": "+T1,T2"}
).but(starts={"r": Start(), "s": Start()}, retained=True)

# b comes before c, and c before a: r does not hold the topic that says so.
LATE_BETWEEN = moving(
    "T1:N1 T2:N1 T3:N1",
    "b:T2 c:T3 a:T1",
    observers={"o": "T2 T3", "q": "T1 T3"},
    members={"r": ""},
    scripts={"r": "+T1,T2"},
).but(starts={"r": Start()}, retained=True, promises=(*MOVING_SAFETY, *MOVING_LIVENESS, ACYCLIC))

# s holds T1 and adds T2, of which there is a past.
LATE_TOPIC = moving(
    "T1:N1 T2:N1", "a:T1 b:T2", observers={"o": "T1 T2"}, members={"s": "T1"}, scripts={"s": "+T2"}
).but(retained=True)


REPLAY_BUGS: tuple[PlantedBug, ...] = (
    moving_bug(
        "replay_of_what_one_has_held",
        "Two topics are related only if two subscribers hold both; the log does not count.",
        "replay, CE-42", ORDER, LATE, retained=False, make_node=weak.with_chronicler(weak.KeepsAnyhow),
    ),
    moving_bug(
        "replay_in_any_order",
        "The past is told in an order that the stamps allow: to every asker in another.",
        "replay, CE-43", ORDER, LATE_TWICE, make_node=weak.with_chronicler(weak.TellsAnyOrder),
    ),
    moving_bug(
        "replay_of_own_topics",
        "The topics that are asked for are sorted, without those that lie between.",
        "replay, CE-44", ACYCLIC, LATE_BETWEEN, make_node=weak.with_chronicler(weak.SortsOwnTopics),
    ),
    moving_bug(
        "past_added_to_the_present",
        "A topic is added with all its past to a subscription that has been told of others.",
        "replay, CE-45", ORDER, LATE_TOPIC, make_member=weak.AddsThePast,
    ),
)  # fmt: skip
