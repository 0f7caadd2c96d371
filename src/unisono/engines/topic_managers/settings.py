"""Every bound and every choice of the topic-manager engines, by name."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from unisono.model.errors import ConfigError

Stamps: TypeAlias = Literal["full", "upward"]
Mode: TypeAlias = Literal["forward", "return"]
OnGap: TypeAlias = Literal["wait", "tag", "skip", "fail"]


class ManagerSettings(msgspec.Struct, frozen=True):
    """How managers stamp and what they keep."""

    stamps: Stamps = "full"  # full: lower-ranked topics too (001); upward: own and higher ones only (000)
    mode: Mode = "forward"  # forward: the last manager publishes; return: the publisher does (papers)
    ring_events: int = 0  # events kept per topic for repair; 0 when nothing is ever lost
    ring_bytes: int = 64 * 1024 * 1024  # and how much of them
    repair_bytes: int = 256 * 1024  # answered at once; who misses more asks again
    heartbeat_s: float = 0.05  # silence after which the newest number is told; doubles up to the maximum
    heartbeat_s_max: float = 5.0
    seen_max: int = 65536  # finished events remembered per publisher for idempotence
    keys_max: int = 65536  # ids that users gave, remembered per topic
    keys_bytes_max: int = 16 * 1024 * 1024  # and roughly how much of them
    threshold: int = 2  # weight of shared subscriptions from which on two topics are ordered together
    stored: bool = False  # an event counts as out only when its node has stored it


class SubscriberSettings(msgspec.Struct, frozen=True):
    """What a subscriber does at a gap, and how long it remembers."""

    on_gap: OnGap = "wait"
    buffer: int = 0  # tag, skip: events held before the oldest is let go
    max_hold: float | None = None  # seconds an event is held at most
    stamps: Stamps = "full"
    repair: bool = False  # ask for what is missing
    nack_delay_s: float = 0.02  # how long a gap may close by itself
    nack_retry_s: float = 0.1  # doubles up to the maximum
    nack_retry_s_max: float = 2.0
    nack_numbers_max: int = 256  # numbers asked for in one message
    hold_max: int = 65536  # wait, fail: events held; what comes beyond is asked for again later
    late_window: int = 4096  # numbers remembered per topic to tell late from twice
    deadline_s: float | None = (
        None  # tag, skip: seconds from its publication after which an event is of no use
    )
    clock_s: float = 0.0  # added to `now` it is seconds since 1970, in which publications tell their time
    grace_s: float = (
        0.05  # before its deadline a held event is let go, for the application to have it in time
    )

    @property
    def holds(self) -> bool:
        """Whether time bounds what is held."""
        return self.max_hold is not None or self.deadline_s is not None

    def __post_init__(self) -> None:
        if self.deadline_s is not None and self.on_gap in ("wait", "fail"):
            raise ConfigError(f"on_gap='{self.on_gap}' knows no deadline; use 'tag' or 'skip'")
        if self.buffer < 0 or (self.max_hold is not None and self.max_hold < 0):
            raise ConfigError("buffer and max_hold cannot be negative")
        if self.on_gap == "wait" and (self.buffer or self.max_hold is not None):
            raise ConfigError(
                "on_gap='wait' holds as long as it takes; for a bound use 'tag', 'skip' or 'fail'"
            )
        if self.on_gap == "fail" and self.buffer:
            raise ConfigError("on_gap='fail' takes max_hold, not buffer")
        if self.on_gap in ("wait", "fail") and self.stamps == "upward":
            raise ConfigError(
                "stamps='upward' cannot tell what is missing; use on_gap='tag' or 'skip' with it"
            )
