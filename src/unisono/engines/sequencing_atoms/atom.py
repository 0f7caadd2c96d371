"""The sequencing side: the ingress of a group, and the atoms on its path."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Self

from unisono.engines.effects import Announce, Effect, Reject, Send
from unisono.engines.inputs import Input, Received
from unisono.engines.sequencing_atoms.graph import AtomGraph
from unisono.model.errors import FrameError
from unisono.model.frames import Create, Entries, Fill, Publication, Sequenced, Stamped


def atom_address(atom: str) -> str:
    """Where an atom is reached on the links."""
    return "atom/" + atom


class _Counter:
    """What ingress and atoms share: one number, and passing messages on."""

    number = 0  # the newest number taken

    def next_timer(self) -> float | None:
        """Sequencing never waits."""
        return None

    def check(self) -> None:
        """Numbers are counted from 1."""
        assert self.number >= 0

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return self.number


class Ingress(_Counter):
    """Where the messages of one group enter, and get the numbers of the group."""

    def __init__(self, group: str, graph: AtomGraph) -> None:
        self.group = group
        self.path = graph.paths[group]
        self.atoms = graph.atoms_by_group[group]

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Received(_, Create(publication)) if publication.topic == self.group:
                self.number += 1
                return _pass_on(publication, {self.group: self.number}, self.atoms, self.path)
        return [Reject(FrameError(f"the ingress of '{self.group}' cannot use {type(input).__name__}"))]


class Atom(_Counter):
    """The sequencer of one double overlap; for messages of other groups it is transit."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Received(_, Fill(publication, _, entries, need, rest)):
                if self.name in need:
                    self.number += 1
                    entries = entries | {self.name: self.number}
                return _pass_on(publication, entries, need, rest)
        return [Reject(FrameError(f"atom '{self.name}' cannot use {type(input).__name__}"))]


def _pass_on(
    publication: Publication, entries: Entries, need: tuple[str, ...], rest: tuple[str, ...]
) -> list[Effect]:
    if rest:
        return [Send(atom_address(rest[0]), Fill(publication, 0, entries, need, rest[1:]))]
    topic, id = publication.topic, publication.id
    return [
        Announce((topic,), Stamped(publication, 0, entries)),
        Send(publication.publisher, Sequenced(topic, id, 0, entries)),
    ]
