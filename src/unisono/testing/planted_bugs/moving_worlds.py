"""The tiny worlds that move in which planted bugs show themselves, with nothing wrong in them yet."""

from __future__ import annotations

import msgspec

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.sim.explore import Planned
from unisono.sim.explore.moving import EXACT, MANAGERS, Change, Harm, MovingScenario

UPWARD = msgspec.structs.replace(MANAGERS, stamps="upward")
NO_RINGS = msgspec.structs.replace(MANAGERS, ring_events=0)
NEVER_ASKS = SubscriberSettings()
TAG = SubscriberSettings(on_gap="tag", repair=True)
TAG_UPWARD = msgspec.structs.replace(TAG, stamps="upward")
BOUNDED = SubscriberSettings(on_gap="tag", buffer=1, max_hold=1000.0, repair=True)

TWO_NODES = "T1:N1 T2:N2"
CRASH, ZOMBIE, SWAP = Harm(crashes=1), Harm(zombies=1), Harm(ranks=(("T2", "T1"),))


def moving(
    owner: str,
    events: str,
    *,
    observers: dict[str, str] | None = None,
    members: dict[str, str] | None = None,
    scripts: dict[str, str] | None = None,
    **more: object,
) -> MovingScenario:
    """Nodes as in "T1:N1 T2:N2", events as in "a:T1", what is held as in "T1 T2", scripts as in "+T1 -T2"."""
    owners = dict(pair.split(":") for pair in owner.split())
    return MovingScenario(
        tuple(owners),
        owners,
        tuple(map(_planned, events.split())),
        observers={name: frozenset(held.split()) for name, held in (observers or {}).items()},
        members={name: frozenset(held.split()) for name, held in (members or {}).items()},
        scripts={name: tuple(map(_change, text.split())) for name, text in (scripts or {}).items()},
    ).but(**more)


def _planned(text: str) -> Planned:
    """As in "a:T1", or "a:T1:p" if it is not of a publisher of its own, or "a:T1:p:k" if it has a key."""
    name, topic, publisher, key = (*text.split(":"), "", "")[:4]
    return Planned(name, topic, publisher, key=key or None)


def _change(word: str) -> Change:
    return ("add" if word[0] == "+" else "remove", tuple(word[1:].split(",")))


BOTH = {"o1": "T1 T2", "o2": "T1 T2"}

# s adds the upper topic while an event of each is on its way.
JOIN = moving(
    TWO_NODES,
    "a:T1 b:T2",
    observers={"o": "T1 T2"},
    members={"s": "T2"},
    scripts={"s": "+T1"},
    subscribers=TAG,
)
JOIN_EXACT = JOIN.but(subscribers=EXACT)
JOIN_SILENT = JOIN.but(
    subscribers=NEVER_ASKS, managers=NO_RINGS, events=(Planned("a", "T1"), Planned("c", "T1"))
)
JOIN_OLD = JOIN_EXACT.but(events=(Planned("b", "T2"),))

# s holds two topics that it shares with o, and adds a third one.
JOIN_THIRD = moving(
    "T1:N1 T2:N1 T3:N1",
    "b:T2 c:T3",
    observers={"o": "T2 T3"},
    members={"s": "T2 T3"},
    scripts={"s": "+T1"},
    subscribers=TAG,
)

LEAVE = moving(TWO_NODES, "a:T1 b:T2", observers={"o": "T1 T2"}, members={"s": "T1 T2"}, scripts={"s": "-T1"})
LEAVE_AND_RETURN = LEAVE.but(
    scripts={"s": (("remove", ("T1",)), ("add", ("T1",)))}, subscribers=NEVER_ASKS, managers=NO_RINGS
)

# s holds T2, then T1, never both at once.
ONE_AFTER_THE_OTHER = moving(
    TWO_NODES, "a:T1 b:T2", observers={"o": "T1 T2"}, members={"s": "T2"}, scripts={"s": "-T2 +T1"}
)

# Everybody is a member here: they tell each other of their joins.
PARTLY_SHARED = moving(
    "T1:N1 T2:N1 T3:N1", "a:T1", members={"s1": "T1 T3", "s2": "T2"}, scripts={"s2": "+T1"}
)
SHARED = moving(TWO_NODES, "a:T1", members={"s1": "T1 T2", "s2": "T2"}, scripts={"s2": "+T1"})
TWO_JOINS = moving(
    "T1:N1 T2:N2 T3:N1",
    "c:T3",
    members={"s0": "T1 T3", "s1": "T3", "s2": "T2 T3"},
    scripts={"s1": "+T1", "s2": "+T1"},
)

# T3 has gone straight to T1; s makes it pass T2 while events of it are on their way.
GROWING = moving(
    "T1:N1 T2:N2 T3:N3",
    "a:T1 c:T3 d:T3",
    observers={"o1": "T1 T3", "o2": "T1 T3", "o3": "T2 T3"},
    members={"s": "T3"},
    scripts={"s": "+T2"},
)

# One node dies, or is only taken for dead.
TAKEOVER = moving(TWO_NODES, "a:T1 c:T2", observers=BOTH, harm=CRASH)
TAKEOVER_THREE = TAKEOVER.but(
    events=(Planned("a", "T1"), Planned("c", "T2"), Planned("d", "T2")), harm=Harm(crashes=1, mortal=("N1",))
)
SUSPICION = TAKEOVER.but(harm=ZOMBIE)
ONE_NODE = moving("T1:N1 T2:N1", "a:T1 c:T2", observers=BOTH, spare=("N2",), threshold=1)
ONE_NODE_SUSPECTED = ONE_NODE.but(harm=Harm(zombies=1, mortal=("N1",)))
HOLE = moving("T1:N1 T2:N1", "a:T1 c:T2 d:T2", observers=BOTH, threshold=1, harm=Harm(lost_appends=1))

# p and q publish the same event on T2, which climbs to another node; what q publishes next must follow.
RETRY = moving(TWO_NODES, "a:T2:p:k b:T2:q:k c:T2:q", observers=BOTH, harm=CRASH)

# T3 climbs past T2 to T1, T2 stays where it is: both nodes emit.
TWO_LANES = moving(
    "T1:N1 T2:N2 T3:N1",
    "b:T2 c:T3",
    observers={"o1": "T2 T3", "o2": "T2 T3", "o3": "T1 T3", "o4": "T1 T3"},
    harm=CRASH,
)

# The join and both events may die with the only node.
JOIN_AND_CRASH = moving(
    "T1:N1 T2:N1",
    "a:T1:p b:T2:p",
    observers={"o": "T1 T2"},
    members={"s": "T2"},
    scripts={"s": "+T1"},
    spare=("N2",),
    harm=Harm(crashes=1, mortal=("N1",)),
)

# s holds T2 in one epoch and T1 in the next; o holds both, and no two subscribers ever do at once.
ACROSS_EPOCHS = moving(
    "T1:N1 T2:N1 T3:N1",
    "b:T2:p a:T1:p",
    observers={"o": "T1 T2"},
    members={"s": "T2 T3"},
    scripts={"s": "-T2 +T1"},
    harm=Harm(ranks=(("T1", "T2", "T3"),)),
)

# A and B are on two branches below R.
BRANCHES = moving(
    "R:N1 A:N1 B:N1",
    "b:B",
    observers={"o1": "R A", "o2": "R B"},
    members={"s": "R B"},
    scripts={"s": "+A"},
    kind="forest",
)
REHUNG = moving(
    "R:N1 A:N2 B:N3",
    "b:B c:B r:R",
    observers={"o": "R B"},
    members={"s": "R B"},
    scripts={"s": "+A"},
    kind="forest",
)

CHANGED_MIND = moving(
    "T1:N1 T2:N1",
    "a:T1 c:T1",
    observers={"o": "T1 T2"},
    members={"s": "T2"},
    scripts={"s": "+T1 -T1 +T1"},
    subscribers=NEVER_ASKS,
    managers=NO_RINGS,
)
TWICE_AT_ONCE = moving(
    "R:N1 M:N1 A:N1",
    "a:A m:M",
    observers={"o": "R M A"},
    members={"s": "A"},
    scripts={"s": "+R +M"},
)

LANE = moving(
    "T1:N1 T2:N1", "a:T1 c:T2", observers={"o1": "T1 T2", "o2": "T1"}, threshold=1, lane_is_read=True
)

# What a lane held is read, and told only after it holds more.
OLD_READ = moving(
    "T1:N1", "a:T1:p b:T1:p", observers={"o": "T1"}, harm=Harm(ranks=(("T1",),), stale_reads=1, ticks=1)
)
