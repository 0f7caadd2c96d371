"""Paper 002 reproduced: tiny worlds from end to end, every claim can hold and can fail, ours is beside each curve."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest
from typer.testing import CliRunner

from unisono.cli.main import app
from unisono.lab.experiments import find_experiment
from unisono.lab.reproduce import catalogue, gossip_claims, gossip_runs
from unisono.lab.reproduce.experiments import GOSSIP_ALGORITHMS, GOSSIP_FIGURES
from unisono.lab.reproduce.gossip_sweeps import PAPERS, SUBJECT, sweeps
from unisono.lab.reproduce.rows import Rows
from unisono.pipeline import sweep as pipeline_sweep
from unisono.pipeline.sweep_cell import run_cell
from unisono.sim.epidemic.reference import Reference, reference_settings, run_reference

TINY = SUBJECT | {
    "dispatchers": 10,
    "publishers": 1,
    "rate_s": 20.0,
    "patterns": 4,
    "loss": 0.2,
    "duration_s": 1.0,
}


def tables_of(figures):
    """The tables of all sweeps, if a run gave what this function says of its parameters."""
    tables = {}
    for sweep in sweeps("quick"):
        points = [dict(zip(sweep.grid, values, strict=True)) for values in product(*sweep.grid.values())]
        tables[sweep.name] = Rows([point | figures(sweep.name, point) for point in points])
    return tables


def as_told(sweep, p):
    """A world in which all is as the paper says."""
    name = p["algorithm"]
    if sweep == "gossip-convergence":
        slow = {"push": 4.0}.get(name, 1.0)
        return {"had": 1 - p["loss"] * 2, "missed": 2.0, "rounds_sum": 2 * slow}
    pull, push = "pull" in name, "push" in name
    calm = p["loss"] == 0 and not p["rewire_s"]
    recovery = {"none": 0.0, "local push": 0.5, "adaptive push": 0.75, "ours": 1.0}.get(name, 0.7)
    if push:
        recovery -= 0.001 * p["patterns"] + 0.02 * p["words"] + (0.1 if p["cache"] < 100 else 0.0)
    elif pull and name != "both pulls":
        recovery *= min(1.0, p["subscribers"] / 3) * min(1.0, p["rate_s"] / 15)
    recovery += {"interest_first": 0.1, "random": 0.1}.get(p["policy"], 0.0)
    cost = {"push": 0.2, "local push": 0.2, "adaptive push": 0.04}.get(name, 0.0 if calm else 0.05)
    cost *= 0.1 / p["gossip_s"] * (p["lossy_share"] if pull else 1.0)
    in_time = 1.0 if name == "ours" else recovery - 0.1 * p["gossip_s"] - (0.3 if push else 0.0)
    return dict.fromkeys(GOSSIP_FIGURES, 1.0) | {
        "delivery": 0.5 + 0.4 * recovery + (p["cache"] / 1e5 if p["gossip_s"] < 0.2 else 0.1),
        "in_time": in_time,
        "recovery": recovery,
        "recovered_s": 0.1 * p["patterns"],
        "overhead": cost,
        "gossip_each_s": 10 * p["forward"] * p["fanout"],
        "gossip_per_repair": 2.0 if name == "immediate pulls" else 1.0,
        "lost_of_one": 4.0,
        "repairs_by_source": 0.3,
        "hits_others": 0.3,
    }


def otherwise(sweep, p):
    """A world in which nothing is."""
    if sweep == "gossip-convergence":
        return {"had": 0.9, "missed": 2.0, "rounds_sum": 4.0}
    recovery = 0.4 / p["subscribers"] / p["dispatchers"]
    return dict.fromkeys(GOSSIP_FIGURES, 1.0) | {
        "in_time": 0.5,
        "recovery": recovery,
        "overhead": 1.0
        if "pull" in p["algorithm"]
        else 0.9 * p["lossy_share"] * (0.1 if p["loss"] == 0 else 1),
        "gossip_each_s": float(p["dispatchers"]),
        "gossip_busiest": 9.0,
        "answers_others": 0.0,
    }


def test_every_claim_can_hold_and_can_fail():
    good, bad = (gossip_claims.judge(tables_of(world)) for world in (as_told, otherwise))
    judged = [claim for claim in good if claim.verdict != "not testable"]
    assert len(judged) > 40
    assert [claim.claim for claim in judged if claim.verdict != "reproduced"] == []
    assert [claim.claim for claim in bad if claim.verdict == "reproduced"] == []
    assert all(claim.why for claim in (*good, *bad))
    assert {claim.figure for claim in good} <= {*gossip_claims.FIGURES, "beaten"}


def test_every_figure_has_the_bare_tree_or_ours_beside_the_papers():
    plots = gossip_claims.FAMILY.plots(tables_of(as_told))
    assert len(plots) == 16
    for plot in plots:
        names = {curve.label for curve in plot.curves}
        assert [curve.label for curve in plot.curves if curve.is_ours] == ["ours"]
        assert names >= {"push", "subscriber pull", "publisher pull"}
        if plot.y == "share of deliveries, in the end" and plot.figure not in ("002-interval", "002-cache"):
            assert "bare tree" in names


@pytest.fixture
def runs(monkeypatch):
    """Cells run here; each algorithm in one tiny world, for all the points of all sweeps."""
    known = {}
    gossip, convergence = gossip_runs.run, gossip_runs.run_convergence

    def run(parameters, seed):
        name = parameters["algorithm"]
        if name not in known:
            known[name] = gossip(TINY | {"algorithm": name}, 0)
        return known[name]

    def run_convergence(parameters, seed):
        name = parameters["algorithm"], "convergence"
        if name not in known:
            known[name] = convergence(parameters | {"dispatchers": 8}, 0)
        return known[name]

    def run_here(spark, spec, todo, folder):
        for cell in todo:
            run_cell(spec.experiment, cell, str(folder))

    monkeypatch.setattr(gossip_runs, "run", run)
    monkeypatch.setattr(gossip_runs, "run_convergence", run_convergence)
    monkeypatch.setattr(pipeline_sweep, "_run_on_spark", run_here)
    monkeypatch.setattr(
        "unisono.pipeline.session.open_session", lambda *_: type("Session", (), {"stop": lambda self: None})()
    )
    return known


def test_a_tiny_reproduction_from_end_to_end(runs, tmp_path):
    result = CliRunner().invoke(app, ["lab", "reproduce", "002-loss", "--json", "--out", str(tmp_path)])
    document = msgspec.json.decode(result.stdout)
    assert (document["errors"], document["profile"]) == (0, "quick")
    assert document["cells"] > 300
    assert document["seconds"] > 0
    for claim in document["claims"]:
        assert set(claim) == {"figure", "claim", "paper", "measured", "verdict", "why"}
    assert {c["figure"] for c in document["claims"]} == {"002-loss", "002-loss-overhead", "beaten"}
    for name in ("002-loss.png", "002-loss.svg", "002-loss-overhead.png"):
        assert (tmp_path / "quick" / "figures" / name).stat().st_size > 1000
    assert set(runs) >= set(GOSSIP_ALGORITHMS) | {("push", "convergence")}
    assert runs["none"]["delivery"] < 0.8
    assert runs["none"]["overhead"] == runs["none"]["recovery"] == 0
    assert all(runs[name]["delivery"] > runs["none"]["delivery"] for name in (*PAPERS, "ours"))
    assert runs["ours"]["delivery"] > 0.99
    assert runs["push"] != runs["local push"]


def test_what_the_tree_did_not_deliver_is_recovered_or_missing():
    world = Reference(
        dispatchers=10,
        publishers=1,
        patterns=4,
        subscribers_each=3,
        rate_s=20.0,
        warm_s=1.0,
        seconds=2.0,
        tail_s=3.0,
    )
    bare = run_reference(world, reference_settings(algorithm="none"))
    assert bare.lost == bare.expected - bare.at_last > 0
    ours = run_reference(world)
    assert (ours.expected, ours.events) == (bare.expected, bare.events)
    assert ours.recovered > 0.9 * ours.lost
    assert 0 < ours.recovered_s < 1
    assert 0 < ours.repairs_by_source < 1
    assert 1 < ours.gossip_busiest <= 10


def test_bursts_lose_as_much_as_steady_loss_but_not_at_all_times():
    world = Reference(
        dispatchers=10, publishers=2, patterns=4, rate_s=40.0, loss=0.05, warm_s=1.0, seconds=4.0
    )
    none = reference_settings(algorithm="none")
    steady = run_reference(world, none)
    bursts = run_reference(msgspec.structs.replace(world, lossy_share=0.2), none)
    calm = run_reference(msgspec.structs.replace(world, loss=0.0, lossy_share=0.2), none)
    assert calm.delivery == 1
    assert bursts.lost == pytest.approx(steady.lost, rel=0.4)
    assert bursts.unlucky_events < 0.8 * steady.unlucky_events


def test_one_loss_is_mended_by_everybody_in_a_few_rounds():
    run = find_experiment("002-convergence").run
    for name in (*PAPERS[:3], "ours"):
        found = run({"algorithm": name, "dispatchers": 12, "loss": 0.3, "gossip_s": 1.0}, 3)
        assert found["missed"] > 0
        assert found["never"] == 0
        assert 0 < found["rounds"] <= found["rounds_last"] < 15


def test_the_paper_and_its_parts_are_chosen_by_name():
    assert catalogue.choose(["002"]).figures == gossip_claims.FIGURES
    assert catalogue.choose(["002-cache"]).figures == ("002-cache", "002-cache-overhead")
    assert all(sweep.seeds >= 10 for sweep in sweeps("full"))
