"""What can happen in a moving world: the script, and what follows from it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from unisono.engines.effects import Append
from unisono.model.frames import Notification, Packet
from unisono.sim.moving.storage import Answer, Request
from unisono.sim.moving.world import Happening
from unisono.sim.network import Weather


class Sender(NamedTuple):
    """One life of a process."""

    process: str
    life: int


class Arrival(NamedTuple):
    """A packet reaches an address."""

    sender: Sender
    source: str
    to: str
    packet: Packet


class Notice(NamedTuple):
    """A notification reaches a member."""

    sender: Sender
    to: str
    notification: Notification


class Asked(NamedTuple):
    """A request reaches the storage."""

    sender: Sender
    request: Request


class StoredLate(NamedTuple):
    """An append that was accepted is stored at last, or once more."""

    sender: Sender
    append: Append
    answers: bool


class Answered(NamedTuple):
    """An answer reaches who asked."""

    sender: Sender
    answer: Answer


class Reply(NamedTuple):
    """A member publishes because of what it has just seen."""

    member: Sender
    topic: str


class Wake(NamedTuple):
    """A timer runs out."""

    address: str
    at: float


class Watch(NamedTuple):
    """A process is told of the control record."""

    process: str


class Beat(NamedTuple):
    """A node gives a sign of life, and looks who has given none."""

    node: str


class Return(NamedTuple):
    """The next life of a process begins."""

    process: str


class Resume(NamedTuple):
    """A pause is over."""

    process: str


class Heal(NamedTuple):
    """No more harm is done."""


class Check(NamedTuple):
    """Look whether the world has come to rest."""


Occurrence: TypeAlias = (
    Arrival
    | Notice
    | Asked
    | StoredLate
    | Answered
    | Reply
    | Wake
    | Watch
    | Beat
    | Return
    | Resume
    | Weather
    | Heal
    | Check
    | Happening
)
