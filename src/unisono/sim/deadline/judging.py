"""The promises of deadline-causal order, judged on what was watched."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.engines.deadline_causal.holdback import BEFORE, LEFT, OVERTAKEN, STALLED, TOO_LATE
from unisono.sim.deadline.story import Diary, Line, Story

DEADLINE = "deadline"
CAUSES = "causal_order"
DROPS = "no_unjust_drop"
ONCE = "no_duplication"
ACCOUNT = "everything_accounted_for"
ARRIVES = "calm_worlds_lose_nothing"


def judge_story(story: Story) -> Iterator[tuple[str, str]]:
    """Every promise that was broken, and how."""
    for diary in story.diaries.values():
        yield from _judge_deadlines(story, diary)
        yield from _judge_causes(story, diary)
        yield from _judge_drops(story, diary)
        yield from _judge_account(story, diary)


def _judge_deadlines(story: Story, diary: Diary) -> Iterator[tuple[str, str]]:
    for line in diary.lines:
        event = story.events[line.id]
        until = event.deadline_at
        if diary.patience_s is not None:
            until = min(until, event.published_at + diary.patience_s)
        if line.kind == "delivered" and line.at > until:
            late = line.at - until
            yield DEADLINE, f"{diary.name} was handed {line.id} {late:.4f} s after its deadline"


def _judge_causes(story: Story, diary: Diary) -> Iterator[tuple[str, str]]:
    told: set[str] = set()
    followed: dict[str, str] = {}  # cause -> an effect that was delivered
    for line in diary.lines:
        if line.kind != "delivered":
            continue
        if line.id in told:
            yield ONCE, f"{diary.name} was handed {line.id} twice"
        if line.id in followed:
            yield CAUSES, f"{diary.name} was handed {line.id} after {followed[line.id]}, which follows it"
        told.add(line.id)
        for cause in story.events[line.id].causes:
            followed.setdefault(cause, line.id)


def _judge_drops(story: Story, diary: Diary) -> Iterator[tuple[str, str]]:
    for place, line in enumerate(diary.lines):
        if line.kind == "discarded":
            wrong = _wrong_with(story, diary, place, line)
            if wrong:
                yield DROPS, f"{diary.name} dropped {line.id} as '{line.reason}', but {wrong}"


def _wrong_with(story: Story, diary: Diary, place: int, line: Line) -> str:
    """Why a reason that was given is none, if so."""
    event = story.events[line.id]
    if line.reason == TOO_LATE:
        last = story.last_at(diary, line.id)
        return "" if last is not None and line.round > last else "it was in time"
    if line.reason == OVERTAKEN:
        return "" if _is_forced(story, diary, place, line.id) else "no effect of it had to go"
    if line.reason == BEFORE:
        joins = [at for at, topic in diary.joined if topic == event.topic and at <= line.at]
        before = max(joins, default=0.0)
        known = any(
            x.kind == "delivered" and x.at <= before and line.id in story.events[x.id].causes
            for x in diary.lines
        )
        return "" if known else "no effect of it was delivered before its topic was asked for"
    if line.reason == LEFT:
        return "" if any(topic == event.topic for _, topic in diary.left) else "its topic was not left"
    if line.reason == STALLED:
        return "" if any(since <= line.at <= until + 1e-9 for since, until in diary.slept) else "nobody slept"
    return "that never happens here"


def _is_forced(story: Story, diary: Diary, place: int, id: str) -> bool:
    """Whether an effect went before it had come, because that or one of its own effects had to go by then."""
    here: list[str] = []  # what has arrived so far
    for line in diary.lines[:place]:
        if line.kind == "arrived" and line.id == id:
            return False  # it was here, and could have gone first
        if line.kind == "arrived":
            here.append(line.id)
        elif line.kind == "delivered" and story.precedes(id, line.id):
            urgent = [line.id, *(y for y in here if story.precedes(line.id, y))]
            lasts = [story.last_at(diary, y) for y in urgent]
            if any(last is not None and last - diary.reserve <= line.round for last in lasts):
                return True
    return False


def _judge_account(story: Story, diary: Diary) -> Iterator[tuple[str, str]]:
    """What arrived in time is delivered, or dropped for a reason; twice is as good as once."""
    done = {line.id for line in diary.lines if line.kind != "arrived"}
    for line in diary.lines:
        last = story.last_at(diary, line.id)
        is_in_time = last is None or line.round <= last
        if line.kind == "arrived" and is_in_time and line.id not in done and diary.died_at is None:
            yield ACCOUNT, f"{line.id} arrived at {diary.name} in time and was neither delivered nor dropped"
            done.add(line.id)
