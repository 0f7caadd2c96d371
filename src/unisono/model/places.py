"""Where durable subscribers are: what is stored for each of them, and what clients and nodes say about it."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, array_like=True):
    """How far a durable subscriber is. Its events are counted 1, 2, 3 and so on from where it began."""

    name: str
    names: tuple[str, ...]  # its topics and patterns, sorted
    session: str = ""  # who holds it, or held it last
    is_held: bool = False
    renewed: int = 0  # counts up with every change
    epoch: int = -1  # of the last event that was acknowledged; -1: it has no beginning yet
    clock: dict[str, int] = {}  # topic -> the last number of it that was acknowledged
    acknowledged: int = 0  # how many events were
    handed: int = 0  # how many may have been handed to the application
    saved_at: float = 0.0  # seconds since 1970 by a node's clock, for people; nothing depends on it


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """A session to a node: let me hold this place. One that is held is taken only from the session in `over`."""

    name: str
    session: str
    names: tuple[str, ...]
    over: str = ""
    renewed: int = -1  # and only if it has not been renewed since; -1: in any case


class Save(msgspec.Struct, frozen=True, array_like=True, tag="save"):
    """A session to a node: this is how far I am, and whether I still hold the place."""

    session: str
    place: Place


class Placed(msgspec.Struct, frozen=True, array_like=True, tag="placed"):
    """A node to a session: the place as it is now; None if there is none. A reason if what was asked cannot be."""

    name: str
    place: Place | None
    reason: str = ""


class Survey(msgspec.Struct, frozen=True, array_like=True, tag="survey"):
    """To a node: which places are there, by name, behind this one?"""

    after: str = ""


class Surveyed(msgspec.Struct, frozen=True, array_like=True, tag="surveyed"):
    """The answer: as many as fit, and whether there are more."""

    after: str
    places: tuple[Place, ...]
    is_last: bool = True


class Clear(msgspec.Struct, frozen=True, array_like=True, tag="clear"):
    """To a node: forget a place; one that is held only if that is wanted."""

    name: str
    even_held: bool = False
