"""Paper 004's evaluation, run again in small: who sleeps, who is slowed down by it, and what the claims make of it."""

from itertools import product

import pytest

from unisono.lab.experiments import find_experiment
from unisono.lab.reproduce import deadline_claims
from unisono.lab.reproduce.catalogue import choose
from unisono.lab.reproduce.deadline_claims import judge, sweeps
from unisono.lab.reproduce.deadline_runs import run
from unisono.lab.reproduce.rows import Rows

SMALL = {"members": 24, "authors": "brokers", "rate_s": 60.0, "duration_s": 2.0, "window": 2}


def figures(protocol, asleep, **more):
    return run(SMALL | {"protocol": protocol, "asleep": asleep} | more, 1)


@pytest.mark.parametrize("protocol", ["paper", "ours"])
def test_with_brokers_and_gossip_healthy_members_get_everything_though_half_of_all_sleep(protocol):
    calm, half = figures(protocol, 0.0), figures(protocol, 0.5)
    assert calm["throughput_s"] == calm["offered_s"] == pytest.approx(60, abs=1)
    assert half["throughput_s"] == pytest.approx(calm["throughput_s"], rel=0.02)
    assert half["late"] == half["acknowledgements"] == 0
    assert half["order_bytes_per_broker"] < 8
    assert set(half) == set(find_experiment("004-asleep").figures)


def test_among_all_members_who_sleeps_slows_down_everybody():
    calm, half = figures("members", 0.0), figures("members", 0.5)
    assert calm["throughput_s"] == calm["offered_s"]
    assert half["throughput_s"] < 0.8 * calm["throughput_s"]
    assert half["latency_ms"] > 10 * calm["latency_ms"]
    assert figures("members", 0.5, window=64)["throughput_s"] > half["throughput_s"]
    assert figures("members, kindly", 0.5)["throughput_s"] > half["throughput_s"]
    assert set(half) == set(find_experiment("004-asleep").figures)


def test_vectors_are_as_long_as_there_are_brokers_whoever_publishes():
    ours, theirs = (figures(p, 0.0, authors="members", window=64) for p in ("paper", "members"))
    assert ours["vector"] <= 4 < theirs["vector"]
    assert ours["entries_kept"] <= 4 < theirs["entries_kept"] == 6


def test_the_papers_own_rule_drops_what_is_in_time():
    assert figures("literal", 0.0)["overtaken"] > 0.005
    assert figures("paper", 0.0)["overtaken"] == 0


def test_a_move_takes_two_messages_at_most_and_the_same_seed_gives_the_same():
    moves = find_experiment("004-moves")
    few, many = (moves.run({"brokers": brokers}, 1) for brokers in (2, 8))
    assert few["messages_of_a_move"] == many["messages_of_a_move"] <= 2
    assert many["vector"] > few["vector"]
    assert set(few) == set(moves.figures)
    assert figures("ours", 0.25) == figures("ours", 0.25)


def canned(point):
    """What a run of figure 6 might bring."""
    by_members = point.get("protocol", "").startswith("members")
    fall = point.get("asleep", 0.0) if point.get("protocol") == "members" and point["window"] < 32 else 0.0
    of = {"throughput_s": 100 * (1 - fall), "throughput_others_s": 90.0, "latency_ms": 3 + 900 * fall}
    of["latency_ms"] /= 2 if point.get("protocol") == "ours" else 1
    of |= {"missed": 0.0, "late": 0.0, "overtaken": 0.02 if point.get("protocol") == "literal" else 0.0}
    of |= {"messages": 3.0 if by_members else 0.5, "acknowledgements": 1.0 if by_members else 0.0}
    of |= {
        "vector": 40.0
        if by_members
        else float(min(4, point.get("brokers", 4)) + (point.get("brokers", 4) > 4))
    }
    of |= {"order_bytes": 400.0 if by_members else 18.0, "order_bytes_per_broker": 4.5, "events_held": 9.0}
    of |= {"entries_kept": 50.0 if by_members else 4.0, "messages_of_a_move": 2.0, "missed_by_mover": 0.0}
    return point | of


@pytest.fixture(scope="module")
def tables():
    return {
        sweep.name: [
            canned(dict(zip(sweep.grid, values, strict=True))) for values in product(*sweep.grid.values())
        ]
        for sweep in sweeps("quick")
    }


def verdicts(tables, **changes):
    """The verdicts, with some figures of the paper's protocol and ours changed."""
    changed = {
        name: Rows([row | (changes if row.get("protocol") in ("paper", "ours") else {}) for row in rows])
        for name, rows in tables.items()
    }
    claims = judge(changed)
    assert {claim.figure for claim in claims} == {*deadline_claims.FIGURES, "beaten"}
    assert deadline_claims.FAMILY.plots(changed)
    return {(claim.figure, claim.claim.split(",")[0]): claim.verdict for claim in claims}


def test_every_claim_has_a_verdict_and_broken_figures_differ(tables):
    there = verdicts(tables)
    differ = {claim for claim, verdict in there.items() if verdict == "differs"}
    assert {figure for figure, _ in differ} == {"004-rules"}
    assert len(differ) == 2  # Del_ok to the letter, and the number of colours
    assert verdicts(tables, late=1.0)["004-rules", "no message is delivered after its deadline"] == "differs"
    order = ("beaten", "order to subscribers")
    assert (there[order], verdicts(tables, order_bytes_per_broker=8.1)[order]) == ("reproduced", "differs")
    vector = ("004-overhead", "to subscribers travels a vector whose size is the number of brokers")
    assert (there[vector], verdicts(tables, vector=5.0)[vector]) == ("reproduced", "differs")


def test_a_fall_of_more_than_a_tenth_misses_the_target(tables):
    fallen = {
        name: [
            row | {"throughput_s": 89.0}
            if row.get("protocol") in ("paper", "ours") and row["asleep"]
            else row
            for row in rows
        ]
        for name, rows in tables.items()
    }
    found = {claim for claim, verdict in verdicts(fallen).items() if verdict == "differs"}
    assert {("beaten", "4 brokers"), ("004-6d", "with 50% asleep")} <= found


def test_the_paper_can_be_chosen():
    assert set(choose(["004"]).figures) == set(deadline_claims.FIGURES)
    assert choose(["004-6d"]).figures == ("004-6d",)
