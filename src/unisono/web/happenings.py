"""What happens to the nodes, in words: epochs, takeovers, who comes and goes."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from unisono.engines.takeover.control import Control

KEPT_MAX = 200

Kind = Literal["epoch", "joined", "left", "dead", "takeover", "topics", "trouble", "well"]


class Happening(msgspec.Struct, frozen=True):
    """Something that happened, when somebody looked."""

    n: int  # counts up
    at: float  # seconds since 1970
    kind: Kind
    words: str


class Happenings:
    """The newest things that happened."""

    def __init__(self) -> None:
        self.newest = 0
        self._kept: deque[Happening] = deque(maxlen=KEPT_MAX)

    def note(self, at: float, kind: Kind, words: str) -> None:
        """Something happened."""
        self.newest += 1
        self._kept.append(Happening(self.newest, at, kind, words))

    def since(self, n: int) -> list[Happening]:
        """What happened after the n-th, as far as it is kept."""
        return [happening for happening in self._kept if happening.n > n]

    def control(self, before: Control | None, control: Control, at: float) -> None:
        """The control record has changed."""
        if before is None:
            self.note(at, "epoch", f"epoch {control.epoch} is valid, nodes {', '.join(control.live)}")
            return
        dead = sorted(set(control.dead).difference(before.dead))
        if dead:
            by = f" by {control.decider}" if control.decider else ""
            self.note(at, "dead", f"{', '.join(dead)} declared dead{by}")
        joined = sorted(set(control.live).difference(before.live))
        if joined:
            self.note(at, "joined", f"{', '.join(joined)} joined")
        left = sorted(set(before.nodes).difference(control.nodes))
        if left:
            self.note(at, "left", f"{', '.join(left)} left")
        for (former, owner), topics in sorted(_moves(before, control).items()):
            taken = f"{owner} takes over {counted(topics, 'topic')} of {former}"
            self.note(
                at, "takeover", taken if former in control.dead else taken.replace("takes over", "takes")
            )
        if control.state == "active" and (control.epoch > before.epoch or before.state != "active"):
            how = f", decided by {control.decider}" if control.decider else ""
            self.note(at, "epoch", f"epoch {control.epoch} began{how}")
        for verb, some in (
            ("new", set(control.owner).difference(before.owner)),
            ("deleted", set(control.closed).difference(before.closed)),
        ):
            if some:
                named = ", ".join(sorted(some)[:5]) + (", …" if len(some) > 5 else "")
                self.note(at, "topics", f"{verb}: {counted(len(some), 'topic')} ({named})")


def counted(n: int, what: str) -> str:
    """'1 topic', '2 topics'."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _moves(before: Control, control: Control) -> Counter[tuple[str, str]]:
    """How many topics have another owner now: from whom, to whom."""
    return Counter(
        (before.owner[topic], owner)
        for topic, owner in control.owner.items()
        if before.owner.get(topic, owner) != owner
    )
