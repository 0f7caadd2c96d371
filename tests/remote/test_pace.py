"""Nothing waits while little is published; much goes together, and never waits for long."""

from unisono.runtime.remote.pace import LINGER_S, STALE_S, Pace


def paced(rate, seconds, batch=1):
    """The pace of a bus that has published at a rate for a while, and when that was."""
    pace, now = Pace(), 100.0
    for _ in range(int(rate * seconds / batch)):
        pace.add(batch, now)
        now += batch / rate
    return pace, now


def test_little_never_waits():
    for rate in (1, 100, 1000, 1900):
        pace, now = paced(rate, 0.5)
        assert pace.linger_s(now) == 0.0


def test_much_waits_a_moment_whether_it_comes_alone_or_together():
    for batch in (1, 5, 20, 100):
        pace, now = paced(5000, 0.5, batch)
        assert pace.linger_s(now) == LINGER_S


def test_after_a_burst_nothing_waits_for_long():
    pace, now = paced(5000, 0.5)
    assert pace.linger_s(now + STALE_S) == 0.0
    pace.add(1, now + 1.0)
    assert pace.linger_s(now + 1.0) == 0.0
