"""Whom to talk to in a round: as good as drawn by lot, but the same whenever it is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from zlib import crc32

FAR_EVERY = 3  # in every so many rounds one of the chosen is from elsewhere


def choose(name: str, round: int, candidates: Iterable[str], count: int) -> list[str]:
    """Some of the candidates, others in every round."""
    return sorted(candidates, key=lambda other: (crc32(f"{name} {round} {other}".encode()), other))[:count]


def choose_near(name: str, zone: str, round: int, zones: Mapping[str, str], count: int) -> list[str]:
    """Some of the candidates, mostly of one's own zone: long ways are taken now and then only."""
    near = [other for other, where in zones.items() if where == zone]
    far = [other for other, where in zones.items() if where != zone]
    want_far = 1 if far and (round % FAR_EVERY == 0 or not near) else 0
    chosen = choose(name, round, far, want_far) + choose(name, round, near, count - want_far)
    return chosen + choose(name, round, far, count)[want_far : want_far + count - len(chosen)]
