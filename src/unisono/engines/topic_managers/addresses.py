"""Where a topic's manager is reached on the links; the host maps addresses to nodes."""

from __future__ import annotations

_PREFIX = "manager/"


def manager_address(topic: str) -> str:
    """The address of the manager of `topic`."""
    return _PREFIX + topic


def topic_of(address: str) -> str | None:
    """The topic whose manager has this address; None if it is not a manager's."""
    return address.removeprefix(_PREFIX) if address.startswith(_PREFIX) else None
