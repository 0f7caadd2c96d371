"""Where a topic's manager is reached on the links; the host maps addresses to nodes."""

from __future__ import annotations

_PREFIX = "manager/"


def manager_address(topic: str) -> str:
    """The address of the manager of `topic`."""
    return _PREFIX + topic
