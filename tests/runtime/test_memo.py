"""What is shared is bounded, whatever it is."""

from unisono.model.memo import Memo


def test_the_newest_are_kept_as_far_as_they_fit():
    memo: Memo[int, str] = Memo(3, 100)
    for n in range(5):
        memo.put(n, str(n), 10)
    assert [memo.get(n) for n in range(5)] == [None, None, "2", "3", "4"]
    memo.put(5, "5", 85)
    assert [memo.get(n) for n in range(6)] == [None] * 4 + ["4", "5"]


def test_one_that_is_too_heavy_is_kept_alone():
    memo: Memo[int, str] = Memo(3, 100)
    memo.put(1, "1", 10)
    memo.put(2, "2", 1000)
    assert (len(memo), memo.get(2)) == (1, "2")
    memo.put(3, "3", 10)
    assert (len(memo), memo.get(3)) == (1, "3")


def test_what_takes_the_place_of_another_takes_its_weight_off():
    memo: Memo[int, str] = Memo(3, 100)
    for n in range(50):
        memo.put(1, str(n), 40)
    memo.put(2, "two", 40)
    assert (memo.get(1), memo.get(2)) == ("49", "two")
