"""Which release of unisono says something: nodes and clients of two releases work side by side, older ones are refused.

Three rules let release N and release N-1 share a system (docs/operations.md, "Upgrading"):

1. The version byte before everything that travels or is stored (`unisono.model.codec`) changes only in a release that
   still reads the one before, and writes it.
2. Under the same byte, fields are only added: at the end, with a default. Who does not know them ignores them.
3. A message that the release before does not know is sent only to those who speak a release that does.

Nodes say with each sign of life, and with the control record, which release they speak and which is the oldest that
they work beside. Whoever says nothing speaks release 1.
"""

from __future__ import annotations

SPEAKS = 3  # raised by a release that adds a message, or a field that means something
RETAINS = 2  # the first that keeps a history
BUNDLES = 3  # the first that takes many events at once
ATOMS = 3  # the first that knows how the work is spread (`sequencer`)
OLDEST = 1  # the oldest release that this one works beside


def strange(speaks: int, oldest: int) -> str | None:
    """Why somebody who speaks `speaks`, and works beside `oldest` and newer, is none to work with; None if fine."""
    if oldest > SPEAKS:
        return f"it is too new: it works beside release {oldest} or newer, and this is {SPEAKS}; upgrade this one first"
    if speaks < OLDEST:
        return (
            f"it is too old: it speaks release {speaks}, and this one works beside {OLDEST} or newer; upgrade that one, "
            "release by release"
        )
    return None
