"""Whatever is added and removed, and whenever: the promises hold, judged on what real buses recorded."""

import pytest
from bus_kit import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from script_kit import ALWAYS, Play, assert_kept, scripts

TOTAL = (*ALWAYS, "publisher_fifo", "total_notification_order", "nothing_lost", "tags")
CAUSAL = (*TOTAL, "acyclic_order", "causal_order")
ORDERS = {
    "total": ({}, TOTAL),
    "total tag": ({"on_gap": "tag"}, TOTAL),
    "total tag, buffer": ({"on_gap": "tag", "buffer": 3}, TOTAL),
    "total skip, max_hold": ({"on_gap": "skip", "max_hold": 0.002}, TOTAL),
    "total fail": ({"on_gap": "fail"}, TOTAL),
    "total_causal": ({"order": "total_causal"}, CAUSAL),
    "causal": ({"order": "causal"}, (*ALWAYS, "causal_order")),
    "mixed": (
        {"s1": {}, "s2": {"on_gap": "tag"}, "s3": {"order": "total_causal"}},
        TOTAL,
    ),
    "fifo": ({"order": "fifo"}, (*ALWAYS, "publisher_fifo")),
    "none": ({"order": "none"}, ("no_creation",)),
}
FORGIVING = {  # on a service that loses
    "fifo": ({"order": "fifo", "on_gap": "skip", "max_hold": 0.002}, (*ALWAYS, "publisher_fifo")),
}
SERVICES = [
    "memory://",
    "memory://?jitter_ms=3&seed={}",
    "memory://?jitter_ms=3&duplicate=0.3&seed={}",
    "memory://?jitter_ms=3&loss=0.2&duplicate=0.1&seed={}",
]


@pytest.mark.parametrize("url", SERVICES)
@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts, st.integers(0, 1000))
def test_a_random_life(order, url, script, seed):
    options, promises = ORDERS[order]
    if "loss" in url:
        options, promises = FORGIVING.get(order, (options, promises))
    play = Play(url.format(seed), options)
    records = run(lambda: play.run(script))
    assert_kept(records, *promises)
