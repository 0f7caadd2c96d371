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
from unisono.engines.sequencing_atoms.graph import AtomGraph, atom_name, atoms_of, check_graph, line_of_atoms
from unisono.engines.sequencing_atoms.receiver import Receiver

__all__ = [
    "Atom",
    "AtomGraph",
    "Ingress",
    "Receiver",
    "atom_address",
    "atom_name",
    "atoms_of",
    "check_graph",
    "line_of_atoms",
]
