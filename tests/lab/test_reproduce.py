"""Reproductions: claims are judged and can fail, figures are chosen by name, a killed run is resumed."""

from itertools import product

import msgspec
import pytest
from typer.testing import CliRunner

from unisono.cli.main import app
from unisono.lab.experiments import find_experiment
from unisono.lab.reproduce import buffers, catalogue, dynamic, dynamic_claims, latency, overhead, sequences
from unisono.lab.reproduce.claims import beaten, number, trend
from unisono.lab.reproduce.drawing import draw
from unisono.lab.reproduce.families import Curve, Family, Plot, Sweep
from unisono.lab.reproduce.rows import Rows
from unisono.model.errors import ConfigError, UnisonoError
from unisono.pipeline import sweep as pipeline_sweep
from unisono.pipeline.sweep_cell import run_cell

SMALL = {"topics": 5, "events": 20}


def small_rows(sizes=(10, 100), seeds=2):
    points = [
        SMALL | {"nodes": n, "publication": p, "sequencer": s}
        for n in sizes
        for p in ("worst", "uniform", "power")
        for s in ("paper", "paper_direct", *latency.OURS)
    ]
    return Rows([point | {"seed": s} | latency.run(point, s) for point in points for s in range(seeds)])


@pytest.fixture(scope="module")
def rows():
    return small_rows()


def test_a_number_is_reproduced_within_its_tolerance():
    assert number("000-16", "swaps", 15.1, 15.3).verdict == "reproduced"
    far = number("000-17", "swaps", 51.8, 33.0, differs="it is not said how long the run was")
    assert far.verdict == "differs"
    assert "how long" in far.why


def test_a_trend_that_does_not_hold_differs():
    assert trend("000-9", "grows", holds=False, measured="1, 1", rule="it doubles").verdict == "differs"


def test_a_target_that_is_missed_differs():
    assert beaten("latency", paper=9.0, ours=1.0, factor=10, rule="").verdict == "differs"
    assert beaten("latency", paper=10.0, ours=1.0, factor=10, rule="").verdict == "reproduced"
    assert beaten("tagged", paper=0.2, ours=0.0, rule="").measured == "0 instead of 0.2"
    assert beaten("tagged", paper=0.0, ours=0.0, rule="").verdict == "differs"


def test_what_the_paper_does_not_have_is_different_from_what_it_has(rows):
    verdicts = {claim.claim: claim.verdict for claim in latency.judge({"latency": rows})}
    stamps = "worst case: a stamp travels through all 50 topic managers"
    assert verdicts[stamps] == "differs"  # here there are 5 topics
    flat = Rows([row | {"total_s": 1.0} for row in rows.rows])
    flat_verdicts = {claim.claim: claim.verdict for claim in latency.judge({"latency": flat})}
    assert flat_verdicts["worst case: latency grows steeply with the size of the ENS"] == "differs"
    assert flat_verdicts["publication models have a strong impact on latency"] == "differs"


def test_ours_on_the_same_network_is_faster_in_every_point(rows):
    for n in (10, 100):
        where = {"nodes": n, "publication": "worst"}
        paper, forward, ours = (
            rows.mean("ordering_s", sequencer=s, **where) for s in ("paper", "forward", "ours")
        )
        assert ours < forward < paper


def test_every_claim_has_a_verdict_and_says_how_it_was_judged(rows):
    claims = latency.judge({"latency": rows})
    assert {claim.figure for claim in claims} == {*latency.FAMILY.figures, "beaten"}
    assert all(claim.verdict and claim.why and claim.measured != "" for claim in claims)


def test_rows_that_are_missing_are_an_error_and_not_a_verdict(rows):
    with pytest.raises(UnisonoError, match="no run with"):
        rows.mean("total_s", nodes=77)


TINY = {"nodes": 60, "topics": 40, "subscriptions": 6, "events": 120, "duration_s": 8.0}
TINIER = {"nodes": 12, "topics": 6, "subscriptions": 3, "events": 40}


def tiny_tables(family, sizes=TINY):
    """Every sweep of a family with worlds of a few nodes, one run for each point."""
    tables = {}
    for sweep in family.sweeps("quick"):
        points = [dict(zip(sweep.grid, values, strict=True)) for values in product(*sweep.grid.values())]
        run = find_experiment(sweep.experiment).run
        small = {name: value for name, value in sizes.items() if name in sweep.grid}
        kept = {"subscriptions"} if len(sweep.grid.get("subscriptions", ())) > 1 else set()
        rows = []
        for point in points:
            parameters = point | {name: value for name, value in small.items() if name not in kept}
            if parameters.get("shuffle_s"):
                parameters["shuffle_s"] = 60.0
            rows.append(point | run(parameters, 1))
        tables[sweep.name] = Rows(rows)
    return tables


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        (overhead.FAMILY, TINY),
        (buffers.FAMILY, TINIER),
        (dynamic_claims.FAMILY, TINY),
        (sequences.FAMILY, TINY),
    ],
    ids=["overhead", "buffers", "dynamic", "sequences"],
)
def test_every_family_judges_and_plots_what_it_swept(family, sizes):
    tables = tiny_tables(family, sizes=sizes)
    claims = family.judge(tables)
    assert {claim.figure for claim in claims} == {*family.figures, "beaten"}
    assert all(claim.verdict and claim.why and claim.measured != "" for claim in claims)
    assert {plot.figure for plot in family.plots(tables)} == set(family.figures)


def test_what_does_not_change_with_time_or_does_not_recover_differs_from_the_paper():
    def changed(row, value_at):
        """The row with this in each window of time, and in the last third."""
        return {
            name: value_at(int(name[-2:]) if name[-2:].isdigit() else 59)
            if name.startswith(("latency_s_", "bytes_", "late_"))
            else value
            for name, value in row.items()
        }

    tables = tiny_tables(dynamic_claims.FAMILY)

    def verdicts(value_at):
        rows = {name: Rows([changed(row, value_at) for row in t.rows]) for name, t in tables.items()}
        return {claim.claim: claim.verdict for claim in dynamic_claims.judge(rows)}

    still, worse = verdicts(lambda i: 7.0), verdicts(lambda i: 7.0 if i < 30 else 12.0)
    for claim in (
        "from a random order, dynamic adaptation quickly converges to a small latency",
        "dynamic adaptation outperforms the best static order",
        "dynamic adaptation drastically reduces the bytes of stamps over time",
        "when popularity is shuffled at 300 s, latency rises steeply",
    ):
        assert still[claim] == "differs"
    back = "adaptation quickly brings latency back"
    assert (still[back], worse[back]) == ("reproduced", "differs")


def test_a_detector_notes_sequences_one_after_the_other():
    kinds = {"a": [0, 1, 2, 0], "b": [1, 2, 0, 2]}
    in_order = [("a", 0), ("b", 0), ("b", 1), ("a", 3), ("a", 1), ("a", 2)]
    assert sequences.detect(in_order, kinds) == {
        (("a", 0), ("b", 0), ("b", 1)),
        (("a", 3), ("a", 1), ("a", 2)),
    }
    assert sequences.detect(in_order[::-1], kinds) == set()


def test_who_waits_detects_everything_and_the_bare_service_does_not():
    world = {"nodes": 40, "duration_s": 30.0, "rate_s": 2.0}
    assert sequences.run(world | {"setting": "ours"}, 2)["consistent"] == 1
    assert sequences.run(world | {"setting": "bare"}, 2)["consistent"] < 0.7


def test_a_buffer_and_full_stamps_leave_nothing_tagged():
    world = {"nodes": 20, "topics": 8, "subscriptions": 4, "events": 120, "rate_s": 10.0}
    paper, buffered, ours = (
        buffers.run(world | {"stamps": stamps, "buffer": buffer}, 1)["tagged"]
        for stamps, buffer in (("paper", 0), ("paper", 30), ("ours", 100))
    )
    assert paper > buffered > ours == 0


def test_swaps_are_counted_as_the_engine_decides_them():
    point = {"topics": 200, "events": 300, "beta": 0.2, "joins_s": 0.0, "joining": "popular"}
    few, many = (dynamic.count_swaps(point | {"alpha": alpha}, 3)["swaps"] for alpha in (0.5, 0.1))
    assert 0 < few < many
    churning = point | {"alpha": 0.1, "joins_s": 0.1}
    assert dynamic.count_swaps(churning, 3)["swaps"] > many


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_every_sweep_is_one_the_pipeline_takes(profile):
    for family in catalogue.families():
        for sweep in family.sweeps(profile):
            parameters = find_experiment(sweep.experiment).parameters
            assert set(sweep.grid) == set(parameters)
            for name, values in sweep.grid.items():
                assert [parameters[name].check(name, value) for value in values] == list(values)
            assert sweep.seeds >= (10 if profile == "full" else 1)


def test_figures_are_chosen_by_name():
    assert catalogue.choose(["000-9"]).figures == ("000-9",)
    everything = catalogue.choose(["000"])
    assert {"000-9", "000-12", "000-24"} <= set(everything.figures)
    with pytest.raises(ConfigError, match="'000-8' is no paper or figure we know"):
        catalogue.choose(["000-8"])


class Killed(BaseException):
    """As a signal would end it: nothing on the way may catch it."""


@pytest.fixture
def cells_run(monkeypatch):
    """A small figure 9, its cells run here instead of on Spark; returns the keys of those that were run."""
    grid = {name: (value,) for name, value in SMALL.items()} | {
        "nodes": (10, 30),
        "publication": ("worst", "uniform", "power"),
        "sequencer": ("paper", "paper_direct", *latency.OURS),
    }
    small = Family(
        "latency",
        latency.FAMILY.figures,
        lambda profile: [Sweep("latency", "000-latency", grid, 1)],
        latency.judge,
        latency.plots,
    )
    ran = []

    def run_here(spark, spec, todo, folder):
        for cell in todo:
            if len(ran) == 10 and not folder.with_name("killed").exists():
                folder.with_name("killed").touch()
                raise Killed
            run_cell(spec.experiment, cell, str(folder))
            ran.append(cell.key)

    session = type("Session", (), {"stop": lambda self: None})
    monkeypatch.setattr(catalogue, "families", lambda: (small,))
    monkeypatch.setattr(pipeline_sweep, "_run_on_spark", run_here)
    monkeypatch.setattr("unisono.pipeline.session.open_session", lambda *_: session())
    return ran


def test_a_killed_run_does_only_what_is_missing(tmp_path, cells_run):
    command = ["lab", "reproduce", "000-9", "--json", "--out", str(tmp_path)]
    with pytest.raises(Killed):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert len(cells_run) == 10
    again = CliRunner().invoke(app, command)
    document = msgspec.json.decode(again.stdout)
    assert len(cells_run) == len(set(cells_run)) == document["cells"] == 36
    assert document["resumed"] == 10
    assert document["profile"] == "quick"
    assert document["says"].startswith("quick profile: fewer events and runs than the paper")
    assert document["seconds"] > 0
    assert {claim["figure"] for claim in document["claims"]} == {"000-9", "beaten"}
    for name in ("000-9.png", "000-9.svg"):
        assert (tmp_path / "quick" / "figures" / name).stat().st_size > 1000
    assert "| 000-9 |" in (tmp_path / "quick" / "claims_000-9.md").read_text()


def test_every_curve_of_a_figure_is_seen_and_every_axis_says_its_unit(tmp_path):
    """A curve below another one is drawn wider, logarithms have plain numbers, units of the right are on the right."""
    below, above = (
        Curve("below", [1, 9_000], [3, 3]),
        Curve("above", [1, 9_000], [3, 3.01], [0.1, 0.1], is_ours=True),
    )
    aside = Curve("aside", [1, 9_000], [20, 50], is_right=True)
    plot = Plot("000-9", "Title", "nodes", "latency (s)", [below, above, aside], is_log_x=True, right="bytes")
    assert all(path.stat().st_size > 500 for path in draw(plot, tmp_path))
    drawn = (tmp_path / "000-9.svg").read_text()
    for text in (
        "nodes",
        "latency (s)",
        "bytes",
        "dashed: ours; shaded: standard deviation between runs",
        "5,000",
    ):
        assert f"<!-- {text} -->" in drawn
    assert drawn.count("stroke-width: 4") == 2, "the curve below, and its line in the legend"


def test_what_failed_is_run_again_and_nothing_is_judged_before(tmp_path, cells_run, monkeypatch):
    (tmp_path / "quick" / "latency").mkdir(parents=True)
    (tmp_path / "quick" / "latency" / "killed").touch()

    def fails_sometimes(parameters, seed):
        if parameters["publication"] == "uniform":
            raise ValueError("no")
        return good(parameters, seed)

    command = ["lab", "reproduce", "000-9", "--json", "--out", str(tmp_path)]
    good = latency.run
    monkeypatch.setattr(latency, "run", fails_sometimes)
    failed = CliRunner().invoke(app, command)
    document = msgspec.json.decode(failed.stdout)
    assert failed.exit_code == 1
    assert (document["errors"], document["claims"]) == (12, [])
    assert "ValueError: no" in document["first_error"]
    monkeypatch.setattr(latency, "run", good)
    document = msgspec.json.decode(CliRunner().invoke(app, command).stdout)
    assert (document["errors"], document["resumed"]) == (0, 24)
    assert len(cells_run) == 36 + 12


def test_an_unknown_figure_is_one_line(tmp_path):
    result = CliRunner().invoke(app, ["lab", "reproduce", "000-99", "--out", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
