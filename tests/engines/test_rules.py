"""The rules of delivery: the same whether the stamp is longer than the clock or the clock than the stamp."""

from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.topic_managers.rules import blocker, is_clean

NAMES = st.sampled_from("abcdefgh")
MAPS = st.dictionaries(NAMES, st.integers(0, 3), min_size=1)


@given(MAPS, MAPS, NAMES)
def test_only_what_stamp_and_clock_share_counts(entries, clock, topic):
    entries, clock = {topic: 1, **entries}, {topic: 1, **clock}
    shared = set(entries) & set(clock)
    clean = entries[topic] > clock[topic] and all(entries[x] >= clock[x] for x in shared)
    assert is_clean(entries, topic, clock) == clean
    missing = {x for x in shared - {topic} if entries[x] > clock[x]}
    if entries[topic] != clock[topic] + 1:
        assert blocker(entries, topic, clock) == topic
    else:
        assert blocker(entries, topic, clock) in (missing or {None})


@given(MAPS, MAPS, st.dictionaries(st.integers(0, 99).map(str), st.integers(0, 3)))
def test_entries_of_topics_that_are_not_ours_change_nothing(entries, clock, others):
    topic = next(iter(clock))
    entries = {topic: clock[topic] + 1, **{x: n for x, n in entries.items() if x != topic}}
    wide = {**entries, **others}
    assert is_clean(wide, topic, clock) == is_clean(entries, topic, clock)
    assert (blocker(wide, topic, clock) is None) == (blocker(entries, topic, clock) is None)
