"""The order of the log where stamps know nothing of each other: publishers, causes, bundles."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

from unisono.engines.chronicle import in_order
from unisono.engines.chronicle.found import Chapter, Found
from unisono.model.bundles import StampedBundle
from unisono.model.frames import Publication, Stamped
from unisono.model.runs import bundle_of, run_of


def event(topic: str, at: float = 0.0, **entries: int) -> Stamped:
    return Stamped(Publication(topic, 1, entries[topic], topic, published_at=at), 1, entries)


def names(events: list) -> list[str]:
    return [f"{event.topic}{event.number}" for event in events]


def test_a_publishers_events_stay_in_their_order_where_stamps_allow_it() -> None:
    """A1 was held up behind a younger event of its topic; its publisher has held B1 back for it."""
    first = Stamped(Publication("p", 1, 1, "A", published_at=1.0), 1, {"A": 2})
    held_back = Stamped(Publication("p", 1, 2, "B", published_at=2.0), 1, {"B": 1})
    younger = event("A", 3.0, A=1)
    for shuffled in permutations((first, held_back, younger)):
        assert names(in_order(shuffled)) == ["A1", "A2", "B1"]


def test_what_an_event_follows_through_others_may_be_younger() -> None:
    """A1 waits for C1, which is younger than what the same publisher has published next."""
    first = Stamped(Publication("p", 1, 1, "A", published_at=1.0), 1, {"A": 1, "C": 1})
    held_back = Stamped(Publication("p", 1, 2, "B", published_at=2.0), 1, {"B": 1})
    for shuffled in permutations((first, held_back, event("C", 3.0, C=1), event("D", 4.0, D=1))):
        assert names(in_order(shuffled)) == ["C1", "A1", "B1", "D1"]


def test_stamps_win_against_the_order_of_a_publisher() -> None:
    """B1 was numbered before A1, as C1 says, though it was published later; what is unrelated keeps its place."""
    first = Stamped(Publication("p", 1, 1, "A", published_at=1.0), 1, {"A": 1, "C": 1})
    second = Stamped(Publication("p", 1, 2, "B", published_at=2.0), 1, {"B": 1, "C": 0})
    another = Stamped(Publication("q", 1, 1, "D", published_at=3.5), 1, {"D": 2})
    held_back = Stamped(Publication("q", 1, 2, "E", published_at=3.6), 1, {"E": 1})
    between, younger = event("C", 3.0, C=1, B=1), event("D", 4.0, D=1)
    for shuffled in permutations((first, second, between, another, held_back, younger)):
        assert names(in_order(shuffled)) == ["B1", "C1", "A1", "D1", "D2", "E1"]


def played(random: Random, *, causal: bool) -> list[tuple[float, float, Stamped]]:
    """Events with when they were published and when they had their places; some wait on the way, some for others."""
    topics, related = "ABCDE", {t: {t} for t in "ABCDE"}
    for _ in range(random.randint(0, 5)):
        a, b = random.sample(topics, 2)
        related[a].add(b)
        related[b].add(a)
    times: list[tuple[float, float, str, int, str]] = []
    for publisher in "pqr":
        free, at = 0.0, 0.0
        for n in range(1, random.randint(2, 7)):
            at += random.random()
            sequenced = max(at, free if causal else at) + random.choice(
                (0.01, random.random(), 3 * random.random())
            )
            free = sequenced
            times.append((sequenced, at, publisher, n, random.choice(topics)))
    clock, log = dict.fromkeys(topics, 0), []
    for sequenced, at, publisher, n, topic in sorted(times):
        clock[topic] += 1
        entries = {x: clock[x] for x in sorted(related[topic])}
        log.append((at, sequenced, Stamped(Publication(publisher, 1, n, topic, published_at=at), 1, entries)))
    return log


def follows(b: Stamped, a: Stamped) -> bool:
    return b.entries.get(a.topic, 0) >= a.number and b is not a


def test_the_order_keeps_stamps_causes_and_publishers() -> None:
    """Whatever was published after an event had its place may be its effect; causal publishers wait for places."""
    for seed in range(400):
        log = played(Random(seed), causal=seed % 4 > 0)
        place = {id(e): i for i, e in enumerate(in_order([e for _, _, e in log]))}
        for _, sequenced, a in log:
            for at, _, b in log:
                same = (
                    a.publication.publisher == b.publication.publisher and a.publication.n < b.publication.n
                )
                is_effect = seed % 4 > 0 and (same or sequenced < at)
                assert place[id(a)] < place[id(b)] or not (follows(b, a) or is_effect)


RELATED = (
    dict.fromkeys("ABCD", "ABCD"),
    {"A": "AB", "B": "AB", "C": "CD", "D": "CD"},
    {"A": "AB", "B": "ABC", "C": "BC", "D": "D"},
)


def bundled(random: Random) -> list[tuple[float, float, StampedBundle]]:
    """Bundles of a node, each with when its first event was published and when it was numbered."""
    log, related, now = [], random.choice(RELATED), 0.0
    clock, free, ns = dict.fromkeys("ABCD", 0), dict.fromkeys("pqr", 0.0), dict.fromkeys("pqr", 0)
    for index in range(1, 16):
        publisher = random.choice("pqr")
        began, now = free[publisher], now + random.random()
        free[publisher] = now
        events = []
        for at in sorted(began + (now - began) * random.random() for _ in range(random.randint(1, 5))):
            ns[publisher] += 1
            events.append(Publication(publisher, 1, ns[publisher], random.choice("ABCD"), published_at=at))
        made = bundle_of(events, index, 0, {})
        topics = tuple(part.topic for part in made.parts)
        named = sorted({x for topic in topics for x in related[topic]})
        groups = tuple(tuple(named.index(x) for x in related[topic]) for topic in topics)
        base = {x: clock[x] for x in named}
        bundle = made.stamped(1, "N", index, base, groups)
        clock |= {topic: bundle.newest(topic) for topic in topics}
        log.append((events[0].published_at, now, bundle))
    return log


def test_a_bundle_goes_as_a_whole_and_keeps_stamps_causes_and_publishers() -> None:
    for seed in range(300):
        random = Random(seed)
        log = bundled(random)
        ordered = in_order(random.sample([bundle for _, _, bundle in log], len(log)))
        place = {id(bundle): i for i, bundle in enumerate(ordered)}
        for (_, numbered, a), (at, _, b) in combinations(log, 2):
            if not set(a.topics).isdisjoint(b.clock) or a.publisher == b.publisher or numbered < at:
                assert place[id(a)] < place[id(b)]


def test_events_that_are_all_ordered_by_stamps_go_alike_in_bundles_and_one_by_one() -> None:
    for seed in range(100):
        bundles = [bundle for _, _, bundle in bundled(Random(seed))]
        if len({len(bundle.clock) for bundle in bundles}) > 1 or len(bundles[0].clock) < 4:
            continue
        events = [event for bundle in bundles for event in run_of(bundle).events()]
        assert in_order(Random(seed).sample(events, len(events))) == events
        assert in_order(bundles) == bundles


def test_a_chapter_is_told_from_any_place_and_found_by_number() -> None:
    for seed in range(60):
        random, found = Random(seed), Found()
        events = []
        for bundle in in_order([bundle for _, _, bundle in bundled(random)]):
            run = run_of(bundle).events()
            events += run
            for unit in [bundle] if random.random() < 0.6 else run:
                found.add(unit, ("lane", 1))
        chapter, everything = Chapter(found), frozenset("ABCD")
        told = [one for _, one in chapter.events(0, everything)]
        assert sorted(map(str, told)) == sorted(map(str, events))
        for index in range(len(told) + 1):
            rest = list(chapter.events(index, everything))
            assert rest == list(enumerate(told, start=1))[index:]
            some = [(after, one) for after, one in rest if one.topic in "AC"]
            assert list(chapter.events(index, frozenset("ACX"))) == some
        for one in told:
            assert chapter.found.get(one.topic, one.number) == one
        assert chapter.found.get("A", 0) is None
        assert chapter.found.get("A", len(events) + 1) is None
