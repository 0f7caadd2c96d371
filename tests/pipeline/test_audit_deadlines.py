"""Deadlines in the audit: kept by simulated worlds, broken by planted bugs, and told in the words of the small judges."""

import msgspec
import pytest

from unisono.engines.deadline_causal import holdback
from unisono.history import Kind, Outcome, Record, judge
from unisono.history.checkers import deadlines
from unisono.journal import write_records
from unisono.pipeline.audit import audit
from unisono.sim.deadline.draw import draw_deadline
from unisono.sim.deadline.records import record_world
from unisono.sim.deadline.simulation import Makers
from unisono.testing.planted_bugs import deadline_engines as weak

PROMISES = ("causal_order", "deadline", "no_unjust_drop")


def audited(tmp_path, records, name="journal"):
    """The verdicts of the audit, which are those of the judges."""
    write_records(tmp_path / name, records)
    report = audit(tmp_path / name, mode="independent")
    found = {j.promise: (j.verdict, j.explanation) for j in report.promises}
    small = {v.promise: v for v in judge(records, PROMISES)}
    assert {p: found[p][0] for p in PROMISES} == {p: small[p].outcome.value for p in PROMISES}
    assert found["no_unjust_drop"][1] == small["no_unjust_drop"].explanation
    return found, report


def with_weak(hold):
    return Makers(weak.with_hold(hold), weak.reading_with(hold))


@pytest.mark.parametrize("seed", [0, 4, 9, 4502])  # late, overtaken; moving publishers
def test_a_sound_world_is_held_to_have_kept_its_promises(tmp_path, seed):
    records = record_world(draw_deadline(seed))
    found, report = audited(tmp_path, records)
    assert {found[p][0] for p in PROMISES} == {"held"}
    assert report.verdict == "held"
    dropped = sum(r.kind is Kind.DROPPED for r in records)
    assert dropped
    assert f"{sum(r.reason == 'too late' for r in records)} too late" in found["no_unjust_drop"][1]


@pytest.mark.parametrize(
    ("hold", "seed", "promise", "words"),
    [
        (
            weak.WaitsForNobody,
            1,
            "no_unjust_drop",
            "as 'overtaken', but nothing that follows it had to go by then",
        ),
        (
            weak.LiteralDelOk,
            4,
            "no_unjust_drop",
            "as 'overtaken', but nothing that follows it had to go by then",
        ),
        (weak.LateAndOvertaken, 1, "deadline", "s3 saw s3/0/1 (T1) 0.078 s after its deadline"),
        (weak.NeverOvertaken, 4, "causal_order", "happened before"),
        (weak.LearnsNothing, 5, "causal_order", "happened before"),
    ],
)
def test_a_planted_bug_is_found_and_named(tmp_path, hold, seed, promise, words):
    found, report = audited(tmp_path, record_world(draw_deadline(seed), with_weak(hold)))
    assert found[promise][0] == "violated"
    assert words in found[promise][1]
    assert report.verdict == "violated"
    named = [v for v in report.violations if promise in (v.promise, *(a["promise"] for a in v.also))]
    assert named
    assert named[0].rows


def history(
    *, drop_reason="overtaken", drop_at=1.0, effect_due=0.9, heard=("q/1/1",), patience=10.0, own=2.0
):
    """p asks, q answers; s hears the answer and drops the question."""
    says = [
        Record(Kind.PUBLISHED, "p", 1, 0.1, "p/1/1", "asks", deadline=own),
        Record(Kind.TOLD, "p", 2, 0.1, "p/1/1", "asks", 5, {"p-1/asks": 5}, deadline=1.9),
        Record(Kind.SUBSCRIBED, "q", 1, 0.0, topic="asks", order="causal", deadline=patience),
        Record(Kind.DELIVERED, "q", 2, 0.2, "p/1/1", "asks"),
        Record(Kind.PUBLISHED, "q", 3, 0.3, "q/1/1", "answers", deadline=1.0 if own else None),
        Record(
            Kind.TOLD,
            "q",
            4,
            0.3,
            "q/1/1",
            "answers",
            7,
            {"p-1/asks": 5, "q-1/answers": 7},
            deadline=effect_due,
        ),
        Record(Kind.SUBSCRIBED, "s", 1, 0.0, topic="asks", order="causal", deadline=patience),
        Record(Kind.SUBSCRIBED, "s", 2, 0.0, topic="answers", order="causal", deadline=patience),
    ]
    says += [Record(Kind.DELIVERED, "s", 3 + i, 0.95, event, "answers") for i, event in enumerate(heard)]
    return [*says, Record(Kind.DROPPED, "s", 9, drop_at, "p/1/1", "asks", reason=drop_reason)]


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({}, Outcome.HELD, "dropped: 1 overtaken"),
        ({"effect_due": 1.5}, Outcome.VIOLATED, "nothing that follows it had to go by then"),
        ({"heard": ()}, Outcome.VIOLATED, "nothing that follows it came"),
        ({"drop_reason": "before joining"}, Outcome.HELD, "1 before joining"),
        ({"drop_reason": "too late", "drop_at": 1.95}, Outcome.HELD, "1 too late"),
        ({"drop_reason": "too late"}, Outcome.VIOLATED, "as 'too late', but 0.900 s were left"),
        ({"drop_reason": "stalled", "drop_at": 1.8}, Outcome.VIOLATED, "but 0.100 s were left"),
        ({"drop_reason": "full"}, Outcome.VIOLATED, "as 'full', but it was in time"),
        ({"drop_reason": "left"}, Outcome.VIOLATED, "its topic was not left"),
        ({"drop_reason": "the queue was full"}, Outcome.HELD, "1 the queue was full"),
        # The subscription is less patient than the event: it had to go 0.2 s before at most.
        ({"drop_reason": "too late", "patience": 1.0}, Outcome.HELD, "1 too late"),
        ({"drop_reason": "too late", "patience": 1.5}, Outcome.VIOLATED, "0.400 s were left"),
        (
            {"drop_reason": "too late", "patience": 1.0, "own": None},
            Outcome.UNKNOWN,
            "how long before its deadline",
        ),
    ],
)
def test_a_drop_is_judged_by_its_reason(tmp_path, changes, outcome, words):
    records = history(**changes)
    verdict = judge(records, ["no_unjust_drop"])[0]
    assert verdict.outcome is outcome
    assert words in verdict.explanation
    write_records(tmp_path, records)
    found = next(j for j in audit(tmp_path, mode="independent").promises if j.promise == "no_unjust_drop")
    assert found.verdict == outcome.value
    assert words in found.explanation


def test_what_is_not_told_leaves_a_doubt(tmp_path):
    records = [r for r in history() if r.kind is not Kind.TOLD]
    found, report = audited_doubt(tmp_path, records)
    assert found == "unknown"
    assert report.verdict == "unknown"


def audited_doubt(tmp_path, records):
    write_records(tmp_path, records)
    report = audit(tmp_path, mode="independent")
    judged = next(j for j in report.promises if j.promise == "no_unjust_drop")
    assert "no record says what" in judged.explanation
    assert judge(records, ["no_unjust_drop"])[0].outcome is Outcome.UNKNOWN
    return judged.verdict, report


def test_without_deadlines_nobody_asks(tmp_path):
    records = [msgspec.structs.replace(r, deadline=None) for r in history() if r.kind is not Kind.DROPPED]
    write_records(tmp_path, records)
    judged = [
        j for j in audit(tmp_path, mode="independent").promises if j.promise in ("deadline", "no_unjust_drop")
    ]
    assert [(j.verdict, j.matters) for j in judged] == [("unknown", False)] * 2


def test_reasons_have_the_same_names_as_in_the_engine():
    engine = {v for k, v in vars(holdback).items() if k.isupper() and isinstance(v, str)}
    assert set(deadlines.JUDGED) == engine
