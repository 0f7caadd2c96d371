"""The sequencing graph of paper 003, corrected: an atom for every two groups that share two or more members.

A group is a topic, a member a subscriber. A message gets the next number of its group at the ingress, then
passes along its group's path; each atom of the group on it adds its own next number, the others on the path are
transit. A receiver gets everything that its relevant atoms number, so gaps are exact: it decides at once.

Promised here: with paths that keep C1, C2 and C3, over FIFO links that lose nothing, total notification order
and delivery of everything. The paper asks for C1 and C2 only: in its own example six of the eight ways to lay
the paths then end in deadlock.

The engines here (ingress, atom, receiver) are the paper's, to the letter, for its tests and to compare with: they know
no repeated requests and no changes. On the forest of groups a topic manager is the ingress of its topic and all atoms
that live there, and its stamps hold their numbers (`atom_numbers`): that is what the bus runs. Which atoms there are as
groups and members come and go, the graph, its laws, and what to put together on a machine is computed here for both.
"""

from unisono.engines.sequencing_atoms.atom import Atom, Ingress, atom_address
from unisono.engines.sequencing_atoms.builders import (
    forest_of_atoms,
    graph_of_plan,
    line_of_atoms,
    paper_graph,
)
from unisono.engines.sequencing_atoms.graph import AtomGraph, atom_name, atoms_of, check_graph
from unisono.engines.sequencing_atoms.numbers import atom_numbers
from unisono.engines.sequencing_atoms.overlaps import Change, MemberOverlaps
from unisono.engines.sequencing_atoms.placement import (
    contract,
    machines_of_paper,
    nodes_of_paper,
    numbered,
    received,
    seen,
)
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
    "contract",
    "forest_of_atoms",
    "graph_of_plan",
    "line_of_atoms",
    "machines_of_paper",
    "nodes_of_paper",
    "numbered",
    "paper_graph",
    "received",
    "seen",
]
