"""Cover sets: what is told covers what is in, and the changes lead from one to the next."""

from random import Random

import pytest

from unisono.engines.filters import parse
from unisono.engines.filters.cover import Change, Cover
from unisono.lab.filter_texts import Maker
from unisono.model.errors import FilterError

WIDE, NARROW, OTHER = parse("price > 100"), parse('price > 200 and symbol == "A"'), parse('symbol == "B"')


def test_what_is_covered_is_not_told():
    cover = Cover()
    assert cover.add(WIDE) == Change((WIDE,), ())
    assert cover.add(NARROW) == Change()
    assert cover.add(OTHER) == Change((OTHER,), ())
    assert cover.add(OTHER) == Change()
    assert cover.told == (WIDE, OTHER)
    assert len(cover) == 3
    assert NARROW in cover


def test_who_comes_later_and_is_wider_takes_over():
    cover = Cover()
    cover.add(NARROW)
    cover.add(OTHER)
    assert cover.add(WIDE) == Change((WIDE,), (NARROW,))
    assert cover.add(parse("true")) == Change((parse("true"),), (OTHER, WIDE))
    assert cover.remove(parse("true")) == Change((OTHER, WIDE), (parse("true"),))


def test_who_was_covered_is_told_when_that_one_goes():
    cover = Cover()
    narrower = parse('price > 300 and symbol == "A"')
    for wanted in (WIDE, narrower, NARROW):
        cover.add(wanted)
    assert cover.remove(WIDE) == Change((NARROW,), (WIDE,))
    assert cover.remove(narrower) == Change()
    assert cover.remove(WIDE) == Change()
    assert cover.remove(NARROW) == Change((), (NARROW,))
    assert len(cover) == 0
    assert not any(vars(cover).values())


@pytest.mark.parametrize("seed", range(4))
def test_what_is_told_is_enough_and_no_more(seed):
    chances = Random(seed)
    maker = Maker(chances)
    filters = []
    while len(filters) < 80:
        try:
            filters.append(parse(maker.filter(2)[0]))
        except FilterError:
            continue
    cover, known, inside = Cover(), set(), set()
    for step in range(400):
        wanted = chances.choice(filters)
        grows = chances.random() < 0.6
        change = cover.add(wanted) if grows else cover.remove(wanted)
        inside = inside | {wanted} if grows else inside - {wanted}
        assert not set(change.propagate) & known
        assert set(change.withdraw) <= known
        known = (known | set(change.propagate)) - set(change.withdraw)
        assert known == set(cover.told)
        assert known <= inside
        assert len(cover) == len(inside)
        if step % 20 == 0:
            assert all(any(one.covers(other) for one in known) or other in known for other in inside)
            assert not any(one.covers(other) for one in known for other in known if one != other)
            for event in (maker.event() for _ in range(10)):
                assert any(one.matches(event) for one in known) == any(one.matches(event) for one in inside)
    for wanted in inside:
        cover.remove(wanted)
    assert not any(vars(cover).values())
