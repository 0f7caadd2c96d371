"""Weakened engines in a world whose topics, nodes and patterns are not fixed: each breaks one rule, and only that."""

from __future__ import annotations

from unisono.engines.effects import Decide, Effect, Send
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.recovery import Recovery, recover
from unisono.engines.takeover.requests import Requests
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.model.frames import EpochNotice, Join, Refused, Replan, Routed, Stamped


class ForgetsPatterns(Finisher):
    """Begins an epoch without registering those who hold a pattern: they will hear of the topic anyhow."""

    def _recover(self) -> Recovery:
        intent = self.control.intent
        assert intent is not None
        return recover(self.read, self.control.epoch, intent.rank, intent.reports)


class GuessesFloors(MovingSubscriber):
    """A new topic is owed from the first event of it that arrives."""

    def _admit_matches(self, notice: EpochNotice) -> None:
        first = {topic: events[0].number - 1 for topic, events in self.strays.items() if events}
        super()._admit_matches(EpochNotice(notice.epoch, notice.numbers | first, notice.voids, notice.gone))


class DropsStrays(MovingSubscriber):
    """What comes of a topic before its epoch is known is nobody's."""

    def _stray(self, event: Stamped) -> None:
        pass


class EntersUntold(MovingSubscriber):
    """Enters an epoch before it knows whether its patterns count in it."""

    def _is_open(self, epoch: int) -> bool:
        return True


class JoinsWithoutPatterns(Member):
    """Registers what it holds by name, and not what its patterns stand for in this epoch."""

    def _send_join(self, now: float) -> list[Effect]:
        effects = super()._send_join(now)
        control = self.control
        if control is None or not self.new or not effects or control.join_path(self.held) is None:
            return effects
        path = control.join_path(self.held) or ()
        join = Join(self.registration(self.held), tuple(sorted(self.new)), control.epoch, {}, path[1:])
        return [Send(control.owner[path[0]], Routed(path[0], join))]


class AsksOnce(Publisher):
    """Asks for a topic when it has the first event for it, and never again."""

    has_asked = False

    def _ask(self, now: float) -> list[Effect]:
        effects = [] if self.has_asked else super()._ask(now)
        self.has_asked = True
        self.ask_at = None
        return effects


class NoQuotas(Requests):
    """Whoever asks for a topic gets it."""

    def _new_topics(self, replan: Replan, control: Control) -> tuple[tuple[str, ...], Refused | None]:
        return tuple(t for t in (*replan.topics, *replan.wants) if t not in control.owner), None


class GivesWhatIsAskedFor(ManagerNode):
    """A leader without quotas."""

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        self.planner.requests.__class__ = NoQuotas
        return super()._controlled(control, now)


class CutsTooFar(ManagerNode):
    """Truncates a lane up to and with the beginning of the epoch it serves: an epoch too far."""

    def _cut(self, lane: str, control: Control) -> int:
        return control.begins.get(lane, 0) if control.epoch else 0


class ReadsTooLate(Finisher):
    """Reads a sealed lane from behind the record that begins the epoch: events come later, after all."""

    def _after(self, lane: str) -> int:
        return self.control.begins.get(lane, 0)


class ForgetsViews(Finisher):
    """Registers those who hold patterns, and not the views: nobody listens, after all."""

    def _recover(self) -> Recovery:
        control, intent = self.control, self.control.intent
        assert intent is not None
        holders = list(control.patterns.values())
        return recover(self.read, control.epoch, intent.rank, intent.reports, holders, intent.gone)


class KeepsWhatItGives(ManagerNode):
    """Plans that a node leaves, and lets it keep its topics."""

    def handle(self, input: object, now: float) -> list[Effect]:
        """The owners stay as they are."""
        before = self.control
        effects = super().handle(input, now)  # type: ignore[arg-type]
        return [self._kept(effect, before) if isinstance(effect, Decide) else effect for effect in effects]

    def _kept(self, decide: Decide, before: Control | None) -> Decide:
        control = decide.control
        if before is not None and control.state == "sealing" and set(before.nodes) > set(control.nodes):
            object.__setattr__(control, "owner", before.owner)
            object.__setattr__(control, "lanes", before.lanes)
        return decide
