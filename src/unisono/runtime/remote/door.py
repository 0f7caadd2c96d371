"""Who may come in as what: the words of a topic, which a server's permissions vouch for, say who sends.

The engines see to it that everybody speaks for itself. What they cannot know is that a name is a client's: a client
asks for numbers, joins, repairs, topics, patterns and places, and says that it is alive; whatever nodes tell each other is not
believed from it.
"""

from __future__ import annotations

from collections.abc import Container

from unisono.model.bundles import Bundle
from unisono.model.frames import Create, Join, Message, Nack, Publication, Recall, Replan, Report, Routed
from unisono.model.places import Claim, Clear, Save, Survey
from unisono.runtime.remote.wire import RERANK

ADMIN = "admin"  # the client that may change ranks and owners
OPERATOR = f"{ADMIN}.{RERANK}"
STAMP_ROOM = 32 * 1024  # of a frame, for what nodes add to an event
SIZE_MOST = 4  # times the bytes of its frame, which we may count for an event or a bundle
ANSWER_S = 0.02  # a client is answered once in so long; all its buses hear it
ASKERS_MAX = 4096


class Door:
    """What a node lets in."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._event_bytes_max = frame_bytes_max - STAMP_ROOM
        self._answered: dict[tuple[str, str], float] = {}

    def refusal(
        self, source: str, message: Message | None, nodes: Container[str], frame_bytes: int
    ) -> str | None:
        """Why a client's message, which came in a frame of so many bytes, is not let in; None if it is."""
        client = source.partition(".")[0]
        if client in nodes:
            return f"'{client}' is the name of a node"
        is_small = SIZE_MOST * frame_bytes <= self._event_bytes_max
        if is_small and type(message) is Routed and type(message.message) is Create:
            return None  # nearly all that is ever asked
        match message:
            case Routed(_, Create(publication)):
                if _size(publication) > self._event_bytes_max:
                    return f"an event of '{source}' is over the limit of {self._event_bytes_max} bytes"
                return None
            case Bundle():
                if not is_small and message.size > self._event_bytes_max:
                    return f"a bundle of '{source}' is over the limit of {self._event_bytes_max} bytes"
                return None
            case None | Report() | Recall() | Routed(_, Nack()) | Survey() | Clear():
                return None
            case Claim(_, session) | Save(session):
                return None if session == source else f"'{source}' speaks for '{session}'"
            case Routed(_, Join() as join) if not join.reached:
                return None
            case Replan():
                return (
                    None
                    if not message.alive
                    else f"'{source}' is a client, and wants to be counted as a node"
                )
        return f"'{source}' is a client, and sends what nodes send: {type(message).__name__}"

    def may_ask(self, client: str, part: str, now: float) -> bool:
        """Whether a question is answered: not if an answer to the same one has just been sent."""
        if now - self._answered.get((client, part), -1.0) < ANSWER_S:
            return False
        if len(self._answered) >= ASKERS_MAX:
            self._answered.clear()
        self._answered[client, part] = now
        return True


def _size(publication: Publication) -> int:
    """Roughly how many bytes an event takes."""
    headers = (
        sum(len(key) + len(value) for key, value in publication.headers.items()) if publication.headers else 0
    )
    words = len(publication.topic) + len(publication.publisher) + len(publication.key or "")
    return len(publication.body) + 4 * (headers + words)
