"""Paper 001's statements: verdicts come out of explorations, a wrong rule changes them, ours keep what they promise."""

from dataclasses import replace

import msgspec
import pytest
from typer.testing import CliRunner

from unisono.cli.main import app
from unisono.lab.reproduce import catalogue, lemma_table, lemmas
from unisono.lab.reproduce import lemma_worlds as tiny
from unisono.lab.reproduce.lemma_trials import promise, stamps_grow
from unisono.sim.explore import Explorer, Faults
from unisono.testing.planted_bugs import engines, moving_members, worlds


def statement(figure, words):
    return next(s for s in lemma_table.STATEMENTS if s.figure == figure and words in s.says)


def judged(one, **changes):
    one = replace(one, **changes)
    paper, ours = (lemmas.try_rules(one, rules, "quick") for rules in (one.paper, one.ours))
    return lemmas.judge(one, paper, ours)


QUICK = [  # statement, words of it, verdict
    ("001-lemma-2", "two events of two topics", "reproduced"),
    ("001-lemma-2", "stand for any number", "differs"),
    ("001-lemma-4", "called subscribe", "differs"),
    ("001-lemma-5", "makes no sequencing group smaller", "reproduced"),
    ("001-lemma-5", "somebody else unsubscribes", "differs"),
    ("001-lemma-6", "listens at the service", "differs"),
    ("001-theorem-1", "dropped", "differs"),
    ("001-theorem-1", "first one topic", "differs"),
    ("001-fig-3", "isNext", "differs"),
]


@pytest.mark.parametrize(("figure", "words", "verdict"), QUICK, ids=[f"{f} {w}" for f, w, _ in QUICK])
def test_the_explorer_gives_the_verdict(figure, words, verdict):
    one = statement(figure, words)
    claim = judged(one)
    assert claim.verdict == verdict
    assert ("the smallest" in claim.measured) == (verdict == "differs")
    assert ("ours hold in the same worlds" in claim.why) == one.is_promised
    assert "we know no reason" not in claim.why


def test_a_counter_example_is_told_step_by_step():
    measured = judged(statement("001-lemma-5", "somebody else unsubscribes")).measured
    story = measured.partition("the smallest: ")[2]
    assert story == (
        "o {T1, T2}, s {} adds T1, x {T1, T2} drops T2; a on T1: the group of T1 has lost T2 while s subscribed, "
        "after 6 steps (s changes its topics, N1 hears s, N1 stores, x changes its topics, N1 hears x, s hears N1)"
    )


def test_a_lemma_that_holds_differs_as_soon_as_a_rule_of_its_proof_is_broken():
    """Lemma 2 rests on what managers learn from passing stamps."""
    one = statement("001-lemma-2", "two events of two topics")
    deaf = {**tiny.READ, "make_manager": engines.NeverLearns}
    claim = judged(one, paper=(deaf,))
    assert claim.verdict == "differs"
    assert "saw" in claim.measured


def test_ours_are_held_to_the_same_statement():
    one = statement("001-theorem-1", "first one topic")
    forgetful = {"make_member": moving_members.ForgetsWhatItHeld, "invariants": False}
    assert "ours break it too" in judged(one, ours=(forgetful,)).why
    broken = lemmas.try_rules(one, (forgetful,), "quick")
    assert lemmas.repaired(broken).verdict == "differs"
    assert lemmas.repaired(lemmas.try_rules(one, one.ours, "quick")).verdict == "reproduced"


def test_stamps_of_a_topic_grow_only_where_links_keep_order():
    assert not stamps_grow(worlds.RETRY.but(**tiny.READ), Explorer(), 0).broken
    overtaken = worlds.RETRY.but(**tiny.READ, faults=Faults(overtaking=True))
    assert "the next one of T2" in stamps_grow(overtaken, Explorer(), 0).broken


def test_a_search_that_was_cut_says_so():
    cut = promise("total_notification_order")(tiny.ADD_UPPER, Explorer(), 20)
    assert not cut.whole
    assert "1 of them not to the end" in lemmas.Tried([(tiny.ADD_UPPER, cut)]).extent


def test_every_statement_of_the_paper_has_its_turn():
    assert {s.figure for s in lemma_table.STATEMENTS} == set(lemmas.FIGURES)
    assert catalogue.choose(["001"]).figures == lemmas.FIGURES


def test_the_command_explores_without_spark_and_reports_every_claim(tmp_path, monkeypatch):
    def no_spark(*_):
        raise AssertionError("nothing here needs Spark")

    monkeypatch.setattr("unisono.pipeline.session.open_session", no_spark)
    command = ["lab", "reproduce", "001-fig-3", "001-fig-5", "--json", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    document = msgspec.json.decode(result.stdout)
    claims = document["claims"]
    assert (
        document["says"]
        == "quick profile: every interleaving of tiny worlds; --full for more and larger ones"
    )
    assert [claim["figure"] for claim in claims] == ["001-fig-3", "001-fig-3", "001-fig-5", "beaten"]
    assert "| 001-fig-5 |" in (tmp_path / "quick" / "claims_001-fig-3_001-fig-5.md").read_text()
