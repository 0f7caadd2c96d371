"""What the judgement of a run sees: made-up diaries, with one thing wrong each."""

import msgspec
import pytest

from unisono.lab.faults.diary import Diary, Entry, read_diary
from unisono.lab.faults.judging import Deed, Story
from unisono.lab.faults.publisher import past_of


def published(n, topic="t", at=None):
    return Entry("published", at or n, f"p/1/{n}", topic)


def acknowledged(n, number=None, topic="t", at=None):
    return Entry("acknowledged", at or n + 0.5, f"p/1/{n}", topic, number or n)


def delivered(n, number=None, topic="t", **more):
    return Entry("delivered", n + 0.6, f"p/1/{n}", topic, number or n, **more)


def opened(at=0.5, *topics):
    return Entry("opened", at, topics=topics or ("t",))


STOPPED = Entry("stopped", 99.0)
SPEAKS = [entry for n in (1, 2, 3) for entry in (published(n), acknowledged(n))]


def judged(*diaries, publisher=SPEAKS, durable=()):
    story = Story({"p": publisher}, {f"s{i}": diary for i, diary in enumerate(diaries, start=1)}, durable)
    return story.judge()


def test_a_good_run_is_good():
    diary = [opened(), delivered(1), delivered(2), delivered(3), STOPPED]
    result = judged(diary, diary)
    assert (result.published, result.acknowledged, result.delivered) == (3, 3, 6)
    assert (result.lost, result.duplicates, result.violations) == (0, 0, [])


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_what_was_acknowledged_and_never_came_is_lost(gone):
    result = judged([opened(), *(delivered(n) for n in (1, 2, 3) if n != gone), STOPPED])
    assert result.lost == 1
    assert "nothing_lost" in result.violations[0]


def test_what_was_under_way_when_somebody_came_is_not_owed():
    assert judged([opened(at=2.1), delivered(3), STOPPED]).lost == 0
    assert judged([opened(at=2.1), delivered(2), delivered(3), STOPPED]).lost == 0
    assert judged([opened(at=2.1), delivered(2), STOPPED]).lost == 1


def test_who_was_killed_is_owed_nothing_more_and_comes_back_as_somebody_else():
    diary = [opened(), delivered(1), opened(at=2.5), delivered(3), STOPPED]
    assert judged(diary).lost == 0
    hole = [opened(), delivered(1), delivered(3), opened(at=9.0), STOPPED]
    assert judged(hole).lost == 1, "what it was told proves that it was owed what lies between"


def test_a_durable_subscriber_goes_on_and_may_be_told_again_what_says_so():
    again = delivered(2, redelivered=True)
    good = [opened(), delivered(1), delivered(2), opened(at=5.0), again, delivered(3), STOPPED]
    result = judged(good, durable=("s1",))
    assert (result.lost, result.duplicates, result.violations) == (0, 0, [])
    skips = [opened(), delivered(1), opened(at=5.0), delivered(3), STOPPED]
    assert judged(skips, durable=("s1",)).lost == 1
    silent = [opened(), delivered(1), delivered(2), opened(at=5.0), delivered(2), delivered(3), STOPPED]
    assert judged(silent, durable=("s1",)).duplicates == 1
    gone = [opened(), delivered(1), delivered(2)]
    assert judged(gone, durable=("s1",)).lost == 1, "it was never told the last one"


def test_twice_is_a_duplicate():
    result = judged([opened(), delivered(1), delivered(2), delivered(2), delivered(3), STOPPED])
    assert result.duplicates == 1
    assert "no_duplication" in result.violations[0]


def test_two_orders_are_a_violation():
    speaks = [published(1, "t"), acknowledged(1, 1, "t"), published(2, "u"), acknowledged(2, 1, "u")]
    one = [opened(0.5, "t", "u"), delivered(1, 1, "t"), delivered(2, 1, "u"), STOPPED]
    other = [opened(0.5, "t", "u"), delivered(2, 1, "u"), delivered(1, 1, "t"), STOPPED]
    assert judged(one, one, publisher=speaks).violations == []
    assert "total_notification_order" in judged(one, other, publisher=speaks).violations[0]


def test_a_publisher_is_not_overtaken_by_itself():
    speaks = [published(1), published(2), acknowledged(2, 1), acknowledged(1, 2)]
    result = judged([opened(), delivered(2, 1), delivered(1, 2), STOPPED], publisher=speaks)
    assert "publisher_fifo" in result.violations[0]


def test_nothing_is_made_up_and_no_number_changes():
    made_up = judged([opened(), delivered(1), delivered(2), delivered(3), delivered(7), STOPPED])
    assert "no_creation" in made_up.violations[0]
    renumbered = judged([opened(), delivered(1), delivered(2), delivered(3, 4), STOPPED])
    assert "acknowledged as number 3" in renumbered.violations[0]


def test_how_long_it_took_until_every_topic_went_on():
    speaks = [*SPEAKS, published(4, "u", at=4), acknowledged(4, 1, "u", at=8)]
    story = Story({"p": speaks}, {})
    assert story.resumed(Deed("node_kill", "n1", 1.5, topics=("t",))) == pytest.approx(1.0)
    assert story.resumed(Deed("node_kill", "n1", 1.5, topics=("t", "u"))) == pytest.approx(6.5)
    assert story.resumed(Deed("node_kill", "n1", 5.0, topics=("t", "u"))) is None


def test_a_publisher_that_was_killed_knows_what_to_retry(tmp_path):
    path = tmp_path / "p.jsonl"
    for entry in (published(1, "t"), published(2, "u"), published(3, "t"), acknowledged(1, 1, "t")):
        fields = {name: getattr(entry, name) for name in ("id", "topic", "number")}
        Diary(path).write(entry.what, **fields)
    with path.open("ab") as file:
        file.write(b'{"what":"publ')  # it was killed while it wrote
    assert len(read_diary(path)) == 4
    past = past_of(path)
    assert past.last == 3
    assert {topic: list(ids) for topic, ids in past.open.items()} == {"t": ["p/1/3"], "u": ["p/1/2"]}
    assert msgspec.json.decode(path.read_bytes().splitlines()[0])["what"] == "published"
