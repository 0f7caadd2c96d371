"""Every planted bug is caught in its world, and its world is sound without it."""

from __future__ import annotations

import pytest

from unisono.lab.bugs import explore_world, run_bug, run_bugs
from unisono.model.errors import ConfigError
from unisono.testing.planted_bugs import BUGS, PlantedBug
from unisono.testing.planted_bugs.together_table import TOGETHER_BUGS

# Those of the papers, and of rules shorter than ours, are paired with ours in tests/papers.
OURS = [bug for bug in BUGS if "CE-" not in bug.source and bug not in TOGETHER_BUGS]

# Their worlds are part of the sweep; these take seconds, `unisono lab bugs` has them.
SLOW = {"finisher_counts_what_it_knows", "cut_too_far_later", "three_joins_without_lower_numbers"}
TOGETHER = [bug for bug in TOGETHER_BUGS if bug.name not in SLOW]


@pytest.mark.parametrize("bug", OURS, ids=lambda bug: bug.name)
def test_the_bug_is_caught(bug: PlantedBug) -> None:
    result = run_bug(bug)
    assert result.caught, f"{bug.says} broke nothing"
    assert result.sound, "the world is broken without the bug"
    assert result.explanation


@pytest.mark.parametrize("bug", TOGETHER, ids=lambda bug: bug.name)
def test_the_bug_that_needs_several_things_at_once_is_caught(bug: PlantedBug) -> None:
    assert bug.promise in {finding.promise for finding in explore_world(bug.weak, deep=bug.deep).findings}


def test_the_table_is_well_formed() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 60
    assert all(bug.says.endswith(".") and bug.source for bug in BUGS)


def test_bugs_are_chosen_by_name() -> None:
    seen: list[str] = []
    report = run_bugs(["never_learns"], progress=lambda name, done, of: seen.append(name))
    assert (report.planted, report.caught, report.held) == (1, 1, True)
    assert seen == ["never_learns"]
    with pytest.raises(ConfigError, match="'bug' is not a planted bug"):
        run_bugs(["bug"])
