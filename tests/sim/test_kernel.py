"""Simulated time: the order is that of a heap with a count, whatever buckets do."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from random import Random

import pytest

from unisono.sim import kernel as kernels
from unisono.sim.kernel import Kernel


class Reference:
    """A heap of (time, count, occurrence): slow, and plainly right."""

    def __init__(self) -> None:
        self.now, self.heap, self.count = 0.0, [], 0

    def __len__(self) -> int:
        return len(self.heap)

    def schedule(self, at: float, occurrence: object) -> None:
        self.count += 1
        heappush(self.heap, (max(at, self.now), self.count, occurrence))

    def next_time(self) -> float | None:
        return self.heap[0][0] if self.heap else None

    def advance(self) -> object:
        self.now, _, occurrence = heappop(self.heap)
        return occurrence


def lives(random: Random, occurrence: int, scale: float) -> list[float]:
    """Delays of what an occurrence sets off: none to three; at once, on a grid of ties, anywhere, far off, never."""
    return [
        random.choice(
            (0.0, random.randrange(4) * scale, random.random() * scale, 1000 * scale * random.random())
        )
        if random.random() > 0.002
        else inf
        for _ in range(random.choice((0, 1, 1, 1, 2, 3) if occurrence < 3000 else (0, 0, 1)))
    ]


def story(kernel: Kernel[int] | Reference, seed: int, how: str) -> list[tuple[float, int]]:
    """What happens when, in a world that one seed decides."""
    random, told, made = Random(seed), [], 0
    scale = 10.0 ** random.randint(-6, 3)

    def happen(occurrence: int) -> None:
        nonlocal made
        told.append((kernel.now, occurrence))
        for delay in lives(random, occurrence, scale):
            made += 1
            kernel.schedule(kernel.now + delay, made)

    for _ in range(random.choice((1, 50, 3000))):
        made += 1
        kernel.schedule(random.random() * scale * random.choice((1, 100)), made)
    if how == "run" and isinstance(kernel, Kernel):
        kernel.run(happen)
    else:
        while (time := kernel.next_time()) is not None:
            happen(kernel.advance())
            assert time == kernel.now
    assert len(kernel) == 0
    return told


@pytest.mark.parametrize("seed", range(16))
def test_the_order_is_that_of_a_heap(seed: int):
    expected = story(Reference(), seed, "steps")
    assert story(Kernel(), seed, "run") == expected
    assert story(Kernel(), seed, "steps") == expected


def test_widths_of_buckets_do_not_show(monkeypatch: pytest.MonkeyPatch):
    for name, value in (
        ("CROWD_BUCKETS", 8),
        ("REVIEW_BUCKETS", 4),
        ("REVIEW_OCCURRENCES", 16),
        ("TRIM_MIN", 4),
    ):
        monkeypatch.setattr(kernels, name, value)
    for fill in ((8, 7, 9), (64, 60, 70)):
        for name, value in zip(("FILL", "FILL_MIN", "FILL_MAX"), fill, strict=True):
            monkeypatch.setattr(kernels, name, value)
        for seed in range(8):
            expected = story(Reference(), seed, "steps")
            assert story(Kernel(), seed, "run") == expected
            assert story(Kernel(), seed, "steps") == expected


def test_a_run_ends_where_it_should_and_goes_on_from_there():
    whole, parts = Kernel(), Kernel()
    told: dict[int, list[tuple[float, int]]] = {id(whole): [], id(parts): []}
    for kernel in (whole, parts):
        for i in range(2000):
            kernel.schedule((i * 37 % 500) / 100, i)
    whole.run(lambda o: told[id(whole)].append((whole.now, o)))
    for tenth in range(1, 60):
        parts.run(lambda o: told[id(parts)].append((parts.now, o)), until=tenth / 10)
        assert parts.now == tenth / 10
        assert told[id(parts)] == [entry for entry in told[id(whole)] if entry[0] <= tenth / 10]
    assert len(parts) == 0


def test_what_is_at_the_end_of_a_run_happens_and_what_comes_later_waits():
    kernel: Kernel[str] = Kernel()
    for at, name in ((1.0, "a"), (2.0, "b"), (2.0, "c"), (2.0000001, "d")):
        kernel.schedule(at, name)
    seen: list[str] = []
    kernel.run(seen.append, until=2.0)
    assert seen == ["a", "b", "c"]
    assert kernel.next_time() == 2.0000001
    kernel.schedule(1.0, "late")
    kernel.run(seen.append)
    assert seen == ["a", "b", "c", "late", "d"]


def test_whoever_handles_can_stop_the_run():
    kernel: Kernel[int] = Kernel()
    for i in range(10):
        kernel.schedule(1.0 + i // 5, i)
    seen: list[int] = []

    def handle(occurrence: int) -> None:
        seen.append(occurrence)
        if occurrence in (2, 6):
            kernel.schedule(kernel.now, 100 + occurrence)
            kernel.stop()

    kernel.run(handle)
    assert (seen, kernel.now, len(kernel)) == ([0, 1, 2], 1.0, 8)
    kernel.run(handle, until=5.0)
    assert seen == [0, 1, 2, 3, 4, 102, 5, 6]
    assert kernel.now == 2.0, "a run that was stopped leaves the clock where it was"
    kernel.run(handle)
    assert seen[8:] == [7, 8, 9, 106]


def test_an_error_in_a_handler_loses_nothing():
    kernel: Kernel[int] = Kernel()
    for i in range(5):
        kernel.schedule(1.0, i)
    seen: list[int] = []

    def handle(occurrence: int) -> None:
        seen.append(occurrence)
        if occurrence == 1:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        kernel.run(handle)
    kernel.run(handle)
    assert seen == [0, 1, 2, 3, 4]


def test_a_long_chain_at_one_time_is_not_kept():
    kernel: Kernel[int] = Kernel()
    kernel.schedule(1.0, 0)
    kept = 0

    def handle(occurrence: int) -> None:
        nonlocal kept
        kept = max(kept, len(kernel._bucket))
        if occurrence < 50_000:
            kernel.schedule(kernel.now, occurrence + 1)

    kernel.run(handle)
    assert kept <= kernels.TRIM_MIN + 1


def test_nothing_left_is_said():
    with pytest.raises(IndexError, match="nothing is left"):
        Kernel().advance()
