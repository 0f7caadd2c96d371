"""Topics survive the way to a broker's spelling and back; patterns mean the same there."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.ens.names import (
    check_prefix,
    from_filter,
    from_key,
    from_subject,
    overlap,
    to_filter,
    to_glob,
    to_key,
    to_subject,
)
from unisono.model.errors import ConfigError, FrameError, TopicError
from unisono.model.ids import check_pattern, check_topic, matches

CLASHES = "$~:_-,;?[]^!\\{}()@%&='\"`|<äΩ水"


def is_topic(text):
    try:
        return bool(check_topic(text))
    except TopicError:
        return False


words = st.text(st.one_of(st.sampled_from("ab" + CLASHES), st.characters()), min_size=1, max_size=5).filter(
    lambda word: "." not in word and is_topic(word)
)
topics = st.lists(words, min_size=1, max_size=5).map(".".join)
few = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4).map(".".join)


@st.composite
def patterns(draw, word=words):
    parts = draw(st.lists(st.one_of(word, st.just("*")), max_size=4))
    parts.append(draw(st.one_of(word, st.sampled_from("*>"))))
    return check_pattern(".".join(parts))


few_patterns = patterns(st.sampled_from(["a", "b"]))


@given(st.one_of(topics, patterns()))
def test_names_come_back_from_nats(name):
    assert from_subject(to_subject(name, "u."), "u.") == name


@given(st.one_of(topics, patterns()))
def test_names_come_back_from_mqtt(name):
    assert from_filter(to_filter(name, "u/"), "u/") == name


@given(topics)
def test_topics_come_back_from_redis(topic):
    assert from_key(to_key(topic, "u:"), "u:") == topic


@given(topics)
def test_a_topic_at_the_broker_is_no_wildcard_and_nothing_reserved(topic):
    for spelt, wild in ((to_subject(topic, "u."), "*>"), (to_filter(topic, "u/"), "+#")):
        assert not set(spelt) & set(wild)
        assert not spelt.startswith("$")
        assert not re.search(r"[\s\x00]", spelt)


@given(few_patterns, few)
def test_a_pattern_means_the_same_to_mqtt(pattern, topic):
    levels = to_filter(pattern, "").split("/")
    regex = "/".join("[^/]+" if level == "+" else level for level in levels if level != "#")
    regex += "(/.*)?" if levels[-1] == "#" else ""
    assert bool(re.fullmatch(regex, to_filter(topic, ""))) == matches(pattern, topic)


@given(patterns(), topics)
def test_a_glob_finds_at_least_what_the_pattern_means(pattern, topic):
    glob = re.sub(r"\\(.)", lambda m: f"[{m[1]}]" if m[1] not in "^]" else "?", to_glob(pattern, "u:"))
    if matches(pattern, topic):
        assert fnmatch.fnmatchcase(to_key(topic, "u:"), glob)


@given(few_patterns, few_patterns, few)
def test_patterns_overlap_if_a_topic_is_meant_by_both(one, other, topic):
    if matches(one, topic) and matches(other, topic):
        assert overlap(one, other)
    assert overlap(one, other) == overlap(other, one)


def test_overlap_by_example():
    assert overlap("a.*", "*.b")
    assert overlap("a.>", "a.b.c")
    assert not overlap("a.*", "b.>")
    assert not overlap("a.>", "a")
    assert not overlap("a.*", "a.b.c")


def test_what_is_not_ours_is_refused():
    with pytest.raises(FrameError, match="no topic of ours"):
        from_subject("other.orders", "u.")
    with pytest.raises(TopicError, match="has a space"):
        to_subject("a b", "u.")
    for prefix in ("", "u", ".", "a b.", "*."):
        with pytest.raises(ConfigError, match=r"words with '\.' after each"):
            check_prefix("nats", prefix, ".")
    assert check_prefix("redis", "{u}:desk:", ":") == "{u}:desk:"
