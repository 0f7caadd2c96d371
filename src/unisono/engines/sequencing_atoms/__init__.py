"""The sequencing graph of paper 003, corrected: an atom for every two groups that share two or more members.

A group is a topic, a member a subscriber. A message gets the next number of its group at the ingress, then
passes along its group's path; each atom of the group on it adds its own next number, the others on the path are
transit. A receiver gets everything that its relevant atoms number, so gaps are exact: it decides at once.

Promised here: with paths that keep C1, C2 and C3, over FIFO links that lose nothing, total notification order
and delivery of everything. The paper asks for C1 and C2 only: in its own example six of the eight ways to lay
the paths then end in deadlock.
Not here yet: repeated requests, changes of groups, placement of atoms on nodes.
"""

from unisono.engines.sequencing_atoms.atom import Atom, Ingress, atom_address
from unisono.engines.sequencing_atoms.builders import forest_of_atoms, graph_of_plan, line_of_atoms
from unisono.engines.sequencing_atoms.graph import AtomGraph, atom_name, atoms_of, check_graph
from unisono.engines.sequencing_atoms.numbers import atom_numbers
from unisono.engines.sequencing_atoms.overlaps import Change, MemberOverlaps
from unisono.engines.sequencing_atoms.receiver import Receiver

__all__ = [
    "Atom",
    "AtomGraph",
    "Change",
    "Ingress",
    "MemberOverlaps",
    "Receiver",
    "atom_address",
    "atom_name",
    "atom_numbers",
    "atoms_of",
    "check_graph",
    "forest_of_atoms",
    "graph_of_plan",
    "line_of_atoms",
]
