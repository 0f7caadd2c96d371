"""Plans out of files and journals, through Spark and the command line."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unisono
from unisono.engines.plan import conflict_graph
from unisono.history import Kind, Record
from unisono.journal import write_records
from unisono.model.errors import ConfigError, HistoryError, PlanError
from unisono.pipeline.plan import make_plan
from unisono.pipeline.plan_apply import apply_plan
from unisono.pipeline.plan_document import load_plan, save_plan
from unisono.pipeline.plan_inputs import (
    journal_rates,
    journal_subscriptions,
    read_rates,
    read_subscriptions,
)
from unisono.pipeline.plan_overlaps import count_overlaps
from unisono.pipeline.plan_synth import draw_subscriptions, synthesise, write_rates
from unisono.pipeline.session import open_session

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly on a busy machine


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    synthesise(folder / "subscriptions.parquet", subscribers=300, topics=30, each=5, seed=3)
    write_rates(folder / "rates.parquet", topics=30)
    return folder


def sets_of(path):
    table = pq.read_table(path).to_pylist()
    sets: dict[int, set[str]] = {}
    for row in table:
        sets.setdefault(row["subscriber"], set()).add(row["topic"])
    return [frozenset(s) for s in sets.values()]


def journal_of(folder, *changes):
    """A journal in which processes subscribe and unsubscribe: (kind, process, topic, order)."""
    records = [
        Record(kind, process, i, float(i), topic=topic, order=order)
        for i, (kind, process, topic, order) in enumerate(changes, start=1)
    ]
    write_records(folder, records)
    return folder


@pytest.mark.parametrize("threshold", [1, 2, 20])
def test_spark_counts_the_conflicts_that_the_engines_count(spark, synthetic, threshold):
    path = synthetic / "subscriptions.parquet"
    matrix = count_overlaps(read_subscriptions(spark, path), threshold)
    assert matrix.graph() == conflict_graph(sets_of(path), threshold=threshold)
    assert matrix.subscriptions == 300
    assert matrix.distinct == len(set(sets_of(path)))
    assert sum(matrix.holders) == 300 * 5


def test_identical_subscriptions_are_collapsed_and_weighed(spark, tmp_path):
    rows = pa.table(
        {"topics": [["a", "b"], ["b", "a"], ["a", "b", "b"], ["c", "d"], None], "weight": [1, 1, 1, 5, 9]}
    )
    pq.write_table(rows, tmp_path / "sets.parquet")
    matrix = count_overlaps(read_subscriptions(spark, tmp_path / "sets.parquet"), 2)
    assert (matrix.subscriptions, matrix.distinct) == (4, 2)
    assert matrix.shared.tolist() == [3, 5]
    assert matrix.holders.tolist() == [3, 3, 1, 1]


def test_a_journal_tells_who_subscribed_and_in_which_order(spark, tmp_path):
    on, off = Kind.SUBSCRIBED, Kind.UNSUBSCRIBED
    journal = journal_of(
        tmp_path / "journal",
        (on, "p", "a", "total"),
        (on, "p", "b", "total"),
        (on, "q", "a", "total"),
        (on, "q", "b", "total"),
        (on, "r", "c", "total_causal"),
        (on, "r", "d", "total_causal"),
        (on, "s", "e", "fifo"),
        (on, "s", "f", "fifo"),
        (off, "q", "b", ""),
    )
    ever = count_overlaps(journal_subscriptions(spark, journal, 2), 2)
    assert ever.topics == tuple("abcdef")
    assert ever.graph() == conflict_graph([frozenset("ab"), frozenset("cd")], "ef", threshold=1)
    now = count_overlaps(journal_subscriptions(spark, journal, 2, current=True), 2)
    assert now.graph()["a"] == frozenset()
    assert now.graph()["c"] == {"d"}


def test_rates_are_events_per_second_and_count_no_event_twice(spark, tmp_path):
    records = []
    for i in range(9):
        event, topic = f"p/1/{i}", "a" if i < 6 else "b"
        records.append(Record(Kind.PUBLISHED, "p", i, float(i) / 2, event=event, topic=topic))
        records.append(Record(Kind.SEQUENCED, "m", i, float(i) / 2, event=event, topic=topic, number=i + 1))
    write_records(tmp_path, records)
    assert journal_rates(spark, tmp_path) == {"a": 6 / 4, "b": 3 / 4}


def test_an_empty_or_missing_journal_is_named(spark, tmp_path):
    with pytest.raises(HistoryError, match="holds no usable segment"):
        journal_rates(spark, tmp_path)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "x.parquet").write_text("nonsense")
    with pytest.raises(HistoryError, match=r"x.parquet: corrupt"):
        journal_rates(spark, tmp_path)
    with pytest.raises(HistoryError, match="no folder"):
        journal_rates(spark, tmp_path / "none")


def test_subscriptions_of_another_shape_are_refused(spark, tmp_path):
    pq.write_table(pa.table({"who": ["x"], "what": ["y"]}), tmp_path / "odd.parquet")
    with pytest.raises(ConfigError, match="has the columns what, who"):
        read_subscriptions(spark, tmp_path / "odd.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(ConfigError, match="is not a Parquet file"):
        read_subscriptions(spark, tmp_path / "text.parquet")
    with pytest.raises(ConfigError, match="does not exist"):
        read_subscriptions(spark, tmp_path / "none.parquet")


class TestRates:
    def test_three_formats_say_the_same(self, tmp_path):
        (tmp_path / "r.json").write_text('{"a": 1, "b": 2.5}')
        (tmp_path / "r.csv").write_text("topic,rate\na,1\nb,2.5\n")
        pq.write_table(pa.table({"topic": ["a", "b"], "rate": [1.0, 2.5]}), tmp_path / "r.parquet")
        for name in ("r.json", "r.csv", "r.parquet"):
            assert read_rates(tmp_path / name) == {"a": 1.0, "b": 2.5}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"a": -1}', "rate of topic 'a' is -1"),
            ('{"a": "much"}', "'much', not a number"),
            ('{"a b": 1}', "'a b'"),
            ("[1]", "not a JSON object"),
        ],
    )
    def test_bad_rates_are_named(self, tmp_path, text, message):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_rates(tmp_path / "r.json")


def test_synthetic_subscriptions_follow_a_power_law():
    import numpy as np

    chosen = draw_subscriptions(np.random.default_rng(1), 4000, 50, 5, 1.0)
    assert chosen.shape == (4000, 5)
    assert all(len(set(row)) == 5 for row in chosen.tolist())
    counts = np.bincount(chosen.ravel(), minlength=50)
    assert counts[0] > 2 * counts[5] > 4 * counts[45]


def unisono_command(*arguments):
    command = [sys.executable, "-m", "unisono", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def test_the_command_plans_and_rank_shows_it(synthetic, tmp_path):
    out = tmp_path / "plan.json"
    done = unisono_command(
        *("pipeline", "plan", "--subscriptions", synthetic / "subscriptions.parquet"),
        *("--rates", synthetic / "rates.parquet", "--kind", "line", "--out", out, "--json"),
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown.keys() >= {"topics", "ranks", "groups", "placement", "before", "after"}
    assert shown["after"]["stamp_entries_upward"] < shown["before"]["stamp_entries_upward"]
    rates = [topic["rate"] for topic in shown["topics"]]
    assert rates == sorted(rates, reverse=True)
    assert load_plan(out).ranks == shown["ranks"]
    checked = unisono_command("rank", out, "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["ranks"] == shown["ranks"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pipeline", "plan"), "name one of --journal"),
        (("pipeline", "plan", "--journal", "x", "--nodes", "0"), "--nodes is at least 1"),
        (("pipeline", "plan", "--journal", "x", "--capacity", "-1"), "--capacity"),
        (("pipeline", "plan", "--journal", "x", "--kind", "ring"), "--kind is"),
        (("pipeline", "plan", "--journal", "x", "--threshold", "0"), "--threshold"),
        (("rank", "a.json", "--apply", "b.json"), "not both"),
        (("rank", "--url", "memory://"), "lives inside one process"),
        (("rank", "--apply", "/none.json"), "cannot be read"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, message):
    done = unisono_command(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


class TestApplying:
    @pytest.fixture
    def plan(self, spark, tmp_path):
        pq.write_table(pa.table({"topics": [["a", "b"], ["a", "b"]]}), tmp_path / "s.parquet")
        matrix = count_overlaps(read_subscriptions(spark, tmp_path / "s.parquet"))
        save_plan(make_plan(matrix, {"a": 1.0, "b": 2.0, "c": 0.0}), tmp_path / "plan.json")
        return tmp_path / "plan.json"

    def test_a_plan_that_fits_is_kept_while_events_flow(self, plan):
        async def scene():
            async with (
                unisono.connect("memory://") as bus,
                bus.subscribe("a", "b", name="x") as events,
                bus.subscribe("a", "b", name="y"),
                unisono.connect("memory://") as elsewhere,
            ):
                assert elsewhere.plan is None
                assert bus.plan is None
                applied = apply_plan(bus, plan)
                assert applied.moved == {"b": (None, 1), "a": (None, 2), "c": (None, 3)}
                assert applied.idle == ("c",)
                await bus.publish("a", 1)
                assert (await events.get_one(timeout=5)).data == 1
                assert elsewhere.plan is None, "another service, another plan"
                assert apply_plan(bus, plan).moved == {}
                assert bus.plan.rank == ("b", "a", "c")

        run(scene())

    def test_a_plan_that_does_not_cover_what_is_subscribed_is_refused(self, plan):
        async def scene():
            async with unisono.connect("memory://") as bus:
                async with bus.subscribe("a", "z"):
                    with pytest.raises(PlanError, match="topic 'z' is in use but not in the plan"):
                        apply_plan(bus, plan)
                async with bus.subscribe("a", "c", name="x"), bus.subscribe("a", "c", name="y"):
                    with pytest.raises(PlanError, match="plan again"):
                        apply_plan(bus, plan)
                assert bus.plan is None

        run(scene())


def run(scene):
    import asyncio

    asyncio.run(scene)
