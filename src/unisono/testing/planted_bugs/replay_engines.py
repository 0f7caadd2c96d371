"""Weakened engines in a world that tells its past: each breaks one rule, and only that."""

from __future__ import annotations

from msgspec.structs import replace

from unisono.engines.chronicle.chronicler import Chronicler
from unisono.engines.chronicle.order import in_order
from unisono.engines.chronicle.telling import tell
from unisono.engines.effects import Effect
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.recalling import Recalling, Start
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.frames import Recall, Recalled, Stamped


class SortsOwnTopics(Chronicler):
    """Sorts what is asked for, and leaves out what lies between."""

    def _tell(self, recall: Recall) -> Recalled:
        answer = tell(self.library, recall)
        return replace(answer, events=tuple(in_order(answer.events)))


class TellsAnyOrder(Chronicler):
    """Tells events that no stamp relates the way it likes: to every asker another."""

    def _tell(self, recall: Recall) -> Recalled:
        answer = tell(self.library, recall)
        if sum(recall.subscriber.encode()) % 2:
            return answer
        events = list(answer.events)
        for i in range(len(events) - 1):
            if _are_unrelated(events[i], events[i + 1]):
                events[i], events[i + 1] = events[i + 1], events[i]
        return replace(answer, events=tuple(events))


def _are_unrelated(one: Stamped, other: Stamped) -> bool:
    return one.topic not in other.entries and other.topic not in one.entries


class KeepsAnyhow(Chronicler):
    """Tells the past of a system that does not count it as a subscriber."""

    def learn(self, control: Control) -> None:
        super().learn(control)
        self.is_kept = True


def with_chronicler(kind: type[Chronicler]) -> type[ManagerNode]:
    """A node that tells the past in this way."""

    class Node(ManagerNode):
        def __init__(self, name: str, settings: NodeSettings, managers: ManagerSettings) -> None:
            super().__init__(name, settings, managers)
            self.chronicler = kind()

    return Node


class AddsThePast(Member):
    """Adds a topic with all its past, whatever it has been told of others."""

    def _change(
        self,
        add: tuple[tuple[str, ...], tuple[str, ...]],
        remove: tuple[tuple[str, ...], tuple[str, ...]],
        now: float,
    ) -> list[Effect]:
        if add[0] and self.topics:
            self.recalling = Recalling(self.name, Start(), self.join_s)
            return self._hope(add[0], now)
        return super()._change(add, remove, now)
