"""Workloads: who is popular and how much, what is drawn from it, and traces."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest

from unisono.sim import workloads
from unisono.sim.traces import Traced, TraceError, read_trace


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_both_shapes_of_the_paper_mean_what_it_says_of_them():
    assert workloads.power_law_head(0.269, 400) == pytest.approx(0.8, abs=0.002), "40 % of 1,000 topics"
    assert workloads.power_law_head(0.901, 5) == pytest.approx(0.8, abs=0.002), "0.5 % of 1,000 topics"
    assert workloads.power_law(1000, 0.901).head_share(5) == pytest.approx(0.8, abs=0.005)
    shares = workloads.power_law(1000, 0.269).shares
    assert (np.diff(shares) < 0).all()
    assert shares.sum() == pytest.approx(1)


def test_draws_follow_the_shares_one_by_one_and_in_arrays():
    popularity, random = workloads.power_law(50), Random(2)
    singles = np.bincount([popularity.sample(random) for _ in range(20_000)], minlength=50) / 20_000
    many = np.bincount(popularity.sample_many(rng(), 20_000), minlength=50) / 20_000
    assert np.abs(singles - popularity.shares).max() < 0.015
    assert np.abs(many - popularity.shares).max() < 0.015
    assert set(workloads.worst_case(50).sample_many(rng(), 100)) == {49}
    assert {workloads.worst_case(50).sample(random) for _ in range(100)} == {49}
    assert popularity.reversed().shares[-1] == pytest.approx(popularity.shares[0])


def test_a_shuffle_gives_the_shares_to_other_topics():
    popularity = workloads.power_law(100)
    shuffled = popularity.shuffled(rng())
    assert sorted(shuffled.shares) == pytest.approx(sorted(popularity.shares))
    assert shuffled.shares.argmax() != popularity.shares.argmax()


def test_sizes_of_groups_fall_with_their_rank():
    assert workloads.zipf_group_sizes(4, 128, largest=60).tolist() == [60, 30, 20, 15]
    sizes = workloads.zipf_group_sizes(32, 128)
    assert sizes[0] == 24
    assert sizes.min() == 1
    held = workloads.group_members(sizes, 128, rng())
    assert held.sum(axis=0).tolist() == sizes.tolist()


def test_subscribers_hold_different_topics_popular_ones_more_often():
    held = workloads.subscriptions(workloads.power_law(200), 3000, 10, rng())
    assert (held.sum(axis=1) == 10).all()
    by_topic = held.sum(axis=0)
    assert by_topic[0] > 0.95 * 3000
    assert by_topic[:20].mean() > 5 * by_topic[100:].mean()
    assert workloads.subscriptions(workloads.uniform(7), 5, 7, rng()).all()
    with pytest.raises(ValueError, match="fewer have a share"):
        workloads.subscriptions(workloads.worst_case(7), 5, 2, rng())


def test_a_draw_without_replacement_takes_topics_one_after_the_other():
    popularity, n = workloads.Popularity(np.array([0.6, 0.3, 0.1])), 60_000
    held = workloads.subscriptions(popularity, n, 2, rng())
    pairs = 0.6 * 0.3 / 0.4 + 0.3 * 0.6 / 0.7  # the first two, in either order
    assert (held[:, 0] & held[:, 1]).mean() == pytest.approx(pairs, abs=0.01)


def test_schedules_have_their_rate_and_change_when_told():
    popularity = workloads.power_law(100)
    regular = workloads.schedule(popularity, rng(), rate_s=10, duration_s=600, publishers=5, shuffle_at=300)
    assert len(regular.at) == 6000
    assert np.diff(regular.at) == pytest.approx(0.1)
    before, after = regular.topic[regular.at < 300], regular.topic[regular.at >= 300]
    assert (before == 0).mean() == pytest.approx(popularity.shares[0], abs=0.03)
    assert (after == 0).mean() < 0.1
    assert set(regular.publisher) == set(range(5))
    poisson = workloads.schedule(popularity, rng(), rate_s=10, duration_s=600, pace="poisson")
    assert len(poisson.at) == pytest.approx(6000, rel=0.06)
    assert np.diff(poisson.at).std() == pytest.approx(0.1, rel=0.1)
    again = workloads.schedule(popularity, rng(), rate_s=10, duration_s=600, publishers=5, shuffle_at=300)
    assert list(again.events()) == list(regular.events())


ROWS = [(0.5, "a", "p1", 10), (0.75, "b", "p2", 0), (2.0, "a", "p1", 3)]


def test_traces_come_from_csv_and_parquet_alike(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = tmp_path / "trace.csv"
    table.write_text("at,topic,publisher,size_bytes\n" + "".join(f"{a},{t},{p},{s}\n" for a, t, p, s in ROWS))
    columns = dict(zip(("at", "topic", "publisher", "size_bytes"), zip(*ROWS, strict=True), strict=True))
    parquet.write_table(pa.table({k: list(v) for k, v in columns.items()}), tmp_path / "trace.parquet")
    for path in (table, tmp_path / "trace.parquet"):
        assert list(read_trace(path)) == [Traced(*row) for row in ROWS]
    (tmp_path / "short.csv").write_text("topic,at\na,1\n")
    assert list(read_trace(tmp_path / "short.csv")) == [Traced(1.0, "a")]


def test_a_trace_is_read_as_it_is_asked_for(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("at,topic\n1,a\n2,b\nnonsense,c\n")
    assert len(list(islice(read_trace(path), 2))) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("at,topic\n2,a\n1,a\n", r"row 3: 1.0 is before 2.0; sort"),
        ("at,topic\nsoon,a\n", "row 2: .*'at' is a number of seconds"),
        ("topic\na\n", "row 2: no column 'at'"),
        ("at,topic\n1,\n", "row 2: a publication has a topic"),
        ("at,topic\nnan,a\n", "row 2: a publication has a topic, a time"),
    ],
)
def test_a_wrong_trace_says_where(tmp_path, text, why):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(TraceError, match=why):
        list(read_trace(tmp_path / "trace.csv"))
