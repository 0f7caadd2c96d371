"""Who is taken for dead, and who is given more time."""

from unisono.runtime.remote.beats import CALM_S, PATIENCE_MAX, Beats


def silence_until_suspected(beats, now, step=0.1):
    begun = now
    while not beats.suspects(("n1", "n2"), now):
        now += step
    return now - begun, now


def test_silence_makes_suspect():
    beats = Beats("n1", 0.25, 2.0)
    beats.heard("n2", 0.0, life=7)
    took, _ = silence_until_suspected(beats, 0.0)
    assert 2.0 < took < 2.2


def test_who_was_only_slow_is_given_more_time_and_less_again_when_all_is_calm():
    beats, now, before = Beats("n1", 0.25, 2.0), 0.0, 0.0
    for _ in range(10):
        beats.heard("n2", now, life=7)
        took, now = silence_until_suspected(beats, now)
        assert took >= before
        before = took
    assert 2.0 * PATIENCE_MAX <= before < 2.0 * PATIENCE_MAX + 0.2
    beats.heard("n2", now, life=7)
    now += 20 * CALM_S
    beats.suspects((), now)
    beats.heard("n2", now, life=7)
    assert silence_until_suspected(beats, now)[0] < 2.2


def test_who_was_restarted_was_dead_indeed():
    beats, now = Beats("n1", 0.25, 2.0), 0.0
    for life in range(5):
        beats.heard("n2", now, life)
        took, now = silence_until_suspected(beats, now)
        assert took < 2.2


def test_who_was_asleep_itself_suspects_nobody():
    beats = Beats("n1", 0.25, 2.0)
    beats.heard("n2", 0.0, 1)
    assert beats.suspects(("n1", "n2"), 0.1) == []
    assert beats.suspects(("n1", "n2"), 30.0) == []
