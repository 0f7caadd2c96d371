"""Each promise: a history in which it held, one in which it did not, one that cannot tell."""

from __future__ import annotations

import pytest
from history_builder import Run

from unisono.history import PROMISES, Kind, Outcome, judge


@pytest.mark.parametrize("promise", PROMISES)
def test_an_empty_history_tells_nothing(promise):
    verdict = Run().verdict(promise)
    assert (verdict.promise, verdict.outcome, verdict.checked) == (promise, Outcome.UNKNOWN, 0)
    assert "subscription" in verdict.explanation


def test_unordered_subscriptions_are_promised_no_order():
    run = Run().subscribe("alice", "T1", order="none")
    unknown = {v.promise for v in judge(run.records) if v.outcome is Outcome.UNKNOWN}
    assert unknown == set(PROMISES) - {"no_creation", "no_duplication", "no_endless_wait"}


class TestNoCreation:
    def test_held(self):
        verdict = (
            Run().subscribe("alice", "T1").publish("a/0/1", "T1").see("alice", "a/0/1").verdict("no_creation")
        )
        assert (verdict.outcome, verdict.checked) == (Outcome.HELD, 1)

    def test_a_pattern_stands_for_its_topics(self):
        run = Run().subscribe("alice", "eu.>", order="fifo").publish("a/0/1", "eu.x").see("alice", "a/0/1")
        assert run.verdict("no_creation").outcome is Outcome.HELD

    def test_unknown_without_publications(self):
        run = Run().subscribe("alice", "T1").know("a/0/1", "T1").see("alice", "a/0/1")
        assert run.verdict("no_creation").outcome is Outcome.UNKNOWN

    def test_published_by_nobody(self):
        run = (
            Run().subscribe("alice", "T1").publish("a/0/1", "T1").know("a/0/2", "T1", 2).see("alice", "a/0/2")
        )
        verdict = run.verdict("no_creation")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == "alice saw a/0/2 (T1 #2), which nobody published"
        assert verdict.evidence == (run.records[-1],)

    def test_on_another_topic(self):
        run = (
            Run()
            .subscribe("alice", "T1", "T2")
            .publish("a/0/1", "T1")
            .know("a/0/1", "T2")
            .see("alice", "a/0/1")
        )
        assert run.verdict("no_creation").explanation == "alice saw a/0/1 (T2), which a published on T1"

    def test_on_a_topic_that_was_not_asked_for(self):
        run = Run().subscribe("alice", "T1").publish("a/0/1", "T2").see("alice", "a/0/1")
        assert (
            run.verdict("no_creation").explanation == "alice saw a/0/1 (T2) without having subscribed to T2"
        )

    def test_before_its_own_publication(self):
        run = Run().subscribe("a", "T1").know("a/0/1", "T1").see("a", "a/0/1").publish("a/0/1", "T1")
        assert run.verdict("no_creation").explanation == "a saw a/0/1 (T1) before publishing it"


class TestNoDuplication:
    def test_held_across_subscriptions_of_one_process(self):
        run = Run().subscribe("alice", "T1", subscription="x").subscribe("alice", "T1", subscription="y")
        run.know("a/0/1", "T1").see("alice", "a/0/1", subscription="x").see(
            "alice", "a/0/1", subscription="y"
        )
        assert run.verdict("no_duplication").outcome is Outcome.HELD

    def test_a_tagged_repeat_is_a_repeat(self):
        run = Run().subscribe("alice", "T1", subscription="x").know("a/0/1", "T1", 1)
        run.see("alice", "a/0/1", subscription="x").see("alice", "a/0/1", subscription="x", tagged=True)
        verdict = run.verdict("no_duplication")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == "alice[x] saw a/0/1 (T1 #1) twice"
        assert verdict.evidence == tuple(run.records[1:])


class TestPublisherFifo:
    def run(self) -> Run:
        return Run().know("a/0/1", "T1").know("a/0/2", "T1").know("a/0/3", "T2").know("a/1/1", "T1")

    def test_held_per_topic_and_incarnation(self):
        run = self.run().subscribe("alice", "T1", "T2", order="fifo")
        run.see("alice", "a/0/3", "a/0/1", "a/0/2", "a/1/1")
        assert run.verdict("publisher_fifo").outcome is Outcome.HELD

    def test_tagged_events_may_be_late(self):
        run = self.run().subscribe("alice", "T1").see("alice", "a/0/2").see("alice", "a/0/1", tagged=True)
        assert run.verdict("publisher_fifo").outcome is Outcome.HELD

    def test_violated(self):
        run = self.run().subscribe("alice", "T1", order="fifo").see("alice", "a/0/2", "a/0/1")
        verdict = run.verdict("publisher_fifo")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "alice saw a/0/2 (T1) before a/0/1 (T1), though their publisher sent a/0/1 first"
        )


class TestTotalNotificationOrder:
    def run(self) -> Run:
        run = Run().know("a/0/1", "T1", 4).know("b/0/7", "T2", 2).know("c/0/1", "T3", 1)
        for who, topics in {"alice": ("T1", "T2"), "bob": ("T1", "T2", "T3"), "carol": ("T1", "T3")}.items():
            run.subscribe(who, *topics)
        return run

    def test_held(self):
        run = self.run().see("alice", "a/0/1", "b/0/7").see("bob", "a/0/1", "b/0/7", "c/0/1")
        verdict = run.see("carol", "a/0/1", "c/0/1").verdict("total_notification_order")
        assert (verdict.outcome, verdict.checked) == (Outcome.HELD, 7)

    def test_violated_names_both_and_both(self):
        run = self.run().see("alice", "a/0/1", "b/0/7").see("bob", "b/0/7", "c/0/1", "a/0/1")
        verdict = run.verdict("total_notification_order")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "alice saw a/0/1 (T1 #4) before b/0/7 (T2 #2), bob saw b/0/7 before a/0/1"
        )
        assert [(r.process, r.event) for r in verdict.evidence] == [
            ("alice", "a/0/1"),
            ("alice", "b/0/7"),
            ("bob", "b/0/7"),
            ("bob", "a/0/1"),
        ]

    def test_a_tag_withdraws_the_claim(self):
        run = self.run().see("alice", "a/0/1", "b/0/7").see("bob", "b/0/7").see("bob", "a/0/1", tagged=True)
        assert run.verdict("total_notification_order").outcome is Outcome.HELD

    def test_a_cycle_of_three_is_no_contradiction_of_two(self):
        run = (
            self.run()
            .see("alice", "a/0/1", "b/0/7")
            .see("bob", "b/0/7", "c/0/1")
            .see("carol", "c/0/1", "a/0/1")
        )
        assert run.verdict("total_notification_order").outcome is Outcome.HELD

    def test_who_was_promised_less_does_not_count(self):
        run = (
            Run()
            .know("a/0/1", "T1")
            .know("b/0/1", "T1")
            .subscribe("alice", "T1")
            .see("alice", "a/0/1", "b/0/1")
        )
        run.subscribe("bob", "T1", order="causal").see("bob", "b/0/1", "a/0/1")
        assert run.verdict("total_notification_order").outcome is Outcome.HELD


class TestAcyclicOrder:
    def run(self) -> Run:
        run = (
            Run().know("x/0/1", "T1", 1).know("y/0/1", "T2", 1).know("z/0/1", "T3", 1).know("w/0/1", "T4", 1)
        )
        for who in ("alice", "bob", "carol"):
            run.subscribe(who, "T1", "T2", "T3", "T4", order="total_causal")
        return run

    def test_held(self):
        run = (
            self.run()
            .see("alice", "x/0/1", "y/0/1")
            .see("bob", "y/0/1", "z/0/1")
            .see("carol", "x/0/1", "z/0/1")
        )
        assert run.verdict("acyclic_order").outcome is Outcome.HELD

    def test_a_cycle_of_three(self):
        run = self.run().see("alice", "x/0/1", "w/0/1", "y/0/1").see("bob", "y/0/1", "z/0/1")
        run.see("carol", "z/0/1", "x/0/1")
        verdict = run.verdict("acyclic_order")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "x/0/1 (T1 #1) before y/0/1 (T2 #1) (alice), y/0/1 before z/0/1 (T3 #1) (bob), "
            "z/0/1 before x/0/1 (carol)"
        )
        assert len(verdict.evidence) == 6

    def test_the_smaller_cycle_is_told(self):
        run = self.run().see("alice", "x/0/1", "y/0/1").see("bob", "y/0/1", "z/0/1", "w/0/1")
        run.see("carol", "w/0/1", "z/0/1", "x/0/1")
        verdict = run.verdict("acyclic_order")
        assert verdict.explanation == ("z/0/1 (T3 #1) before w/0/1 (T4 #1) (bob), w/0/1 before z/0/1 (carol)")

    def test_three_steps_are_told_rather_than_four(self):
        run = Run()
        for size, name in ((4, "long"), (3, "short")):
            for i in range(size):
                run.know(f"{name}/0/{i}", "T1")
            for i in range(size):
                who = f"{name}-{i}"
                run.subscribe(who, "T1", order="total_causal")
                run.see(who, f"{name}/0/{i}", f"{name}/0/{(i + 1) % size}")
        verdict = run.verdict("acyclic_order")
        assert {r.process for r in verdict.evidence} == {"short-0", "short-1", "short-2"}

    def test_total_alone_does_not_promise_it(self):
        assert Run().subscribe("alice", "T1").verdict("acyclic_order").outcome is Outcome.UNKNOWN


class TestTags:
    def run(self) -> Run:
        run = Run().subscribe("alice", "T1", "T2", on_gap="tag")
        run.know("a/0/1", "T1", 1, {"T1": 1}).know("a/0/2", "T1", 2, {"T1": 2}).know(
            "a/0/3", "T1", 3, {"T1": 3}
        )
        return run.know("b/0/1", "T2", 1, {"T1": 1, "T2": 1, "T9": 0}).know(
            "b/0/2", "T2", 2, {"T1": 3, "T2": 2}
        )

    def test_held_with_a_late_event_tagged(self):
        run = (
            self.run().see("alice", "a/0/2").see("alice", "a/0/1", "b/0/1", tagged=True).see("alice", "b/0/2")
        )
        verdict = run.see("alice", "a/0/3", tagged=True).verdict("tags")
        assert (verdict.outcome, verdict.checked) == (Outcome.HELD, 5)

    def test_unknown_without_stamps(self):
        run = self.run().know("a/0/1", "T1", 1).see("alice", "a/0/1")
        verdict = run.verdict("tags")
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.explanation == "alice saw a/0/1 (T1 #1) without a stamp to judge it by"

    def test_incomplete_on_another_topic(self):
        verdict = self.run().see("alice", "a/0/2", "b/0/1").verdict("tags")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "alice saw b/0/1 (T2 #1) untagged, but it came too late: "
            "it carries T1 #1 and alice had reached T1 #2 with a/0/2"
        )
        assert [r.event for r in verdict.evidence] == ["a/0/2", "b/0/1"]

    def test_incomplete_below_the_join(self):
        run = Run().subscribe("alice", "T1", floor=3).know("a/0/3", "T1", 3, {"T1": 3}).see("alice", "a/0/3")
        assert run.verdict("tags").explanation.endswith("alice had reached T1 #3 by joining there")

    def test_incomplete_across_an_epoch(self):
        run = self.run().know("b/0/1", "T2", 1, {"T2": 1}, epoch=2).see("alice", "b/0/1", "a/0/1")
        assert run.verdict("tags").explanation.endswith(
            "it is of epoch 0 and alice had entered epoch 2 with b/0/1"
        )

    def test_undeserved(self):
        verdict = self.run().see("alice", "a/0/1").see("alice", "b/0/1", tagged=True).verdict("tags")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "alice saw b/0/1 (T2 #1) tagged, but nothing it had seen contradicts the stamp"
        )

    def test_a_tagged_event_leaves_the_clock_alone(self):
        run = (
            self.run()
            .know("b/0/9", "T2", 1, {"T2": 1})
            .see("alice", "a/0/2")
            .see("alice", "b/0/1", tagged=True)
        )
        assert run.see("alice", "b/0/9").verdict("tags").outcome is Outcome.HELD

    def test_leaving_a_topic_forgets_its_clock(self):
        run = (
            self.run().see("alice", "a/0/2").add(Kind.UNSUBSCRIBED, "alice", topic="T1").see("alice", "b/0/1")
        )
        assert run.verdict("tags").outcome is Outcome.HELD


class TestCausalOrder:
    def run(self) -> Run:
        run = Run()
        for who in ("alice", "bob", "carol"):
            run.subscribe(who, "T1", "T2", "T3", order="causal")
        return run.publish("alice/0/1", "T1", 1).see("bob", "alice/0/1").publish("bob/0/1", "T2", 1)

    def test_held(self):
        verdict = self.run().see("carol", "alice/0/1", "bob/0/1").verdict("causal_order")
        assert (verdict.outcome, verdict.checked) == (Outcome.HELD, 3)

    def test_concurrent_events_may_come_in_any_order(self):
        run = self.run().publish("alice/0/2", "T1", 2).see("carol", "alice/0/1", "alice/0/2", "bob/0/1")
        assert (
            run.see("alice", "alice/0/1", "bob/0/1", "alice/0/2").verdict("causal_order").outcome
            is Outcome.HELD
        )

    def test_effect_before_cause(self):
        verdict = self.run().see("carol", "bob/0/1", "alice/0/1").verdict("causal_order")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "carol saw bob/0/1 (T2 #1) before alice/0/1 (T1 #1), but alice/0/1 happened before bob/0/1: "
            "bob saw alice/0/1, then published bob/0/1"
        )
        assert [(r.process, r.kind) for r in verdict.evidence] == [
            ("carol", Kind.DELIVERED),
            ("carol", Kind.DELIVERED),
            ("bob", Kind.DELIVERED),
            ("bob", Kind.PUBLISHED),
        ]

    def test_a_chain_of_causes_is_told(self):
        run = self.run().see("alice", "bob/0/1").publish("alice/0/2", "T3", 1).publish("alice/0/3", "T3", 2)
        run.subscribe("dave", "T1", "T2", "T3", order="total_causal").publish("dave/0/1", "T3").see(
            "bob", "dave/0/1"
        )
        verdict = run.see("dave", "alice/0/2", "bob/0/1").verdict("causal_order")
        assert verdict.explanation.endswith("alice saw bob/0/1, then published alice/0/2")
        run = self.run().publish("bob/0/2", "T2").see("alice", "bob/0/2").publish("alice/0/2", "T3")
        verdict = (
            run.subscribe("dave", "T1", "T3", order="causal")
            .see("dave", "alice/0/2", "bob/0/1")
            .verdict("causal_order")
        )
        assert verdict.explanation.endswith(
            "bob published bob/0/1, then published bob/0/2; alice saw bob/0/2, then published alice/0/2"
        )

    def test_unknown_without_the_publication(self):
        verdict = self.run().know("x/0/1", "T1").see("carol", "x/0/1").verdict("causal_order")
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.explanation == "no record says when x/0/1 (T1) was published"

    def test_unknown_when_an_event_is_its_own_cause(self):
        run = (
            Run()
            .subscribe("a", "T1", order="causal")
            .know("a/0/1", "T1")
            .see("a", "a/0/1")
            .publish("a/0/1", "T1")
        )
        verdict = run.verdict("causal_order")
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.explanation.startswith("a/0/1 is its own cause")


class TestNothingLost:
    def run(self, **fields) -> Run:
        run = Run().publish("a/0/1", "T1", 1).publish("a/0/2", "T1", 2).publish("a/0/3", "T1", 3)
        run.sequence("a/0/1", "a/0/2", "a/0/3", "a/0/3")
        return run.subscribe("alice", "T1", floor=1, **fields).see("alice", "a/0/3").add(Kind.HEALED, "world")

    def test_held_for_all_above_the_floor(self):
        verdict = self.run().see("alice", "a/0/2", tagged=True).verdict("nothing_lost")
        assert (verdict.outcome, verdict.checked) == (Outcome.HELD, 2)

    @pytest.mark.parametrize("kind", [Kind.DROPPED, Kind.LOST])
    def test_held_when_someone_says_why(self, kind):
        run = self.run().add(kind, "alice", event="a/0/2", topic="T1", number=2, reason="skipped")
        assert run.verdict("nothing_lost").outcome is Outcome.HELD

    def test_what_never_arrived_is_known_by_its_number(self):
        run = self.run().add(Kind.LOST, "alice", topic="T1", number=2, reason="no copy left")
        assert run.verdict("nothing_lost").outcome is Outcome.HELD

    def test_violated(self):
        verdict = self.run().verdict("nothing_lost")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == (
            "alice never saw a/0/2 (T1 #2), owed since it joined T1 at #1, and no record says why"
        )
        assert [r.kind for r in verdict.evidence] == [Kind.SUBSCRIBED, Kind.SEQUENCED]

    def test_a_drop_needs_a_reason(self):
        run = self.run().add(Kind.DROPPED, "alice", event="a/0/2", topic="T1", number=2)
        assert run.verdict("nothing_lost").explanation == (
            "alice never saw a/0/2 (T1 #2): it was dropped without a reason"
        )

    def test_unknown_until_the_world_heals(self):
        run = Run().publish("a/0/1", "T1", 1).sequence("a/0/1").subscribe("alice", "T1")
        assert "healed" in run.verdict("nothing_lost").explanation

    def test_who_left_is_owed_only_what_it_waited_for(self):
        left = {"topic": "T1"}
        run = self.run(on_gap="tag").add(Kind.UNSUBSCRIBED, "alice", **left)
        assert run.verdict("nothing_lost").outcome is Outcome.HELD
        run = self.run(on_gap="wait").add(Kind.UNSUBSCRIBED, "alice", **left)
        assert run.verdict("nothing_lost").outcome is Outcome.VIOLATED


class TestNoEndlessWait:
    def test_held(self):
        assert Run().subscribe("alice", "T1").verdict("no_endless_wait").outcome is Outcome.HELD

    def test_violated(self):
        run = Run().subscribe("alice", "T1")
        run.add(Kind.HELD, "alice", event="a/0/2", topic="T1", number=2, reason="waits for T1 #1")
        verdict = run.verdict("no_endless_wait")
        assert verdict.outcome is Outcome.VIOLATED
        assert verdict.explanation == ("alice still held a/0/2 (T1 #2) when the run ended (waits for T1 #1)")
        assert verdict.evidence == (run.records[-1],)


def test_who_waits_and_was_told_of_a_loss_may_go_on_without_it():
    """T1 #5 follows T3 #1, T2 #7 follows T3 #3, which is lost: nobody else holds T1 and T2 together."""
    from unisono.history import judge
    from unisono.history.record import Kind, Record

    def told(on_gap):
        topics = ("T1", "T2", "T3")
        seq = iter(range(1, 20))
        records = [
            Record(Kind.SUBSCRIBED, "s", next(seq), 0.0, topic=t, order="total", on_gap=on_gap)
            for t in topics
        ]
        records += [
            Record(Kind.LOST, "s", next(seq), 0.0, topic="T3", number=n, reason="gone") for n in (1, 2, 3)
        ]
        for event, topic, stamp in (("b/0/1", "T2", {"T2": 1, "T3": 3}), ("a/0/1", "T1", {"T1": 1, "T3": 1})):
            records.append(
                Record(Kind.DELIVERED, "s", next(seq), 0.0, event=event, topic=topic, number=1, stamp=stamp)
            )
        return judge(records, ["tags"])[0].outcome

    assert told("wait") is Outcome.HELD
    assert told("tag") is Outcome.VIOLATED
