"""Scenarios of sequencing atoms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from unisono.engines.contract import Engine
from unisono.engines.sequencing_atoms import Atom, AtomGraph, Ingress, Receiver, atom_address
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.publisher import Publisher
from unisono.sim.explore.scenario import LIVENESS, NO_FAULTS, Faults, Planned


@dataclass(frozen=True)
class AtomScenario:
    """A scenario of sequencing atoms: a group is a topic, a member a subscriber."""

    graph: AtomGraph
    events: tuple[Planned, ...]
    faults: Faults = NO_FAULTS
    promises: tuple[str, ...] = ("no_creation", "no_duplication", "total_notification_order", *LIVENESS)
    invariants: bool = True
    make_receiver: Callable[[str, AtomGraph], Engine] = Receiver
    make_atom: Callable[[str], Engine] = Atom

    @property
    def subscriptions(self) -> Mapping[str, frozenset[str]]:
        """The groups of every member."""
        groups = self.graph.groups
        members = sorted(set().union(*groups.values()))
        return {m: frozenset(g for g, inside in groups.items() if m in inside) for m in members}

    @property
    def order(self) -> str:
        """What every member was promised."""
        return "total"

    @property
    def on_gap(self) -> str:
        """Receivers always wait."""
        return "wait"

    @property
    def feedback(self) -> bool:
        """Whether somebody publishes after a delivery."""
        return any(event.after for event in self.events)

    def sequencers(self) -> dict[str, Engine]:
        """An ingress for every group, and the atoms."""
        engines: dict[str, Engine] = {manager_address(g): Ingress(g, self.graph) for g in self.graph.groups}
        return engines | {atom_address(atom): self.make_atom(atom) for atom in self.graph.atoms}

    def publisher(self) -> Engine:
        """A publisher; it finds the ingress where a topic's manager would be."""
        return Publisher()

    def subscriber(self, name: str) -> Engine:
        """The receiver of a member."""
        return self.make_receiver(name, self.graph)

    def stamps_key(self) -> Hashable:
        """Everything the atoms know."""
        groups = tuple((g, tuple(sorted(m))) for g, m in self.graph.groups.items())
        paths = tuple(self.graph.paths.items())
        return (groups, paths, self.events, self.faults, self.make_atom, self.invariants)

    def subscriber_key(self, name: str) -> Hashable:
        """Its relevant entries."""
        return (tuple(self.graph.relevant(name).items()), self.make_receiver)

    def reads(self, name: str) -> frozenset[str] | None:
        """All of them, to be sure."""
        return None
