"""What a publisher has sent and has no answer for, beside a table of single events."""

from collections import Counter
from random import Random

import pytest

from unisono.engines.topic_managers.line import NOTHING, Line
from unisono.engines.topic_managers.outgoing import Outgoing, Sent
from unisono.model.frames import Publication, count_topics
from unisono.model.runs import cut


def sent(serial, ns, topics, to="N"):
    publications = [Publication("p", 1, n, topic) for n, topic in zip(ns, topics, strict=True)]
    return Sent(serial, to, publications, cut(publications))


@pytest.mark.parametrize("seed", range(30))
def test_it_says_what_a_table_of_single_events_says(seed):
    random, out, table, n = Random(seed), Outgoing(), {}, 0
    for serial in range(1, 60):
        if random.random() < 0.6:
            ns = []
            for _ in range(random.choice((1, 1, 2, 5, 9))):
                n += random.choice((1, 1, 3))  # events for other nodes lie between them
                ns.append(n)
            one = sent(serial, ns, random.choices("ABC", k=len(ns)), random.choice(("N", "M", "")))
            if len(ns) == 1:
                out.add_alone(one.to, one.publications[0])
            else:
                out.add(one)
            table |= {p.n: (serial, p) for p in one.publications}
        elif table and random.random() < 0.5:
            answered = random.choice([*table, n + 1])
            dropped = out.drop(answered)
            assert dropped is table.pop(answered, (0, None))[1]
        elif out.sent:
            serial = random.choice(list(out.sent))
            out.drop_all(serial)
            table = {n: found for n, found in table.items() if found[0] != serial}
        if random.random() < 0.2:
            out = out.copy()
        out.check()
        assert [p.n for p in out] == sorted(table)
        assert len(out) == len(table)
        assert out.lowest == min(table, default=0)
        assert out.load == count_topics(p for _, p in table.values())
        assert {*out.sent, *(table[n][0] for n in out.alone)} == {serial for serial, _ in table.values()}
        for topic in "ABC":
            assert out.newest(topic) == max((n for n, (_, p) in table.items() if p.topic == topic), default=0)
        assert [n in out for n in range(n + 2)] == [n in table for n in range(n + 2)]
        topics = random.choice((None, {"A"}, {"A", "B"}, {"A", "B", "C"}))
        again = out.again(topics, lambda sent: sent.serial % 5 > 0)
        flat = [p for unit in again for p in (unit.publications if isinstance(unit, Sent) else [unit])]
        assert flat == [p for p in out if topics is None or p.topic in topics]
        assert all(unit.serial % 5 and not unit.answered for unit in again if isinstance(unit, Sent))


@pytest.mark.parametrize("seed", range(30))
def test_it_says_how_far_each_topic_is_beyond_its_first_without_an_answer_and_who_is_to_answer(seed):
    random, out, n = Random(seed), Outgoing(), 0
    at = {}  # event -> the node that is to answer it
    passed = {topic: [] for topic in "ABC"}  # events since all had their answers
    for serial in range(1, 80):
        kind = random.random()
        if kind < 0.5:
            topics, to = random.choices("ABC", k=random.choice((1, 2, 5))), random.choice("MN")
            one = sent(serial, range(n + 1, n + 1 + len(topics)), topics, to)
            n += len(topics)
            if len(topics) == 1:
                out.add_alone(to, one.publications[0])
            else:
                out.add(one)
            for p in one.publications:
                at[p.n] = to
                passed[p.topic].append(p.n)
        elif kind < 0.75 and at:
            answered = random.choice(list(at))
            out.drop(answered)
            del at[answered]
        elif kind < 0.8 and out.sent:
            serial = random.choice(list(out.sent))
            for p in out.sent[serial].publications:
                at.pop(p.n, None)
            out.drop_all(serial)
        else:
            for unit in out.again(random.choice((None, {"A"}, {"A", "B"})), lambda sent: sent.serial % 3):
                if random.random() < 0.5:
                    to = random.choice("MN")
                    out.move(unit, to)
                    at |= dict.fromkeys(
                        [p.n for p in unit.publications] if isinstance(unit, Sent) else [unit.n], to
                    )
        if random.random() < 0.2:
            out = out.copy()
        out.check()
        assert out.at == Counter(at.values())
        for topic, events in passed.items():
            left = [n for n in events if n in at]
            if not left:
                events.clear()
            assert out.oldest(topic) == min(left, default=0)
            assert out.newest(topic) == max(left, default=0)
            assert out.span(topic) == (len(events) - events.index(left[0]) if left else 0)


def test_nodes_are_busy_as_often_as_something_was_sent_to_them():
    out = Outgoing()
    out.add(sent(1, [1, 2], "AB", "N"))
    out.add_alone("N", Publication("p", 1, 3, "A"))
    out.add_alone("M", Publication("p", 1, 4, "A"))
    assert (out.busy, out.at) == ({"N": 2, "M": 1}, {"N": 3, "M": 1})
    out.drop(1)
    assert (out.busy, out.at) == ({"N": 2, "M": 1}, {"N": 2, "M": 1})
    assert sorted(out.sent_to()) == [("M", "A"), ("N", "A"), ("N", "B")]
    out.drop(2)
    out.drop(4)
    assert (out.busy, out.at) == ({"N": 1}, {"N": 1})


def test_a_bundle_is_sent_again_as_it_was_if_nothing_of_it_is_settled_or_lies_in_between():
    out = Outgoing()
    whole, parted, answered = sent(1, [1, 2, 4], "ABA"), sent(2, [5, 8], "AB", "M"), sent(3, [9, 10], "AB")
    for one in (answered, whole, parted):
        out.add(one)
    out.add_alone("N", Publication("p", 1, 3, "C"))
    out.add_alone("N", Publication("p", 1, 6, "A"))
    out.drop(9)

    def again(topics):
        return [unit if isinstance(unit, Sent) else unit.n for unit in out.again(topics, lambda sent: True)]

    assert again(None) == [1, 2, 3, 4, 5, 6, 8, 10]
    assert again({"A", "B"}) == [whole, 5, 6, 8, 10]
    assert again({"A"}) == [1, 4, 5, 6]
    out.drop(3)
    out.drop(6)
    assert again(None) == [whole, parted, 10]
    assert [unit.n for unit in out.again({"B"}, lambda sent: True)] == [2, 8, 10]
    assert [unit.n for unit in out.again(None, lambda sent: False)] == [1, 2, 4, 5, 8, 10]


def test_a_twin_is_independent():
    one = Outgoing()
    one.add(sent(1, [1, 2, 3], "AAB"))
    twin = one.copy()
    assert twin.state() == one.state()
    twin.drop(1)
    one.drop(3)
    assert [p.n for p in one] == [1, 2]
    assert [p.n for p in twin] == [2, 3]
    assert one.state() != twin.state()


def test_who_has_left_the_line_is_held_by_it_no_longer():
    line, events = Line(), [Publication("p", 1, n, "A") for n in range(1, 101)]
    line.extend(events)
    for left in (30, 30, 39):
        line.leave(left)
        assert [p.n for p in line] == list(range(101 - len(line), 101))
        assert [p for p in line._events if p is not NOTHING] == list(line) == line.front(99)
    line.leave(1)
    assert not line._events
