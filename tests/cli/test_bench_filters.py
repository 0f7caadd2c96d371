"""`unisono bench filters`: the document by a tiny run, the judge by planted figures."""

import json
import subprocess
import sys
from random import Random

from unisono.cli.bench_filters import missed
from unisono.cli.bench_filters_load import event, subscriptions
from unisono.engines.filters import parse


def test_a_tiny_run_leaves_a_document():
    options = "--subscriptions 300 --events 40 --repeats 1 --covered 600 --json"
    command = [sys.executable, "-m", "unisono", "bench", "filters", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert all(mix["agrees"] for mix in document["mixes"].values())
    assert document["covering"]["told"] < document["covering"]["distinct"] <= 600
    assert done.returncode == bool(document["missed"])


def test_what_is_missed_is_said():
    good = {"agrees": True, "events_s": 30_000}
    assert missed({"mixes": {"led": good}, "covering": {"cut": 0.6}}) == []
    bad = {"agrees": False, "events_s": 10_000}
    assert len(missed({"mixes": {"led": bad}, "covering": {"cut": 0.4}})) == 3


def test_the_mixes_are_what_they_say():
    """Three predicates, and about one event in a thousand for each subscription."""
    for mix in ("led", "ranges"):
        chances = Random(3)
        texts = subscriptions(mix, chances)
        wanted = [parse(next(texts)) for _ in range(300)]
        assert all(len(one.conjunctions[0]) == 3 for one in wanted)
        events = [event(chances) for _ in range(100)]
        share = sum(one.matches(attributes) for one in wanted for attributes in events) / 30_000
        assert 0.0003 < share < 0.003, mix
