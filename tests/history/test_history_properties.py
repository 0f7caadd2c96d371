"""The fast judges agree with the definitions, read literally, on random small histories."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from history_builder import Run
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.history import PROMISES, History, Kind, Outcome, Record, judge

TOPICS = ("T1", "T2", "T3", "T4")
WHO = ("alice", "bob", "carol", "dave")

memberships = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=2, max_size=4)

WITHOUT_DEADLINES = [promise for promise in PROMISES if promise not in ("deadline", "no_unjust_drop")]


@st.composite
def one_order(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """The topic of each event of one global order, and which topics each subscriber holds."""
    topics = draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=25))
    return topics, [sorted(m) for m in draw(memberships)]


def told(topics: list[str], members: list[list[str]], rows: list[list[int]]) -> Run:
    """Everyone hears its row; numbers and stamps are those of one sequencer for all topics."""
    run = Run()
    for who, held in zip(WHO, members, strict=False):
        run.subscribe(who, *held, order="total_causal", on_gap="wait")
    clock = dict.fromkeys(TOPICS, 0)
    for i, topic in enumerate(topics):
        clock[topic] += 1
        run.publish(f"p/0/{i}", topic, clock[topic], dict(clock)).sequence(f"p/0/{i}")
    for who, row in zip(WHO, rows, strict=False):
        run.see(who, *(f"p/0/{i}" for i in row))
    return run.add(Kind.HEALED, "world")


def filtered(topics: list[str], members: list[list[str]]) -> list[list[int]]:
    return [[i for i, topic in enumerate(topics) if topic in held] for held in members]


@settings(deadline=None)
@given(one_order())
def test_one_order_filtered_keeps_every_promise(world):
    topics, members = world
    run = told(topics, members, filtered(topics, members))
    assert {v.outcome for v in judge(run.records, WITHOUT_DEADLINES)} == {Outcome.HELD}


@settings(deadline=None)
@given(one_order(), st.data())
def test_a_swap_that_another_subscription_can_see_is_always_found(world, data):
    topics, members = world
    rows = filtered(topics, members)
    swaps = [
        (r, at)
        for r, row in enumerate(rows)
        for at in range(len(row) - 1)
        if any(row[at] in other and row[at + 1] in other for o, other in enumerate(rows) if o != r)
    ]
    if not swaps:
        return
    r, at = data.draw(st.sampled_from(swaps))
    rows[r][at], rows[r][at + 1] = rows[r][at + 1], rows[r][at]
    run = told(topics, members, rows)
    for promise in ("total_notification_order", "acyclic_order", "tags", "causal_order"):
        verdict = run.verdict(promise)
        assert verdict.outcome is Outcome.VIOLATED
        assert WHO[r] in verdict.explanation


@st.composite
def any_orders(draw: st.DrawFn) -> Run:
    """Subscriptions that deliver what they like, tagged or not, perhaps twice."""
    run = Run()
    events = [f"p{i % 3}/0/{i}" for i in range(draw(st.integers(2, 7)))]
    for i, event in enumerate(events):
        run.know(event, TOPICS[i % 2], i + 1)
    for who in WHO[: draw(st.integers(1, 4))]:
        run.subscribe(who, *TOPICS, order=draw(st.sampled_from(("total", "total_causal", "fifo"))))
        for event in draw(st.lists(st.sampled_from(events), max_size=5)):
            run.see(who, event, tagged=draw(st.integers(0, 5)) == 0)
    return run


def orders(run: Run, *promised: str) -> dict[str, list[str]]:
    """Who saw which events untagged, each at its first time."""
    return {
        s.process: list(dict.fromkeys(r.event for r in s.deliveries if r.in_order))
        for s in History(run.records).promised(*promised)
    }


@settings(max_examples=300, deadline=None)
@given(any_orders())
def test_total_notification_order_is_the_pairwise_definition(run):
    rows = orders(run, "total", "total_causal")
    befores = [{(x, y) for x, y in combinations(row, 2)} for row in rows.values()]
    broken = any((y, x) in other for one, other in combinations(befores, 2) for x, y in one)
    verdict = run.verdict("total_notification_order")
    assert verdict.outcome is (Outcome.UNKNOWN if not rows else Outcome.VIOLATED if broken else Outcome.HELD)
    if broken:
        x, y, y_again, x_again = verdict.evidence
        assert (x.event, y.event, x.process) == (x_again.event, y_again.event, y.process)
        assert x.seq < y.seq
        assert y_again.seq < x_again.seq


@settings(max_examples=300, deadline=None)
@given(any_orders())
def test_acyclic_order_finds_a_smallest_cycle(run):
    rows = orders(run, "total_causal")
    edges = {(x, y) for row in rows.values() for x, y in combinations(row, 2)}
    smallest = next((n for n in range(2, 8) if any(closed_walks(edges, n))), 0)
    verdict = run.verdict("acyclic_order")
    assert verdict.outcome is (
        Outcome.UNKNOWN if not rows else Outcome.VIOLATED if smallest else Outcome.HELD
    )
    assert len(verdict.evidence) == 2 * smallest
    steps = list(zip(verdict.evidence[::2], verdict.evidence[1::2], strict=True))
    assert all((x.event, y.event) in edges and x.process == y.process for x, y in steps)
    assert [y.event for _, y in steps] == [x.event for x, _ in steps[1:] + steps[:1]]


def closed_walks(edges: set[tuple[str, str]], length: int) -> Iterator[bool]:
    """Whether one can come back to each event in exactly `length` steps."""
    for start in {x for x, _ in edges}:
        here = {start}
        for _ in range(length):
            here = {y for x, y in edges if x in here}
        yield start in here


@st.composite
def any_causes(draw: st.DrawFn) -> Run:
    """Processes that publish, and deliver what is published, in whatever order luck gives."""
    run = Run()
    members = WHO[: draw(st.integers(2, 4))]
    for who in members:
        run.subscribe(who, *TOPICS, order=draw(st.sampled_from(("causal", "total_causal", "none"))))
    published: list[str] = []
    seen: set[tuple[str, str]] = set()
    for _ in range(draw(st.integers(1, 18))):
        who = draw(st.sampled_from(members))
        fresh = [e for e in published if (who, e) not in seen]
        if not fresh or draw(st.integers(0, 2)) == 0:
            event = f"{who}/0/{len(published)}"
            run.publish(event, draw(st.sampled_from(TOPICS)))
            published.append(event)
        else:
            event = draw(st.sampled_from(fresh))
            seen.add((who, event))
            run.see(who, event, tagged=draw(st.integers(0, 7)) == 0)
    # A run is any interleaving of its processes: the judge must not lean on the order of the list.
    run.records = interleaved(run.records, draw(st.permutations(members)))
    return run


def interleaved(records: list[Record], processes: list[str]) -> list[Record]:
    return sorted(records, key=lambda r: (processes.index(r.process), r.seq))


def happened_before(records: list[Record]) -> set[tuple[str, str]]:
    """The definition: process order and publish-to-deliver, closed transitively."""
    steps = [r for r in records if r.kind in (Kind.PUBLISHED, Kind.DELIVERED)]
    before = {
        (x, y)
        for x in range(len(steps))
        for y in range(len(steps))
        if (steps[x].process == steps[y].process and steps[x].seq < steps[y].seq)
        or (
            steps[x].kind is Kind.PUBLISHED
            and steps[y].kind is Kind.DELIVERED
            and steps[x].event == steps[y].event
        )
    }
    for k in range(len(steps)):
        into = [x for x, y in before if y == k]
        out = [y for x, y in before if x == k]
        before |= {(x, y) for x in into for y in out}
    publications = {i for i, r in enumerate(steps) if r.kind is Kind.PUBLISHED}
    return {(steps[x].event, steps[y].event) for x, y in before if x in publications and y in publications}


@settings(max_examples=300, deadline=None)
@given(any_causes())
def test_causal_order_is_the_definition(run):
    rows = orders(run, "causal", "total_causal")
    before = happened_before(run.records)
    broken = any((e, f) in before for row in rows.values() for f, e in combinations(row, 2))
    verdict = run.verdict("causal_order")
    assert verdict.outcome is (Outcome.UNKNOWN if not rows else Outcome.VIOLATED if broken else Outcome.HELD)
    if broken:
        effect, cause, *chain = verdict.evidence
        assert (cause.event, effect.event) in before
        assert effect.seq < cause.seq
        assert (chain[0].event, chain[-1].event) == (cause.event, effect.event)
        assert all(
            x.process == y.process and x.seq < y.seq for x, y in zip(chain[::2], chain[1::2], strict=True)
        )
