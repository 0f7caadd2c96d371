"""All managers on one node: the same stamps as a chain, many at once, and joins while events flow."""

from __future__ import annotations

from itertools import count

from engine_kit import publication, subscriber, told
from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.effects import AcknowledgeRun, Announce, DeliverRun, Fail, Reject, Send
from unisono.engines.inputs import TICK, Notified, Publish, Received
from unisono.engines.plan import conflict_graph, elimination_forest, rank_line
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.colocated import ColocatedManagers, ColocatedSubscriber
from unisono.engines.topic_managers.groups import Holder
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.model.frames import Create, Heartbeat, Nack, Publication, Run, Stamped

TOPICS = ("T1", "T2", "T3", "T4")
subscriptions = st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=5)
published = st.lists(st.sampled_from(TOPICS), max_size=12)


def numbered(topics: list[str]) -> list[Publication]:
    return [publication(topic, n) for n, topic in enumerate(topics, start=1)]


def node(*held: frozenset[str], threshold: int = 2, **settings) -> ColocatedManagers:
    managers = ColocatedManagers(ManagerSettings(**settings), threshold)
    for topics in held:
        managers.register(topics)
    return managers


def sequence(managers: ColocatedManagers, publications: list[Publication]) -> Run:
    announce, acknowledge = managers.handle(Publish(publications), 0.0)
    managers.check()
    assert isinstance(announce, Announce)
    assert isinstance(announce.notification, Run)
    assert acknowledge == AcknowledgeRun(announce.notification)
    return announce.notification


def stamped(run: Run) -> list[Stamped]:
    return [run.stamped(place) for place in range(len(run))]


def chain(plan, publications: list[Publication]) -> list[Stamped]:
    """What topic managers write when each request is run to its end before the next."""
    managers = {manager_address(topic): TopicManager(topic, plan) for topic in plan.rank}
    events = []
    for one in publications:
        queue = [Send(manager_address(one.topic), Create(one))]
        while queue:
            send = queue.pop(0)
            for effect in managers[send.to].handle(Received("x", send.message), 0.0):
                if isinstance(effect, Announce):
                    events.append(effect.notification)
                elif effect.to in managers:
                    queue.append(effect)
    return events


@given(subscriptions, published, st.sampled_from([1, 2, 3]), st.sampled_from([rank_line, elimination_forest]))
def test_a_node_writes_the_stamps_of_a_chain(held, topics, threshold, builder):
    plan = builder(conflict_graph(held, TOPICS, threshold))
    publications = numbered(topics)
    managers = node(*held, threshold=threshold)
    run = sequence(managers, publications)
    assert stamped(run) == chain(plan, publications)


@given(subscriptions, published, st.integers(0, 12))
def test_two_runs_are_one(held, topics, cut):
    publications = numbered(topics)
    whole, halves = node(*held), node(*held)
    both = stamped(sequence(halves, publications[:cut])) + stamped(sequence(halves, publications[cut:]))
    assert both == stamped(sequence(whole, publications))


@given(subscriptions, published, st.frozensets(st.sampled_from(TOPICS), min_size=1))
def test_a_run_is_worth_the_same_events_one_by_one(held, topics, mine):
    managers = node(*held, mine)
    run = sequence(managers, numbered(topics))
    at_once, one_by_one = subscriber(*sorted(mine)), subscriber(*sorted(mine))
    effects = []
    for event in stamped(run):
        effects += one_by_one.handle(Notified(event), 0.0)
    assert told(at_once.handle(Notified(run), 0.0)) == told(effects)
    assert at_once.state() == one_by_one.state()
    at_once.check()


@given(subscriptions, st.lists(published, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_runs_in_any_order_are_delivered_in_theirs(held, batches, random):
    managers, engine = node(*held, frozenset(TOPICS)), subscriber(*TOPICS)
    n = count(1)
    runs = [sequence(managers, [publication(t, next(n)) for t in topics]) for topics in batches]
    shuffled = list(runs)
    random.shuffle(shuffled)
    effects = [e for run in shuffled for e in engine.handle(Notified(run), 0.0)]
    engine.check()
    assert sorted(told(effects)) == sorted(f"{e.topic}#{e.number}" for run in runs for e in stamped(run))
    assert len(engine.held) == 0


def test_a_run_after_a_missing_one_is_held_event_by_event():
    managers, engine = node(frozenset({"T1", "T2"}), frozenset({"T1", "T2"})), subscriber("T1", "T2")
    first = sequence(managers, numbered(["T1", "T2"]))
    second = sequence(managers, [publication("T2", 3), publication("T1", 4)])
    assert told(engine.handle(Notified(second), 0.0)) == []
    assert told(engine.handle(Notified(first), 0.0)) == ["T1#1", "T2#1", "T2#2", "T1#2"]
    assert told(engine.handle(Notified(second), 0.0)) == []


def test_a_run_is_cut_down_to_the_topics_of_the_subscriber():
    managers, engine = node(frozenset({"T1", "T2"})), subscriber("T2")
    run = sequence(managers, numbered(["T1", "T2", "T1", "T2"]))
    (deliver,) = engine.handle(Notified(run), 0.0)
    assert deliver.places == [1, 3]


def test_topics_nobody_holds_are_numbered_all_the_same():
    managers = node(frozenset({"T1"}))
    assert [e.entries for e in stamped(sequence(managers, numbered(["T9", "T1", "T9"])))] == [
        {"T9": 1},
        {"T1": 1},
        {"T9": 2},
    ]
    assert managers.register(frozenset({"T9"})) == {"T9": 2}


def test_joining_gives_the_numbers_after_which_events_are_owed():
    managers = node(frozenset({"T1", "T2"}))
    early = sequence(managers, numbered(["T1", "T1", "T2"]))
    floors = managers.register(frozenset({"T1", "T2"}))
    assert floors == {"T1": 2, "T2": 1}
    late = subscriber(floors=floors)
    assert told(late.handle(Notified(early), 0.0)) == []
    assert told(late.handle(Notified(sequence(managers, [publication("T2", 4)])), 0.0)) == ["T2#2"]


def test_stamps_grow_with_the_second_holder_and_earlier_ones_stay():
    managers, both = node(frozenset({"T1", "T2"})), frozenset({"T1", "T2"})
    before = sequence(managers, numbered(["T1"]))
    second = Holder()
    managers.join(second, both)
    after = sequence(managers, [publication("T1", 2)])
    managers.dismiss(second)
    left = sequence(managers, [publication("T1", 3)])
    assert [before.entries(0), after.entries(0), left.entries(0)] == [
        {"T1": 1},
        {"T1": 2, "T2": 0},
        {"T1": 3, "T2": 0},
    ]


def test_a_new_topic_does_not_disturb_runs_on_their_way():
    managers, engine = node(frozenset({"T1"})), subscriber("T1")
    run = sequence(managers, numbered(["T1"]))
    managers.register(frozenset({"A", "T1"}))
    assert run.entries(0) == {"T1": 1}
    assert told(engine.handle(Notified(run), 0.0)) == ["T1#1"]
    assert told(engine.handle(Notified(sequence(managers, [publication("A", 2)])), 0.0)) == []


def test_runs_are_kept_for_repair_and_silence_is_broken():
    managers = node(frozenset({"T1"}), ring_events=2, heartbeat_s=1.0)
    run = sequence(managers, numbered(["T1", "T1", "T1"]))
    (send,) = managers.handle(Received("s", Nack("T1", "s", (1, 2, 3))), 0.5)
    assert send.message.events == (run.stamped(1), run.stamped(2))
    assert send.message.gone == (1,)
    assert managers.next_timer() == 1.0
    assert managers.handle(TICK, 1.0) == [Announce(("T1",), Heartbeat("T1", 0, 3))]


def test_what_is_not_for_a_node_is_rejected():
    (reject,) = node().handle(Notified(Heartbeat("T1", 0, 1)), 0.0)
    assert isinstance(reject, Reject)


def test_a_twin_is_independent():
    managers = node(frozenset({"T1"}), ring_events=4)
    sequence(managers, numbered(["T1"]))
    twin = managers.copy()
    assert twin.state() == managers.state()
    sequence(twin, [publication("T1", 2)])
    assert managers.clock == [1]


# Holders that change.

changes = st.lists(
    st.tuples(
        st.sampled_from(("join", "leave", "go", "publish")), st.integers(0, 3), st.sampled_from(TOPICS)
    ),
    max_size=40,
)


@given(changes, st.sampled_from([1, 2, 3]))
def test_groups_are_those_of_all_that_was_held(steps, threshold):
    """One topic at a time gives what counting every registration anew would give, and nothing ever shrinks."""
    managers = ColocatedManagers(threshold=threshold)
    holders = [Holder() for _ in range(4)]
    expected: dict[str, set[str]] = {topic: {topic} for topic in TOPICS}
    n = count(1)
    for step, who, topic in steps:
        holder = holders[who]
        if step == "join" and topic not in holder.wanted:
            managers.join(holder, [topic])
            for found, others in conflict_graph([h.topics for h in holders], TOPICS, threshold).items():
                expected[found] |= others
        elif step == "leave" and topic in holder.wanted:
            managers.leave(holder, [topic])
        elif step == "go":
            managers.dismiss(holder)
            holders[who] = Holder()
        elif step == "publish":
            sequence(managers, [publication(topic, next(n))])
        managers.check()
        for known, group in managers.groups.of.items():
            assert set(group) == expected[known]


def test_a_join_reads_the_clock_and_changes_no_run_before_it():
    managers, one, two = ColocatedManagers(), Holder(), Holder()
    managers.join(one, ["T1", "T2"])
    assert managers.join(two, ["T2"]) == {"T2": 0}
    before = sequence(managers, numbered(["T2"]))
    assert managers.join(two, ["T1"]) == {"T1": 0}
    after = sequence(managers, [publication("T1", 2)])
    assert before.entries(0) == {"T2": 1}
    assert after.entries(0) == {"T1": 1, "T2": 1}


def test_what_nobody_wants_is_forgotten_and_numbers_never_come_back():
    managers, stays = node(ring_events=4), Holder()
    managers.join(stays, ["stays"])
    top = 0
    for n in range(1000):
        holder = Holder()
        (floor,) = managers.join(holder, [f"t{n}"]).values()
        assert floor == managers.floor
        managers.join(stays, [f"t{n}"])
        sequence(managers, [publication(f"t{n}", i) for i in range(1, 4)])
        top = max(top, managers.newest(f"t{n}"))
        managers.dismiss(holder)
        managers.leave(stays, [f"t{n}"])
        managers.check()
        assert len(managers.index) < 200
        assert len(stays.topics) < 200
        assert len(managers.emitter.rings) <= 1
    assert managers.newest("never seen") == managers.floor <= top


def test_a_forgotten_topic_starts_above_every_number_it_had():
    managers, holder = ColocatedManagers(), Holder()
    managers.join(holder, ["T1"])
    run = sequence(managers, numbered(["T1", "T1"]))
    managers.dismiss(holder)
    for n in range(200):
        passing = Holder()
        managers.join(passing, [f"x{n}"])
        managers.dismiss(passing)
    assert "T1" not in managers.index
    (floor,) = managers.join(holder, ["T1"]).values()
    assert floor >= 2
    assert run.entries(1) == {"T1": 2}  # what is under way keeps its stamp


# A subscriber beside its managers.


def test_what_is_too_far_ahead_ends_a_subscription_that_cannot_ask_for_it_again():
    far = Stamped(publication("T1", 1), 0, {"T1": 1000})
    for on_gap in ("wait", "fail"):
        engine = ColocatedSubscriber("s", {"T1": 0}, SubscriberSettings(on_gap=on_gap, hold_max=10))
        (fail,) = engine.handle(Notified(far), 0.0)
        assert isinstance(fail, Fail)
        assert "number 1000 of 'T1' is over 20 ahead of 0" in str(fail.error)
        assert engine.handle(Notified(far), 0.0) == []
    asks = ColocatedSubscriber("s", {"T1": 0}, SubscriberSettings(repair=True, hold_max=10))
    (reject,) = asks.handle(Notified(far), 0.0)
    assert isinstance(reject, Reject)
    assert not asks.failed


def test_a_run_is_taken_as_one_after_topics_have_come_and_gone():
    managers, holder, engine = ColocatedManagers(), Holder(), ColocatedSubscriber("s", {})
    for topic, floor in managers.join(holder, ["T1"]).items():
        engine.admit(topic, floor)
    assert told(engine.handle(Notified(sequence(managers, numbered(["T1"]))), 0.0)) == ["T1#1"]
    for topic, floor in managers.join(holder, ["T2"]).items():
        engine.admit(topic, floor)
    (deliver,) = engine.handle(Notified(sequence(managers, numbered(["T2", "T1", "T2"]))), 0.0)
    assert isinstance(deliver, DeliverRun)
    managers.leave(holder, ["T1"])
    assert engine.dismiss("T1") == []
    (deliver,) = engine.handle(Notified(sequence(managers, numbered(["T1", "T2"]))), 0.0)
    assert deliver.places == [1]
    engine.check()
    assert engine.copy().state() == engine.state()
