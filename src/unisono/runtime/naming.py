"""Names for those who did not choose one."""

from __future__ import annotations

import re
import secrets

from unisono.ens.port import EventNotificationService

_CLIENT = re.compile(r"[A-Za-z0-9_-]+")


def made_up_name(service: EventNotificationService) -> str:
    """A name nobody else has; it begins with whom the broker takes us for, where it asks."""
    user = getattr(getattr(service, "address", None), "user", None)
    mine = f"bus-{secrets.token_hex(4)}"
    return mine if user in (None, "node") or not _CLIENT.fullmatch(user) else f"{user}.{mine}"
