"""The order of the log, and how it is told."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import permutations
from random import Random

from unisono.engines.chronicle import Chronicler, in_order
from unisono.engines.chronicle.reading import Reading
from unisono.engines.effects import Append, Read, Reject, Send, Truncate
from unisono.engines.inputs import ReadBack
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Control, first_control
from unisono.model.frames import EpochNotice, Nack, Publication, Recall, Recalled, Refused, Repair, Stamped
from unisono.model.lanes import BundleRecord, EpochRecord, EventRecord, SealRecord
from unisono.model.runs import bundle_of
from unisono.sim.moving.storage import Storage


def event(topic: str, at: float = 0.0, **entries: int) -> Stamped:
    return Stamped(Publication(topic, 1, entries[topic], topic, published_at=at), 1, entries)


def names(events: list[Stamped]) -> list[str]:
    return [f"{event.topic}{event.number}" for event in events]


def test_what_stamps_say_comes_first() -> None:
    events = [event("A", A=1, B=2), event("B", B=1), event("B", B=2)]
    assert names(in_order(events)) == ["B1", "B2", "A1"]


def test_unrelated_events_go_by_when_they_were_published() -> None:
    events = [event("B", 2.0, B=1), event("A", 1.0, A=1), event("A", 3.0, A=2), event("C", float("nan"), C=1)]
    for shuffled in permutations(events):
        assert names(in_order(shuffled)) == ["C1", "A1", "B1", "A2"]


def test_events_of_one_moment_go_by_their_publishers() -> None:
    events = [event("B", B=1), event("A", A=1), event("A", A=2)]
    for shuffled in permutations(events):
        assert names(in_order(shuffled)) == ["A1", "A2", "B1"]


def test_a_topic_that_is_left_out_may_lie_between_two_others() -> None:
    """Sorting only one's own topics is wrong: A1 follows C1, which follows B1."""
    events = [event("A", A=1, C=1), event("B", B=1), event("C", C=1, B=1)]
    assert names(in_order(events)) == ["B1", "C1", "A1"]
    assert names(in_order(e for e in events if e.topic != "C")) == ["A1", "B1"]


def test_numbers_that_do_not_exist_are_not_waited_for() -> None:
    assert names(in_order([event("A", A=7, B=9), event("B", B=5)])) == ["B5", "A7"]


def test_a_contradiction_withholds_nothing() -> None:
    events = [event("A", A=1, B=1), event("B", B=1, A=1)]
    assert sorted(names(in_order(events))) == ["A1", "B1"]


def test_the_beginning_does_not_depend_on_what_follows() -> None:
    """A reader at an earlier time, who had everything that its last events follow, was told the same."""
    for seed in range(300):
        random = Random(seed)
        clock = dict.fromkeys("ABCD", 0)
        log: list[Stamped] = []
        for _ in range(12):
            topic = random.choice("ABCD")
            clock[topic] += 1
            known = {x: clock[x] for x in "ABCD" if x != topic and clock[x] and random.random() < 0.5}
            log.append(event(topic, **{topic: clock[topic]}, **known))
        whole = names(in_order(log))
        for cut in range(1, len(log)):
            # A prefix of the row of numbering is closed: whatever an event follows was numbered before it.
            early = names(in_order(log[:cut]))
            assert [name for name in whole if name in early] == early


# Telling.


class Lanes:
    """A log that is written by hand, and a node that tells it."""

    def __init__(self) -> None:
        self.storage = Storage(control_of(0, {"N1": 1, "N2": 1}))
        self.numbers: dict[str, int] = {}
        self.indexes: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        """Another node tells from now on."""
        self.chronicler = Chronicler()
        self.chronicler.learn(self.storage.control)

    def store(self, lane: str, topic: str, at: float = 0.0, **entries: int) -> Stamped:
        """Number and store an event."""
        self.numbers[topic] = number = self.numbers.get(topic, 0) + 1
        publication = Publication("p", 1, number, topic, published_at=at)
        stamped = Stamped(publication, self.storage.control.epoch, {topic: number, **entries})
        self.indexes[lane] = index = self.indexes.get(lane, 0) + 1
        self.storage.carry_out(Append(lane, EventRecord(stamped.epoch, index, stamped), None))
        return stamped

    def next_epoch(self) -> None:
        """Seal, and begin another one."""
        control = self.storage.control
        epoch = control.epoch + 1
        begins = {}
        for lane in ("N1", "N2"):
            self.storage.carry_out(Append(lane, SealRecord(epoch), None))
            notice = EpochNotice(epoch, dict(self.numbers))
            record = EpochRecord(epoch, notice, (), (), before=dict(control.begins))
            begins[lane] = self.storage.carry_out(Append(lane, record, None)).sequence  # type: ignore[union-attr]
        self.indexes.clear()
        self.storage.control = control_of(epoch, begins)
        self.chronicler.learn(self.storage.control)

    def truncate(self, epoch_begins: int, lane: str = "N1") -> None:
        """Forget what is before the record that begins an epoch."""
        records = self.storage.lanes[lane]
        place = next(
            i for i, r in enumerate(records) if isinstance(r, EpochRecord) and r.epoch == epoch_begins
        )
        self.storage.carry_out(Truncate(lane, place))

    def ask(self, question: Recall | Nack, now: float = 0.0) -> Recalled | Repair:
        """What the node answers, whatever it has to read for it."""
        ask = self.chronicler.recall if isinstance(question, Recall) else self.chronicler.mend
        effects = deque(ask(question, now))  # type: ignore[arg-type]
        while effects:
            match effects.popleft():
                case Send(_, (Recalled() | Repair()) as answer):
                    return answer
                case Read() as read:
                    answer = self.storage.carry_out(read)
                    assert isinstance(answer, ReadBack)
                    effects += self.chronicler.read_back(answer, now)
        raise AssertionError("no answer")

    def tell(self, *names: str, until: int, **start: object) -> list[str]:
        """The whole past, page by page."""
        told: list[Stamped] = []
        question = Recall("s", names, until, **start)  # type: ignore[arg-type]
        for _ in range(100):
            answer = self.ask(question)
            assert isinstance(answer, Recalled)
            told += answer.events
            if answer.done:
                return [f"{event.topic}{event.number}" for event in told]
            since = question.since if answer.floors is None else 0.0
            question = Recall("s", names, until, answer.epoch, answer.index, question.clock, since)
        raise AssertionError("no end")


def control_of(epoch: int, begins: dict[str, int]) -> Control:
    plan = Plan(rank=(), parent={}, group={}, epoch=epoch)
    return replace(first_control(plan, {}, ("N1", "N2")), begins=begins, retained=True)


def three_epochs() -> Lanes:
    lanes = Lanes()
    lanes.store("N1", "A", 1.0)
    lanes.store("N2", "B", 2.0)
    lanes.next_epoch()
    lanes.store("N1", "A", 4.0, B=1)
    lanes.store("N2", "B", 3.0)
    lanes.next_epoch()
    lanes.store("N2", "B", 5.0)
    lanes.next_epoch()
    lanes.store("N1", "A", 6.0)
    return lanes


def test_the_past_is_told_epoch_by_epoch() -> None:
    lanes = three_epochs()
    assert lanes.tell("A", "B", until=3) == ["A1", "B1", "B2", "A2", "B3"]
    assert lanes.tell(">", until=2) == ["A1", "B1", "B2", "A2"]
    assert lanes.tell("A", until=3) == ["A1", "A2"]
    assert lanes.tell("C", until=3) == []


def test_epochs_without_anything_of_interest_are_not_read() -> None:
    lanes = three_epochs()
    assert lanes.tell("A", until=3) == ["A1", "A2"]
    assert 2 not in lanes.chronicler.library._read


def test_it_begins_where_it_is_asked_to() -> None:
    lanes = three_epochs()
    assert lanes.tell("A", "B", until=3, clock={"A": 1, "B": 1}) == ["B2", "A2", "B3"]
    assert lanes.tell("A", "B", until=3, clock={"A": 2, "B": 2}, epoch=1) == ["B3"]
    assert lanes.tell("A", "B", until=3, clock={"A": 2, "B": 3}) == []
    assert lanes.tell("A", "B", until=3, since=3.5) == ["A2", "B3"]
    assert lanes.tell("A", "B", until=3, since=99.0) == []
    answer = lanes.ask(Recall("s", ("A", "B"), 3))
    assert isinstance(answer, Recalled)
    assert answer.floors == {"A": 0, "B": 0}


def test_an_answer_says_where_it_begins_when_what_was_asked_for_is_gone() -> None:
    lanes = three_epochs()
    lanes.truncate(1)
    answer = lanes.ask(Recall("s", ("A", "B"), 3, 0, 1))
    assert isinstance(answer, Recalled)
    assert answer.floors == {"A": 1, "B": 1}
    assert [event.number for event in answer.events] == [2, 2]
    lanes.truncate(3, "N2")
    lanes.forget()
    answer = lanes.ask(Recall("s", ("A", "B"), 2, 1, 0))
    assert isinstance(answer, Recalled)
    assert (answer.epoch, answer.floors, answer.events) == (2, {"A": 2, "B": 2}, ())
    lanes.truncate(3, "N1")
    lanes.forget()
    answer = lanes.ask(Recall("s", ("A", "B"), 2, 1, 0))
    assert isinstance(answer, Recalled)
    assert answer.epoch == 3  # not even the end is kept


def test_a_long_past_comes_in_pages_of_bounded_size() -> None:
    lanes = Lanes()
    for _ in range(3000):
        lanes.store("N1", "A")
    lanes.next_epoch()
    answer = lanes.ask(Recall("s", ("A",), 1))
    assert isinstance(answer, Recalled)
    assert len(answer.events) == 1024
    assert lanes.tell("A", until=1) == [f"A{n}" for n in range(1, 3001)]


def test_what_no_ring_holds_is_found_in_the_lanes() -> None:
    lanes = three_epochs()
    for topic, number in (("A", 1), ("B", 2), ("A", 3)):
        answer = lanes.ask(Nack(topic, "s", (number,)))
        assert isinstance(answer, Repair)
        assert [event.number for event in answer.events] == [number]
    late = lanes.store("N1", "A")
    answer = lanes.ask(Nack("A", "s", (late.number,)))
    assert isinstance(answer, Repair)
    assert [event.number for event in answer.events] == [late.number]
    lanes.truncate(1)
    lanes.forget()
    answer = lanes.ask(Nack("A", "s", (1, 2)))
    assert isinstance(answer, Repair)
    assert answer.gone == (1,)


def test_a_number_that_nobody_has_in_a_closed_epoch_is_said_to_be_gone() -> None:
    """Its event died with its node: whoever misses it must not ask for ever."""
    lanes = Lanes()
    lanes.store("N1", "A")
    lanes.numbers["A"] += 1
    lanes.store("N1", "A")
    lanes.next_epoch()
    lanes.numbers["A"] += 1
    answer = lanes.ask(Nack("A", "s", (1, 2, 3, 4)))
    assert isinstance(answer, Repair)
    assert [event.number for event in answer.events] == [1, 3]
    assert answer.gone == (2,)  # of 4 nobody knows yet


def test_a_lane_of_bundles_is_read_in_pieces_of_few_records() -> None:
    """Bundles hold many events: what is asked for at once is bounded by events, not by records."""
    reading = Reading(0, {"N1": 0})
    (read,) = reading.wanted()
    asked = [read.limit]
    for _ in range(3):
        after, number = read.after, 1000 * read.after
        assert read.limit is not None
        records = [bundle(after + i + 1, number + 1000 * i) for i in range(read.limit)]
        assert reading.take(ReadBack("N1", tuple(records), after + len(records), after, rest=5))
        (read,) = reading.wanted()
        asked.append(read.limit)
    assert asked == [64, 20, 20, 20]
    last = reading.found.get("A", 104_000)
    assert last is not None
    assert last.publication.n == 104_000
    assert reading.found.get("A", 104_001) is None
    single = EventRecord(0, 105, event("B", B=1))
    assert reading.take(ReadBack("N1", (single,), 105, 104, rest=5))
    assert reading.take(ReadBack("N1", (), 105, 105))
    assert reading.wanted() == [Read("N1", 105, 2000)]


def bundle(index: int, before: int) -> BundleRecord:
    events = bundle_of([Publication("p", 1, before + n, "A") for n in range(1, 1001)], index, 0, {})
    stamped = events.stamped(0, "N1", index, {"A": before})
    return BundleRecord(0, index, stamped)


def test_what_nobody_waits_for_any_more_does_not_keep_others_waiting() -> None:
    lanes = three_epochs()
    assert lanes.tell("A", "B", until=3) == ["A1", "B1", "B2", "A2", "B3"]
    lanes.chronicler.library._read.clear()
    for subscriber, epoch in (("r", 0), ("s", 1)):
        assert lanes.chronicler.recall(Recall(subscriber, ("A", "B"), 3, epoch), 0.0)  # never answered
    lanes.chronicler._asking.clear()  # they ask another node
    answer = lanes.ask(Recall("t", ("A", "B"), 3, 2), now=10.0)
    assert isinstance(answer, Recalled)
    assert [event.number for event in answer.events] == [3]


def test_a_past_that_cannot_be_is_refused() -> None:
    lanes = three_epochs()
    for nonsense in (Recall("s", (), 3), Recall("s", ("A",), -1), Recall("s", ("A",), 3, -2)):
        effects = lanes.chronicler.recall(nonsense, 0.0)
        assert [type(effect) for effect in effects] == [Reject]


def test_a_system_without_history_says_so() -> None:
    lanes = three_epochs()
    lanes.chronicler.learn(replace(lanes.storage.control, retained=False))
    (effect,) = lanes.chronicler.recall(Recall("s", ("A",), 3), 0.0)
    assert isinstance(effect, Send)
    assert isinstance(effect.message, Refused)
