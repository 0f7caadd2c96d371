"""The sweep: a quick part of it here, all of it by `unisono lab explore`."""

from __future__ import annotations

from unisono.lab.explore import all_patterns, explore, random_patterns


def test_there_are_84_patterns_of_three_topics_and_three_subscribers() -> None:
    assert len(all_patterns(("T1", "T2", "T3"), 3)) == 84


def test_random_patterns_are_decided_by_their_seed() -> None:
    assert list(random_patterns(7, 20)) == list(random_patterns(7, 20))
    assert list(random_patterns(7, 20)) != list(random_patterns(8, 20))


def test_no_promise_is_broken_in_the_quick_sweep() -> None:
    seen: list[tuple[str, int, int]] = []
    result = explore(quick=True, patterns=10, progress=lambda *step: seen.append(step))
    assert result.first is None
    assert (result.violations, result.stuck, result.held) == (0, 0, True)
    assert result.configurations > 6000
    assert ("links", 2, 2) in seen
    assert seen[-1][0] == "walks"
    rows = {row.name: row for row in result.rows}
    assert rows["crash; line"].states > 2000
    assert rows["walks (each state is a step)"].states >= 30_000
    assert not any(row.cut for row in result.rows)
