"""What a node does about a place: pure rules, to be carried out by compare-and-set.

A place is held by one session at a time. What a session that holds it no longer still sends changes nothing, however
late it comes: sessions never come back, and every change counts `renewed` up. Nobody looks at a clock: whoever wants
a place that is held watches whether it is renewed.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from unisono.model.places import Claim, Clear, Place, Placed, Save


class Ruling(NamedTuple):
    """What is to be written in place of what was looked at, if anything, and what is answered then."""

    write: Place | None
    answer: Placed


def rule_claim(place: Place | None, claim: Claim) -> Ruling:
    """A session wants to hold a place, or to begin it."""
    if place is None:
        return _write(Place(claim.name, claim.names, claim.session, True, 1))
    if place.session == claim.session:
        return _as_it_is(place)  # it holds it, or has let go of it
    if place.names != claim.names:
        return Ruling(
            None,
            Placed(
                place.name,
                place,
                f"'{place.name}' keeps a place in {', '.join(place.names)}, not in {', '.join(claim.names)}: "
                "subscribe to these, choose another name, or remove the place (`unisono places remove`)",
            ),
        )
    if place.is_held and not _is_given_up(place, claim):
        return _as_it_is(place)
    return _write(
        msgspec.structs.replace(place, session=claim.session, is_held=True, renewed=place.renewed + 1)
    )


def rule_save(place: Place | None, save: Save) -> Ruling:
    """A session says how far it is."""
    if place is None:
        return Ruling(None, Placed(save.place.name, None))
    if not place.is_held or place.session != save.session or save.place.renewed <= place.renewed:
        return _as_it_is(place)
    if fault := _fault(place, save.place):
        return Ruling(None, Placed(place.name, place, fault))
    return _write(save.place)


def rule_clear(place: Place | None, clear: Clear) -> Ruling:
    """Somebody wants a place to be forgotten; a reason why it is not."""
    if place is None:
        why = f"there is no durable subscriber '{clear.name}'; see `unisono places list`"
        return Ruling(None, Placed(clear.name, None, why))
    if place.is_held and not clear.even_held:
        why = f"'{clear.name}' is held by '{place.session}'; end that one first, or use --force"
        return Ruling(None, Placed(clear.name, place, why))
    return Ruling(None, Placed(clear.name, None))


def _write(place: Place) -> Ruling:
    return Ruling(place, Placed(place.name, place))


def _as_it_is(place: Place) -> Ruling:
    return Ruling(None, Placed(place.name, place))


def _is_given_up(place: Place, claim: Claim) -> bool:
    return claim.over == place.session and claim.renewed in (-1, place.renewed)


def _fault(place: Place, new: Place) -> str:
    """Why a place cannot follow another, if it cannot."""
    if (new.name, new.names, new.session) != (place.name, place.names, place.session):
        return "a save changes neither the name, nor the topics, nor the session of a place"
    if new.acknowledged < place.acknowledged or new.epoch < place.epoch:
        return "what was acknowledged stays acknowledged"
    if new.handed < new.acknowledged:
        return "what was acknowledged was handed out"
    if any(new.clock.get(topic, 0) < number for topic, number in place.clock.items()):
        return "clocks do not go back"
    return ""
