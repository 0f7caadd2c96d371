"""What travels of a past is what has changed.

A broker marks an event of each stream now and then as a base. Whoever gets it keeps its past and says so. Once all
brokers of the topic have said so, later events of the stream tell only what has changed since the base. A newcomer
has not said so: until it has, pasts go out whole. Nobody ever has to guess: what cannot be read has not arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from unisono.engines.deadline_causal.frames import Matrix
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import Past, Stream, forget, round_of

BASES_MAX = 64  # of each stream, kept by who reads: what is late may build on an old one
USED_TIMES = 4  # a base is used for so many times `base_rounds`, should there be no other


def write(past: Past, base: tuple[int, Past] | None = None) -> Matrix:
    """A past as it travels; `base` is the stamp and the past of another event of the stream."""
    if base is None:
        return Matrix(new=tuple((*stream, stamp) for stream, stamp in sorted(past.items())))
    stamp, old = base
    changed = [(i, past[s] - old[s]) for i, s in enumerate(sorted(old)) if past.get(s, 0) > old[s]]
    new = [(*s, stamp) for s, stamp in sorted(past.items()) if s not in old]
    return Matrix(stamp, tuple(changed), tuple(new))


def read(matrix: Matrix, base: Past | None) -> Past | None:
    """The past that travelled, and what is so old that it was left out; None: the base is not here."""
    past = {(broker, topic): stamp for broker, topic, stamp in matrix.new}
    if not matrix.base:
        return past
    if base is None:
        return None
    streams = sorted(base)
    if any(place >= len(streams) for place, _ in matrix.changed):
        return None
    later = dict(matrix.changed)
    return past | {s: base[s] + later.get(i, 0) for i, s in enumerate(streams)}


class Bases:
    """The bases of one broker: of its own streams, and of those it reads."""

    def __init__(self, settings: CausalSettings) -> None:
        self.settings = settings
        self.agreed: dict[str, tuple[int, Past, frozenset[str]]] = {}  # topic -> stamp, past, who keeps it
        self.offered: dict[str, tuple[int, Past, frozenset[str]]] = {}
        self.kept: dict[Stream, dict[int, Past]] = {}

    def write(self, topic: str, stamp: int, past: Past, readers: Collection[str]) -> Matrix:
        """The past of an event for these readers."""
        agreed = self.agreed.get(topic)
        if agreed is None or not agreed[2].issuperset(readers):
            return write(past)
        is_old = round_of(stamp) - round_of(agreed[0]) > USED_TIMES * self.settings.base_rounds
        return write(past, None if is_old else agreed[:2])

    def offer(self, topic: str, stamp: int, past: Past) -> bool:
        """Make an event a base, if it is time for a new one; one that not everybody kept ends what was agreed."""
        offered = self.offered.get(topic)
        if offered is not None and round_of(stamp) - round_of(offered[0]) < self.settings.base_rounds:
            return False
        if offered is not None and self.agreed.get(topic, offered)[0] != offered[0]:
            self.agreed.pop(topic, None)
        self.offered[topic] = (stamp, dict(past), frozenset())
        return True

    def confirm(self, topic: str, stamp: int, reader: str, readers: Collection[str]) -> None:
        """Somebody keeps a base of ours; with all of them it is agreed."""
        offered = self.offered.get(topic)
        if offered is None or offered[0] != stamp:
            return
        keepers = offered[2] | {reader}
        self.offered[topic] = (stamp, offered[1], keepers)
        if keepers.issuperset(readers):
            self.agreed[topic] = self.offered[topic]

    def keep(self, stream: Stream, stamp: int, past: Past) -> None:
        """Keep the base of somebody else."""
        kept = self.kept.setdefault(stream, {})
        kept[stamp] = past
        while len(kept) > BASES_MAX:
            del kept[min(kept)]

    def read(self, stream: Stream, stamp: int, matrix: Matrix) -> Past | None:
        """The past of somebody else's event, exactly as it was there, if it can be read."""
        past = read(matrix, self.kept.get(stream, {}).get(matrix.base))
        if past is not None:
            forget(past, self.settings.oldest_told(round_of(stamp)))
        return past

    def forget(self, round: int) -> None:
        """Forget bases that nothing can build on any more."""
        settings = self.settings
        kept_rounds = USED_TIMES * settings.base_rounds + settings.lifetime + 2 * settings.skew
        for stream, kept in list(self.kept.items()):
            young = {stamp: past for stamp, past in kept.items() if round - round_of(stamp) <= kept_rounds}
            if young:
                self.kept[stream] = young
            else:
                del self.kept[stream]

    def copy(self) -> Bases:
        """An independent twin."""
        twin = Bases(self.settings)
        twin.agreed, twin.offered = dict(self.agreed), dict(self.offered)
        twin.kept = {stream: dict(kept) for stream, kept in self.kept.items()}
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        own = tuple(
            tuple(
                sorted((topic, stamp, tuple(sorted(keepers))) for topic, (stamp, _, keepers) in bases.items())
            )
            for bases in (self.agreed, self.offered)
        )
        return (own, tuple(sorted((stream, tuple(sorted(kept))) for stream, kept in self.kept.items())))
