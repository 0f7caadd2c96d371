"""A node tells the past, in the order of the log, to subscribers that come late or were away.

Every answer follows from the lanes alone. Whoever asks may ask another node the next time, or ask again; nothing is
kept here that would be missed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from unisono.engines.chronicle.library import Library, UnreadError
from unisono.engines.chronicle.mending import mend
from unisono.engines.chronicle.telling import tell
from unisono.engines.effects import Effect, Read, Reject, Send
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.control import Control
from unisono.model.errors import FrameError
from unisono.model.frames import Nack, Recall, Recalled, Refused

ASKING_MAX = 4096  # questions that wait for an answer; whoever asks more asks again
NAMES_MAX = 20_000  # topics and patterns in one question
AGAIN_S = 1.0  # a piece of a lane that did not come is asked for again after this, if somebody still waits


class Chronicler:
    """What one node has read of the past, and who waits for it."""

    def __init__(self) -> None:
        self.library = Library()
        self.is_kept = False  # whether the system keeps its history at all
        self._asking: dict[tuple[str, str], Recall | Nack] = {}  # by subscriber and topic
        self._asked: dict[tuple[str, int, int | None], float] = {}  # pieces that are being read, since when

    def learn(self, control: Control) -> None:
        """The control record has changed."""
        self.library.chapters.learn(control)
        self.is_kept = control.retained

    def recall(self, recall: Recall, now: float) -> list[Effect]:
        """Somebody asks for the past; an earlier question of theirs is of no interest any more."""
        if not self.is_kept:
            return [
                Send(
                    recall.subscriber,
                    Refused(
                        "this system keeps no history; a first node with --retain-records makes one that does"
                    ),
                )
            ]
        is_sound = recall.until >= 0 and recall.epoch >= -1 and recall.index >= 0
        if not is_sound or not 0 < len(recall.names) <= NAMES_MAX:
            return [Reject(FrameError(f"'{recall.subscriber}' asks for a past that cannot be"))]
        return self._take(recall.subscriber, "", recall, now)

    def mend(self, nack: Nack, now: float) -> list[Effect]:
        """Somebody misses what no ring holds any more."""
        return self._take(nack.subscriber, nack.topic, nack, now)

    def _take(self, subscriber: str, topic: str, question: Recall | Nack, now: float) -> list[Effect]:
        self._asking.pop((subscriber, topic), None)
        if len(self._asking) < ASKING_MAX:
            self._asking[subscriber, topic] = question
        return self._go_on(now)

    def read_back(self, piece: ReadBack, now: float) -> list[Effect]:
        """A piece of a lane is here."""
        where = (piece.lane, piece.after)
        self._asked = {key: since for key, since in self._asked.items() if key[:2] != where}
        if not self._asking:
            return []  # somebody else has asked for it
        self.library.read_back(piece)
        return self._go_on(now)

    def _go_on(self, now: float) -> list[Effect]:
        """Answer whom we can, and ask for what is needed for the others."""
        effects: list[Effect] = []
        for key, question in list(self._asking.items()):
            if isinstance(question, Recall) and question.until > self.library.chapters.newest:
                continue  # we have not heard of that epoch yet
            try:
                if isinstance(question, Recall):
                    effects.append(Send(key[0], self._tell(question)))
                else:
                    effects.append(Send(key[0], mend(self.library, question)))
                del self._asking[key]
            except UnreadError as unread:
                effects += self._ask(unread.pieces, now)
        return effects + (self._go_on(now) if self.library.tidy() else [])  # there is room now

    def _tell(self, recall: Recall) -> Recalled:
        return tell(self.library, recall)

    def _ask(self, pieces: Iterable[Read], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for piece in pieces:
            key = (piece.lane, piece.after, piece.limit)
            if now - self._asked.get(key, -AGAIN_S) >= AGAIN_S:
                self._asked[key] = now
                effects.append(piece)
        return effects

    # For the explorer and the simulator.

    def copy(self) -> Chronicler:
        """An independent twin."""
        twin = type(self)()
        twin.library, twin.is_kept = self.library.copy(), self.is_kept
        twin._asking, twin._asked = dict(self._asking), dict(self._asked)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        asking = tuple((key, str(question)) for key, question in self._asking.items())
        return (self.library.state(), self.is_kept, asking, tuple(sorted(self._asked.items(), key=str)))
