"""The paper's numbers, read out of a stamp of clocks.

A topic manager that is the place of an atom counts the messages of both groups apart: what it writes into a stamp, or
copies from it, is how many of each have passed, this one included. The number that the atom would have given is
their sum, less what both were when the atom began. So the two kinds of stamps say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.engines.sequencing_atoms.graph import AtomGraph
from unisono.model.errors import FrameError
from unisono.model.frames import Entries, Stamped

NEVER: Mapping[str, Mapping[str, int]] = {}


def atom_numbers(
    message: Stamped, graph: AtomGraph, began: Mapping[str, Mapping[str, int]] = NEVER
) -> Stamped:
    """The message with the numbers of its group and of its atoms instead of its clock.

    `began` says how far both groups were when an atom began, and how far a group was when its receivers did; what it
    does not name began with the first message.
    """
    group = message.topic
    numbers = {group: _passed(message, (group,), began.get(group, {}))}
    for atom in graph.atoms_by_group[group]:
        numbers[atom] = _passed(message, graph.atoms[atom], began.get(atom, {}))
    return Stamped(message.publication, message.epoch, numbers)


def _passed(message: Stamped, groups: Iterable[str], began: Mapping[str, int]) -> int:
    """How many messages of these groups have passed since, this one included."""
    entries: Entries = message.entries
    try:
        return sum(entries[group] - began.get(group, 0) for group in groups)
    except KeyError as missing:
        raise FrameError(
            f"the stamp of an event on '{message.topic}' does not name {missing}: only full stamps hold the "
            "numbers of atoms"
        ) from None
