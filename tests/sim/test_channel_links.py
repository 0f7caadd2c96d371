"""Links: moments of the channel mixture, links that stay what they are, bytes that take time, loss."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from unisono.sim.links import ADSL, FAST, FLOOR_S, SLOW, WAN, Bandwidth, Links


def test_the_mixture_has_the_moments_of_the_paper():
    times = WAN.sample_many(np.random.default_rng(1), 400_000)
    assert times.mean() == pytest.approx(0.8 * 0.021 + 0.2 * 0.240, rel=0.015)
    assert times.mean() == pytest.approx(WAN.cut_mean_s, rel=0.005)
    assert times.min() == FLOOR_S
    for channel in (FAST, SLOW):
        drawn = channel.sample_many(np.random.default_rng(2), 200_000)
        assert drawn.mean() == pytest.approx(channel.mean_s, rel=0.01), "the cut hardly moves the mean"
        assert drawn.std() == pytest.approx(channel.deviation_s, rel=0.04)


def test_one_by_one_and_in_arrays_are_one_distribution():
    random = Random(3)
    singles = np.array([WAN.sample(random) for _ in range(60_000)])
    many = WAN.sample_many(np.random.default_rng(3), 60_000)
    marks = np.linspace(0.01, 0.99, 25)
    assert np.quantile(singles, marks) == pytest.approx(np.quantile(many, marks), rel=0.1, abs=0.0015)


def test_a_link_is_slow_for_good_whoever_asks():
    links, generator = Links(7), np.random.default_rng(4)
    a, b = generator.integers(0, 10_000, (2, 3000))
    slow = links.is_slow_many(a, b)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert slow.tolist() == [links.is_slow(x, y) for x, y in pairs]
    assert slow.tolist() == [links.is_slow(y, x) for x, y in pairs], "both directions are one link"
    assert slow.mean() == pytest.approx(0.2, abs=0.025)
    assert links.is_slow_many(a, b).tolist() != Links(8).is_slow_many(a, b).tolist()


def test_each_message_on_a_link_draws_its_own_latency_around_the_links_mean():
    links, random = Links(7), Random(5)
    for a, b in ((0, 1), (1, 2), (2, 3), (0, 9), (4, 5)):
        drawn = np.array([links.sample(a, b, random) for _ in range(3000)])
        assert drawn.mean() == pytest.approx(links.mean_s(a, b), rel=0.06)
        assert drawn.std() > 0.4 * drawn.mean()
        in_arrays = links.sample_many(np.full(3000, a), np.full(3000, b), np.random.default_rng(1))
        assert in_arrays.mean() == pytest.approx(links.mean_s(a, b), rel=0.06)
    assert links.sample(3, 3, random) == 0, "a node tells itself things at once"
    assert links.sample_many([3], [3], np.random.default_rng(1)).tolist() == [0.0]


def test_bytes_take_time_on_a_narrow_line():
    assert ADSL.transmission_s(1000) == pytest.approx(0.008 + 0.001)
    narrow, wide = Links(1, bandwidth=Bandwidth(1e5, 1e5)), Links(1)
    with_bytes = narrow.sample(0, 1, Random(1), size_bytes=1000)
    assert with_bytes - wide.sample(0, 1, Random(1), size_bytes=1000) == pytest.approx(0.16)
    arrays = [
        links.sample_many([0, 0], [1, 1], np.random.default_rng(1), [1000, 2000]) for links in (narrow, wide)
    ]
    assert (arrays[0] - arrays[1]).tolist() == pytest.approx([0.16, 0.32])


def test_not_all_is_lost():
    with pytest.raises(ValueError, match="cannot be lost"):
        Links(1, loss=1.0)
