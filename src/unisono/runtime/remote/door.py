"""Who may come in as what: the words of a topic, which a server's permissions vouch for, say who sends.

The engines see to it that everybody speaks for itself. What they cannot know is that a name is a client's.
"""

from __future__ import annotations

from collections.abc import Container

from unisono.model.frames import Message, Replan
from unisono.runtime.remote.wire import RERANK

ADMIN = "admin"  # the client that may change ranks and owners
OPERATOR = f"{ADMIN}.{RERANK}"


def refusal(source: str, message: Message | None, nodes: Container[str]) -> str | None:
    """Why a client's message is not let in; None if it is."""
    client = source.partition(".")[0]
    if client in nodes:
        return f"'{client}' is the name of a node"
    if isinstance(message, Replan) and message.alive:
        return f"'{source}' is a client, and wants to be counted as node '{message.alive}'"
    return None
