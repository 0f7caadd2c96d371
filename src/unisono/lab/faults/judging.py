"""Whether a run kept its promises: diaries become a history, and the judges of `unisono.history` decide."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec

from unisono.history import Kind, Outcome, Record, judge
from unisono.lab.faults.diary import Entry

PROMISES = (
    "no_creation",
    "no_duplication",
    "publisher_fifo",
    "total_notification_order",
    "nothing_lost",
)


class Deed(msgspec.Struct):
    """Something that was done to a process, and when."""

    kind: str
    target: str
    at: float
    healed_at: float = 0.0
    how: str = ""
    topics: tuple[str, ...] = ()  # that it concerns


class Resumed(msgspec.Struct, frozen=True):
    """How long after a fault every topic had its next acknowledged event."""

    kind: str
    seconds: float


class Judgement(msgspec.Struct):
    """What came of a run."""

    published: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    duplicates: int = 0
    violations: list[str] = []


class Life:
    """One subscription, from when it was confirmed until its process stopped, was killed, or gave up.

    A durable one goes on over the deaths of its process; what it may have had already, it may get again.
    """

    def __init__(self, name: str, opened: Entry) -> None:
        self.name = name
        self.opened = opened
        self.topics = opened.topics
        self.delivered: list[Entry] = []
        self.last = opened
        self.is_last = False  # of its process

    @property
    def lived_through(self) -> bool:
        """Whether it was there at the end, or gave up by itself: then everything is owed."""
        return self.last.what in ("stopped", "ended") or self.is_last

    def owed(self, acknowledged: Mapping[str, list[tuple[int, float, str]]]) -> dict[str, tuple[int, int]]:
        """Above which number each topic is owed, and up to which."""
        spans = {}
        for topic in self.topics:
            mine = [entry.number for entry in self.delivered if entry.topic == topic]
            after = [number for number, at, _ in acknowledged.get(topic, ()) if at > self.opened.at]
            first = min(min(mine, default=2**62), min(after, default=2**62))
            spans[topic] = (first - 1, 2**62 if self.lived_through else max(mine, default=0))
        return spans

    def missing(self, acknowledged: Mapping[str, list[tuple[int, float, str]]]) -> list[str]:
        """Acknowledged events that it was owed and has not got."""
        got = {entry.id for entry in self.delivered}
        return [
            id
            for topic, (above, up_to) in self.owed(acknowledged).items()
            for number, _, id in acknowledged.get(topic, ())
            if above < number <= up_to and id not in got
        ]


class Story:
    """All diaries of a run, put together."""

    def __init__(
        self,
        publishers: Mapping[str, list[Entry]],
        subscribers: Mapping[str, list[Entry]],
        durable: Container[str] = (),
    ) -> None:
        self.publishers = publishers
        self.published = {
            entry.id: entry for diary in publishers.values() for entry in diary if entry.what == "published"
        }
        self.acks = [
            entry for diary in publishers.values() for entry in diary if entry.what == "acknowledged"
        ]
        self.acknowledged: dict[str, list[tuple[int, float, str]]] = {}  # number, first published at, id
        for ack in self.acks:
            first_at = self.published[ack.id].at
            self.acknowledged.setdefault(ack.topic, []).append((ack.number, first_at, ack.id))
        self.lives = [
            life
            for name, diary in subscribers.items()
            for life in _lives(name, _joined_up(diary) if name in durable else diary)
        ]

    @property
    def open_ids(self) -> set[str]:
        """Published, and not acknowledged."""
        return self.published.keys() - {ack.id for ack in self.acks}

    def missing(self) -> int:
        """How many deliveries are owed."""
        return sum(len(life.missing(self.acknowledged)) for life in self.lives)

    def resumed(self, deed: Deed) -> float | None:
        """How long after it every topic it concerns had an acknowledged event that was published after it."""
        first: dict[str, float] = {}
        for ack in self.acks:
            if self.published[ack.id].at > deed.at:
                first[ack.topic] = min(ack.at, first.get(ack.topic, ack.at))
        times = [first[topic] for topic in deed.topics if topic in first]
        return max(times) - deed.at if len(times) == len(deed.topics) and times else None

    def judge(self) -> Judgement:
        """Count, and let the judges decide."""
        result = Judgement(
            len(self.published), len(self.acks), sum(len(life.delivered) for life in self.lives)
        )
        numbers = {ack.id: ack.number for ack in self.acks}
        for life in self.lives:
            missing = life.missing(self.acknowledged)
            result.lost += len(missing) + sum(entry.missed for entry in life.delivered)
            result.duplicates += len(life.delivered) - len({entry.id for entry in life.delivered})
            for entry in life.delivered:
                if numbers.get(entry.id, entry.number) != entry.number:
                    result.violations.append(
                        f"{entry.id} was acknowledged as number {numbers[entry.id]} of {entry.topic}, "
                        f"and {life.name} got it as {entry.number}"
                    )
                    break
        for verdict in judge(self.records(), PROMISES):
            if verdict.outcome is not Outcome.HELD:
                result.violations.append(f"{verdict.promise} {verdict.outcome}: {verdict.explanation}")
        return result

    def records(self) -> Iterable[Record]:
        """The run as a history."""
        for name, diary in self.publishers.items():
            for seq, entry in enumerate(diary, start=1):
                if entry.what == "published":
                    yield Record(Kind.PUBLISHED, name, seq, entry.at, entry.id, entry.topic)
                elif entry.what == "acknowledged":
                    yield Record(
                        Kind.SEQUENCED, name, seq, entry.at, entry.id, entry.topic, entry.number, epoch=1
                    )
        for life in self.lives:
            yield from self._records_of(life)
        yield Record(Kind.HEALED, "run", 1, 0.0)

    def _records_of(self, life: Life) -> Iterable[Record]:
        seq = 0
        for topic, (above, _) in life.owed(self.acknowledged).items():
            seq += 1
            yield Record(
                Kind.SUBSCRIBED,
                life.name,
                seq,
                life.opened.at,
                "",
                topic,
                above,
                order="total",
                on_gap="wait",
            )
        for entry in life.delivered:
            seq += 1
            yield Record(Kind.DELIVERED, life.name, seq, entry.at, entry.id, entry.topic, entry.number)
        if not life.lived_through:
            for topic in life.topics:
                seq += 1
                yield Record(Kind.UNSUBSCRIBED, life.name, seq, life.last.at, "", topic)


def _joined_up(diary: list[Entry]) -> list[Entry]:
    """The lives of a durable subscriber as one, without what was told again and said so."""
    joined, had, opened = list[Entry](), set[str](), False
    for entry in diary:
        if entry.what == "opened":
            if opened:
                continue
            opened = True
        if entry.redelivered and entry.id in had:
            continue
        had.add(entry.id)
        joined.append(entry)
    return joined


def _lives(name: str, diary: list[Entry]) -> list[Life]:
    lives: list[Life] = []
    for entry in diary:
        if entry.what == "opened":
            lives.append(Life(f"{name}#{len(lives) + 1}", entry))
        elif lives:
            lives[-1].last = entry
            if entry.what == "delivered":
                lives[-1].delivered.append(entry)
    if lives:
        lives[-1].is_last = True
    return lives
