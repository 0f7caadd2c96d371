"""Fast and exact mode give the same distributions where both can run: on one overlay, of one schedule."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from unisono.engines.plan import rank_line
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.sim.fast.chains import conflicts_of, names_of, plan_chains
from unisono.sim.fast.latency import (
    Latency,
    notify,
    stamp_and_forward,
    stamp_and_return,
    stamp_at_one_host,
)
from unisono.sim.fast.overlay import Overlay
from unisono.sim.latencies import Latencies, LatencyRecorder
from unisono.sim.overlaid import FORWARD, PAPER, overlaid
from unisono.sim.workloads import Schedule, power_law, schedule, subscriptions

NODES, TOPICS, EVENTS, HOST = 150, 6, 300, 77
MARKS = np.linspace(0.05, 0.95, 19)


def exact(overlay: Overlay, events: Schedule, managers: ManagerSettings, host: int | None) -> Latencies:
    laid, sums = overlaid(overlay, events, seed=5, managers=managers, host=host), LatencyRecorder()
    ending = laid.simulation(recorder=sums).run()
    assert ending.is_quiet
    assert not ending.faults
    return sums.latencies()


def fast(overlay: Overlay, events: Schedule, managers: ManagerSettings, host: int | None) -> Latency:
    generator = np.random.default_rng(6)
    held = overlay.held
    assert held is not None
    plan = rank_line(conflicts_of(held), rank=names_of(TOPICS))
    if host is not None:
        stamped = stamp_at_one_host(overlay, host, events, generator)
    else:
        stamp = stamp_and_return if managers.mode == "return" else stamp_and_forward
        visits = plan_chains(plan, events.topic).visits(events.topic)
        stamped = stamp(overlay, visits, events, generator)
    return notify(overlay, stamped, events, generator)


def apart(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The statistic of Kolmogorov and Smirnov: the largest distance of the two distributions."""
    marks = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(x), marks, side="right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize(
    ("managers", "host"),
    [(PAPER, None), (FORWARD, None), (FORWARD, HOST)],
    ids=["return", "forward", "one host"],
)
def test_latencies_of_both_modes_are_one_distribution(managers: ManagerSettings, host: int | None):
    held = subscriptions(power_law(TOPICS, 0.269), NODES, 3, np.random.default_rng(2))
    overlay = Overlay(NODES, TOPICS, 3, held)
    events = schedule(
        power_law(TOPICS, 0.269), np.random.default_rng(4), rate_s=1, duration_s=EVENTS, publishers=NODES
    )
    slow, quick = exact(overlay, events, managers, host), fast(overlay, events, managers, host)
    assert len(slow.ordering_s) == EVENTS
    assert (slow.delivered == held.sum(axis=0)[events.topic]).all()
    # Two samples of 300 of one distribution are further apart than 0.159 in one of 1,000 cases.
    for name in ("ordering_s", "diffusion_s", "heard_s", "within"):
        one, other = getattr(slow, name), getattr(quick, name)
        assert apart(one, other) < 0.159, name
        assert one.mean() == pytest.approx(other.mean(), rel=0.08), name
    # The same event takes the same ways in both: what is long in one is long in the other.
    assert np.corrcoef(slow.ordering_s, quick.ordering_s)[0, 1] > 0.5
