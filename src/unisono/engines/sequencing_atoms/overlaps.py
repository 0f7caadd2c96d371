"""Who is in which group, and which atoms that makes, kept up to date change by change.

A change costs what it touches: the groups that the members concerned are in. Nothing is kept of what is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unisono.engines.sequencing_atoms.builders import forest_of_atoms
from unisono.engines.sequencing_atoms.graph import THRESHOLD_DEFAULT, AtomGraph, Groups, atom_name
from unisono.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Change:
    """The atoms that a change of groups or members makes, and those that it retires."""

    made: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()


class MemberOverlaps:
    """The membership matrix and its double overlaps."""

    def __init__(self, groups: Groups | None = None, threshold: int = THRESHOLD_DEFAULT) -> None:
        if threshold < 1:
            raise ConfigError(f"the overlap threshold is at least 1, not {threshold}")
        self.threshold = threshold
        self.groups: dict[str, frozenset[str]] = {}
        self.atoms: dict[str, tuple[str, str]] = {}
        self._groups_of: dict[str, set[str]] = {}
        self._shared: dict[str, dict[str, int]] = {}  # group -> another -> members in both
        for group, members in (groups or {}).items():
            self.add_group(group, members)

    def add_group(self, group: str, members: Iterable[str] = ()) -> Change:
        """A new group with these members."""
        if group in self.groups:
            raise ConfigError(f"group '{group}' is there already; add members to it one by one")
        self.groups[group] = frozenset()
        self._shared[group] = {}
        return self._enter(group, frozenset(members))

    def remove_group(self, group: str) -> Change:
        """The group is gone, with all its atoms."""
        change = self._leave(group, self._members(group))
        del self.groups[group], self._shared[group]
        return change

    def add_member(self, group: str, member: str) -> Change:
        """Somebody joins a group; nothing happens if he is in it."""
        return self._enter(group, frozenset((member,)) - self._members(group))

    def remove_member(self, group: str, member: str) -> Change:
        """Somebody leaves a group; nothing happens if he is not in it."""
        return self._leave(group, frozenset((member,)) & self._members(group))

    def graph(self, rates: Mapping[str, float] | None = None) -> AtomGraph:
        """A lawful graph of the atoms there are now."""
        return forest_of_atoms(dict(self.groups), rates=rates, atoms=dict(self.atoms))

    def groups_of(self, member: str) -> frozenset[str]:
        """The groups that somebody is in."""
        return frozenset(self._groups_of.get(member, ()))

    def _members(self, group: str) -> frozenset[str]:
        try:
            return self.groups[group]
        except KeyError:
            raise ConfigError(f"there is no group '{group}'; add it first") from None

    def _enter(self, group: str, members: frozenset[str]) -> Change:
        made: list[str] = []
        for member in members:
            theirs = self._groups_of.setdefault(member, set())
            for other in theirs:
                if self._count(group, other, 1) == self.threshold:
                    atom = atom_name(group, other)
                    self.atoms[atom] = (min(group, other), max(group, other))
                    made.append(atom)
            theirs.add(group)
        self.groups[group] |= members
        return Change(made=tuple(sorted(made)))

    def _leave(self, group: str, members: frozenset[str]) -> Change:
        retired: list[str] = []
        for member in members:
            theirs = self._groups_of[member]
            theirs.remove(group)
            for other in theirs:
                if self._count(group, other, -1) == self.threshold - 1:
                    atom = atom_name(group, other)
                    del self.atoms[atom]
                    retired.append(atom)
            if not theirs:
                del self._groups_of[member]
        self.groups[group] -= members
        return Change(retired=tuple(sorted(retired)))

    def _count(self, group: str, other: str, change: int) -> int:
        shared = self._shared[group].get(other, 0) + change
        for one, two in ((group, other), (other, group)):
            if shared:
                self._shared[one][two] = shared
            else:
                del self._shared[one][two]
        return shared
