"""The planted bugs of sequencing atoms, and the worlds in which they show."""

from __future__ import annotations

from dataclasses import replace

from unisono.engines.sequencing_atoms import AtomGraph
from unisono.engines.takeover.settings import NodeSettings
from unisono.sim.explore import Planned
from unisono.sim.explore.atoms import AtomScenario
from unisono.sim.explore.moving import Harm
from unisono.sim.moving.oracle import Watched, WatchedMember
from unisono.testing.planted_bugs import atom_engines as engines
from unisono.testing.planted_bugs import worlds
from unisono.testing.planted_bugs.bug import PlantedBug
from unisono.testing.planted_bugs.moving_worlds import moving

ORDER = "total_notification_order"
STUCK = "no_endless_wait"
LOST = "nothing_lost"
DISAGREES = "invariants"  # a receiver of the paper beside the member would not do the same

LINE = worlds.atom_line((1, 1, 1))  # X passes the atom of Y and Z as transit


def laid(**paths: str) -> AtomScenario:
    """003's own example with other paths."""
    named = {group: tuple(path.split()) for group, path in paths.items()}
    return replace(LINE, graph=AtomGraph(worlds.GROUPS, named))


# Each group goes one edge of a triangle, and all go round the same way: the circular dependency of 003, 3.3.
LOOP = laid(X="X&Y X&Z", Y="Y&Z X&Y", Z="X&Z Y&Z")

# No group goes round: but there are two ways from the atom of X and Y to that of Y and Z.
TWO_WAYS = laid(X="X&Y X&Z", Y="X&Y Y&Z", Z="X&Z Y&Z")

# X leaves out the atom that is none of its own.
SHORT_CUT = laid(X="X&Y X&Z", Y="X&Y Y&Z", Z="Y&Z X&Z")

PAIR = AtomScenario(
    AtomGraph(dict.fromkeys("XY", frozenset("AB")), dict.fromkeys("XY", ("X&Y",))),
    (Planned("x", "X"), Planned("y", "Y")),
)

ATOMS: dict[str, object] = {
    "nodes_are": NodeSettings(sequencer="atoms"),
    "kind": "forest",
    "make_member": WatchedMember,
    "make_subscriber": Watched,
}

# Two groups on two nodes where work is spread, and two members of both, each with an oracle beside it.
SPREAD = moving(
    "G:N1 H:N2",
    "a:G b:H",
    members={"s": "G H"},
    observers={"o": "G H"},
).but(**ATOMS)
CLOSING = moving("G:N1", "a:G", members={"s": "G"}, harm=Harm(closes=("G",))).but(**ATOMS)


def _weak(
    name: str, says: str, source: str, promise: str, sound: AtomScenario, **weaker: object
) -> PlantedBug:
    # Only the promise in question is judged, and engines do not check themselves: the bug must show outside.
    weak = replace(sound, promises=(promise,), invariants=False, **weaker)  # type: ignore[arg-type]
    return PlantedBug(name, says, source, promise, sound, weak)


ATOM_BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        "atoms_in_a_loop", "The paths of three groups go round a loop of their atoms.",
        "003 C2, the circular dependency of section 3.3", STUCK, LINE, LOOP,
    ),
    PlantedBug(
        "two_ways_between_atoms", "Messages get from one atom to another in two ways, and overtake each other.",
        "003 C2", STUCK, LINE, TWO_WAYS,
    ),
    PlantedBug(
        "atom_left_out", "A message takes a short cut past an atom that does not number it.",
        "003 C2, transit", STUCK, LINE, SHORT_CUT,
    ),
    _weak(
        "atom_numbers_without_counting", "An atom tells the next number, and does not take it.",
        "003 section 3.1", STUCK, PAIR, make_atom=engines.NumbersWithoutCounting,
    ),
    _weak(
        "atom_counts_transit", "An atom takes numbers for messages that only pass it.",
        "003 section 3.1, transit", STUCK, LINE, make_atom=engines.CountsTransit,
    ),
    _weak(
        "receiver_delivers_at_a_hole", "A receiver does not wait for what is missing of its atoms.",
        "003 section 3.1, immediate decision", ORDER, PAIR, make_receiver=engines.DeliversAtAHole,
    ),
    _weak(
        "every_atom_counts", "A receiver waits for numbers of atoms whose other group it is not in.",
        "003 relevant atoms", STUCK, LINE, make_receiver=engines.EveryAtomCounts,
    ),
    PlantedBug(
        "end_of_a_group_passed_early",
        "A member lets go of a deleted topic when it hears of that, before all of the topic is here.",
        "003 FIN", LOST, CLOSING,
        CLOSING.but(make_member=engines.ForgetsTheClosed, promises=(LOST,), invariants=False),
    ),
    PlantedBug(
        "waits_for_everything",
        "A member delivers nothing while anything is missing, also what the event does not follow.",
        "003 immediate decision, seen by the oracle", DISAGREES, SPREAD,
        SPREAD.but(make_subscriber=engines.WaitsForEverything),
    ),
)  # fmt: skip
