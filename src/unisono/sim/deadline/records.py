"""What happened in a world of deadline-causal order, as the records that processes would have kept of it."""

from __future__ import annotations

from collections import Counter

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import Accept, Effect
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.history.record import Kind, Record
from unisono.sim.deadline.simulation import AS_THEY_ARE, DeadlineSimulation, Makers, Process
from unisono.sim.deadline.world import DeadlineWorld

PATIENCE_S = 3600.0  # of who has no deadline of its own


class Recorded(DeadlineSimulation):
    """A world whose processes keep records, by their own clocks."""

    def __init__(self, world: DeadlineWorld, makers: Makers = AS_THEY_ARE) -> None:
        super().__init__(world, makers, checks=False)
        self.records: list[Record] = []
        self._seqs: Counter[str] = Counter()
        self._patience = {s.name: s.patience_s for s in world.subscribers if s.patience_s is not None}

    def _record(self, kind: Kind, who: str, event: str = "", topic: str = "", **more: object) -> None:
        self._seqs[who] += 1
        at = self.kernel.now + self.processes[who].ahead_s
        fields = {"event": event, "topic": topic, **more}
        self.records.append(Record(kind, who, self._seqs[who], at, **fields))  # type: ignore[arg-type]

    def _add(self, name: str, process: Process, reserve: int) -> None:
        self.processes[name] = process
        self._topics_joined(name, sorted(process.engine.hold.mine))
        super()._add(name, process, reserve)

    def _topics_joined(self, who: str, topics: list[str]) -> None:
        patience = self._patience.get(who, PATIENCE_S)
        for topic in topics:
            self._record(Kind.SUBSCRIBED, who, topic=topic, order="causal", on_gap="skip", deadline=patience)

    def _topics_changed(self, who: str, joined: list[str], left: list[str]) -> None:
        super()._topics_changed(who, joined, left)
        self._topics_joined(who, joined)
        for topic in left:
            self._record(Kind.UNSUBSCRIBED, who, topic=topic)

    def _say(self, who: str, process: Process, topic: str, lives_s: float) -> None:
        until = self.kernel.now + process.ahead_s + lives_s
        self._record(Kind.PUBLISHED, who, f"{who}/0/{self.said.get(who, 0) + 1}", topic, deadline=until)
        super()._say(who, process, topic, lives_s)

    def _carry_out(self, who: str, process: Process, effect: Effect) -> None:
        engine = process.engine
        match effect:
            case Accept(id) if isinstance(engine, Broker):
                event = next(e for e in engine.cache.values() if e.publication.id == id)
                stamp = {"/".join(s): n for s, n in (*event.past.items(), (event.stream, event.stamp))}
                due = engine.settings.due_at(event.last - engine.settings.reserve)
                self._record(
                    Kind.TOLD, who, str(id), event.topic, number=event.stamp, stamp=stamp, deadline=due
                )
            case Deliver(event):
                self._record(Kind.DELIVERED, who, str(event.publication.id), event.topic)
            case Discard(event, reason):
                self._record(Kind.DROPPED, who, str(event.publication.id), event.topic, reason=reason)
        super()._carry_out(who, process, effect)


def record_world(world: DeadlineWorld, makers: Makers = AS_THEY_ARE) -> list[Record]:
    """Run a world; the records of all its processes, each in its own order."""
    simulation = Recorded(world, makers)
    simulation.run()
    simulation.records.append(Record(Kind.HEALED, "world", 1, world.ends_at))
    return sorted(simulation.records, key=lambda record: (record.process, record.seq))
