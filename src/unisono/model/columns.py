"""Columns as bytes: whoever passes them on looks at their lengths only, whoever wants them takes them apart at once.

Numbers take one, two, four or eight bytes each, as the largest of a column needs; how many bytes that are follows from
how many numbers there should be. Numbers that grow are written as steps from one to the next, and not at all where each
is one more than the one before. Everything is little-endian. No bytes of the right length are wrong: so it is enough to
check lengths and sums before strangers are believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import sub
from struct import pack as write
from struct import unpack as read

CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
NUMBERS_END = 1 << 63  # no number that grows is as large as this
TIME_BYTES = 8
_FEW = [f"{size}s" for size in range(256)]


def pack(numbers: Sequence[int]) -> bytes:
    """Numbers from 0 on as a column."""
    largest = max(numbers, default=0)
    if largest < 256:
        return bytes(numbers)
    code = "H" if largest < 1 << 16 else "I" if largest < 1 << 32 else "Q"
    return write(f"<{len(numbers)}{code}", *numbers)


def is_column(column: bytes, count: int) -> bool:
    """Whether these are so many numbers."""
    return not column if count == 0 else len(column) % count == 0 and len(column) // count in CODES


def unpack(column: bytes, count: int) -> Sequence[int]:
    """The numbers of a column."""
    if len(column) == count:
        return column
    return read(f"<{count}{CODES[len(column) // count]}", column)


def pack_steps(numbers: Sequence[int]) -> bytes:
    """How numbers that grow go on after the first; nothing if each is one more than the one before."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return b""
    return pack(list(map(sub, numbers[1:], numbers)))


def are_steps(first: int, steps: bytes, count: int) -> bool:
    """Whether so many numbers that grow can go on like this after the first."""
    if not steps:
        return 0 <= first < NUMBERS_END - count
    if not is_column(steps, count - 1):
        return False
    column = unpack(steps, count - 1)
    return 0 not in column and 0 <= first < NUMBERS_END - sum(column)


def unpack_steps(first: int, steps: bytes, count: int) -> Sequence[int]:
    """Numbers that grow."""
    if not steps:
        return range(first, first + count)
    return tuple(accumulate(unpack(steps, count - 1), initial=first))


def pack_times(times: Sequence[float]) -> bytes:
    """Seconds as a column."""
    return write(f"<{len(times)}d", *times)


def unpack_times(column: bytes) -> Sequence[float]:
    """The seconds of a column."""
    return read(f"<{len(column) // TIME_BYTES}d", column)


def split(joined: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Bytes that were joined, each of its size; together they are as long as these."""
    if not sizes:
        return ()
    size = sizes[0]
    if sizes.count(size) == len(sizes):
        return read(f"{size}s" * len(sizes), joined)
    if isinstance(sizes, bytes):
        return read("".join([_FEW[size] for size in sizes]), joined)
    return read("".join([f"{size}s" for size in sizes]), joined)
