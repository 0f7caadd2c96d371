"""The matching index says what asking each filter says, while filters come and go."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.filters import parse
from unisono.engines.filters.axis import GROUPS_MAX
from unisono.engines.filters.bitmaps import AXES_MAX
from unisono.engines.filters.bounds import head, string_bounds
from unisono.engines.filters.cuts import holds
from unisono.engines.filters.index import Index
from unisono.lab.filter_texts import Maker
from unisono.model.errors import FilterError

CHANCES = st.randoms(use_true_random=False)


def some_filters(maker, count):
    found = {}
    while len(found) < count:
        try:
            found[len(found)] = parse(maker.filter()[0])
        except FilterError:
            continue
    return found


def agrees(index, filters, events):
    for event in events:
        found = index.match(event)
        assert len(set(found)) == len(found)
        assert set(found) == {key for key, wanted in filters.items() if wanted.matches(event)}, event


@settings(max_examples=40, deadline=None)
@given(CHANCES)
def test_an_index_agrees_with_asking_each(chances):
    maker = Maker(chances)
    filters = some_filters(maker, 12)
    index = Index()
    for key, wanted in filters.items():
        index.add(key, wanted)
    agrees(index, filters, [maker.event() for _ in range(6)])


@pytest.mark.parametrize("seed", range(3))
def test_filters_come_and_go(seed):
    chances = Random(seed)
    maker = Maker(chances)
    index, filters, made = Index(), {}, some_filters(maker, 600)
    for step in range(1500):
        if chances.random() < 0.6 or not filters:
            key = chances.choice(list(made))
            filters[key] = made[key]
            index.add(key, made[key])
        else:
            key = chances.choice(list(filters))
            del filters[key]
            index.remove(key)
        if step % 50 == 0:
            agrees(index, filters, [maker.event() for _ in range(5)])
    assert len(index) == len(filters)
    for key in list(filters):
        assert key in index
        index.remove(key)
    assert index.match({"a": 1}) == []
    assert not vars(index)["_attributes"]
    assert not vars(index)["_nested"]


def test_many_ranges_fall_into_cells():
    chances = Random(5)
    filters = {}
    for key in range(2000):
        low = chances.randrange(1000)
        kind = key % 4
        filters[key] = parse(
            f"a between {low} and {low + 50}"
            if kind == 0
            else f'b starts with "{low:03}" or a > {low}'
            if kind == 1
            else f"a > {low} and a < {low + 20} and not b contains '7'"
            if kind == 2
            else f"c == {low} and a != {low}"
        )
    index = Index()
    for key, wanted in filters.items():
        index.add(key, wanted)
    events = [{"a": chances.randrange(1100), "b": f"{chances.randrange(1000):04}"} for _ in range(40)]
    agrees(
        index, filters, [*events, {"a": 3, "c": 3}, {"c": 7, "a": 7.5}, {"a": 10**30}, {"a": float("nan")}]
    )
    for key in range(0, 2000, 2):
        index.remove(key)
        del filters[key]
    agrees(index, filters, events)


def test_numbers_that_floats_have_not():
    texts = [
        f"a {sign} {number}"
        for sign in ("==", "<", "<=", ">", ">=")
        for number in (2**53, 2**53 + 1, 2**62 + 1)
    ]
    filters = dict(enumerate(map(parse, texts)))
    index = Index()
    for key, wanted in filters.items():
        index.add(key, wanted)
    numbers = [
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**53 + 2,
        2.0**53,
        2**62,
        2**62 + 1,
        2**62 + 2,
        -(10**400),
        10**400,
    ]
    agrees(index, filters, [{"a": number} for number in numbers])


def test_a_filter_is_replaced_under_its_key():
    index = Index()
    index.add(("me", 1), parse("a == 1"))
    index.add(("me", 1), parse("a == 2 or b == 2"))
    index.add(b"you", parse("a > 1"))
    assert index.match({"a": 1}) == []
    assert set(index.match({"a": 2, "b": 2})) == {("me", 1), b"you"}
    index.remove("nobody")


def test_ranges_of_strings_that_do_not_fill_their_cells():
    """Cells are cut when ranges double; who comes later begins and ends within them."""
    chances = Random(6)
    words = [f"{chances.randrange(9_900):04}" for _ in range(2000)]
    filters = {
        key: parse(
            f'a starts with "{word[:3]}"' if key % 2 else f'a >= "{word}" and a < "{int(word) + 15:04}"'
        )
        for key, word in enumerate(words)
    }
    index = Index()
    for key, wanted in filters.items():
        index.add(key, wanted)
    agrees(index, filters, [{"a": f"{chances.randrange(100_000):05}"} for _ in range(60)])


def wide_filters(chances, count, names):
    """Of three attributes a tenth each: such rows have seats in bitmaps."""
    filters = {}
    for key in range(count):
        lows = {name: chances.randrange(90) for name in chances.sample(names, 3)}
        filters[key] = parse(
            " and ".join(f"{name} between {low} and {low + 10}" for name, low in lows.items())
        )
    return filters


def test_seats_in_bitmaps_are_taken_and_given_back():
    chances = Random(7)
    names = [f"a{i}" for i in range(8)]
    filters = wide_filters(chances, 3000, names)
    filters[3000] = parse("a0 in [1, 2, 3] or a0 > 95 and a1 != 4 or a2 is string and not a3 < 50")
    filters[3001] = parse("a0 < 10 and a0 != 3 or a0 > 90")
    index = Index()
    for key, wanted in filters.items():
        index.add(key, wanted)
    events = [
        {name: chances.choice((chances.randrange(100), "x", None)) for name in names} for _ in range(100)
    ]
    agrees(index, filters, events)
    assert [set(found) for found in index.match_many(events)] == [set(index.match(event)) for event in events]
    bitmaps = vars(index)["_bitmaps"]
    assert len(bitmaps) > 3000
    assert 0 < index.bitmap_bytes <= len(bitmaps.axes) * (GROUPS_MAX + 1) * len(bitmaps) * 1.2 / 8
    for key in list(filters)[::2]:
        index.remove(key)
        del filters[key]
    agrees(index, filters, events)
    for key in chances.sample(list(filters), 400):
        wanted = filters[key + 1] = filters.pop(key)
        index.remove(key)
        index.add(key + 1, wanted)
    agrees(index, filters, events)
    for key in filters:
        index.remove(key)
    assert not len(bitmaps)
    assert not bitmaps.axes
    assert not index.bitmap_bytes


def test_more_attributes_than_bitmaps_have_axes():
    chances = Random(8)
    names = [f"a{i}" for i in range(AXES_MAX + 20)]
    filters = wide_filters(chances, 1500, names)
    index = Index()
    for key, wanted in filters.items():
        index.add(key, wanted)
    assert len(vars(index)["_bitmaps"].axes) == AXES_MAX
    agrees(index, filters, [{name: chances.randrange(100) for name in names} for _ in range(40)])


WORDS = st.text(st.sampled_from("\0\x01ab\x7f\xe9\uffff\U0010ffff"), max_size=8)


@given(
    st.lists(st.tuples(WORDS, st.integers(0, 1)), min_size=1, max_size=3, unique=True),
    st.lists(WORDS, min_size=1),
)
def test_bounds_of_strings_by_their_first_bytes(ends, words):
    cuts = tuple(sorted(ends))
    low, high, is_exact = string_bounds(cuts)
    for word in [*words, *(word + more for word, _ in ends for more in ("", "\0", "a"))]:
        if holds(cuts, word) or is_exact:
            assert holds(cuts, word) is (low <= head(word) <= high)
