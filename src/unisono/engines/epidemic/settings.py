"""What can be set about dispatchers and the tree, and the name of every bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from random import Random

Algorithm: TypeAlias = Literal["none", "push", "subscriber_pull", "publisher_pull", "combined"]
CachePolicy: TypeAlias = Literal["interest_first", "source_or_subscriber", "fifo", "random"]


TRAILED_SILENCE = 20  # times as long


class DispatcherSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a dispatcher recovers, and how much it keeps; a round is `gossip_s`."""

    algorithm: Algorithm = "combined"
    gossip_s: float = 0.1
    jitter: float = 0.2  # rounds are so much longer or shorter, at random
    adaptive: bool = True  # rounds halve while something is missing, double while nothing is
    speed_up_max: int = 4
    slow_down_max: int = 16
    immediate: bool = False  # what is found missing starts a round at once, not at the next one
    immediate_gap_s: float = 0.01  # but not more often

    forward_probability: float = 0.6
    fanout: int = 1  # neighbours that a gossip is sent on to
    subscriber_share: float = 0.5  # combined: of rounds; the others pull from publishers
    push_every: int = 8  # combined: a round of push among so many
    route_tries: int = 2  # then the source is asked without detours
    sources_per_round: int = 16  # publishers that one round asks
    trails: bool = True  # combined: what is sent over a link is numbered, and what is missed is told of
    beacons: int = 5  # rounds after the last step of a trail in which its number is told
    silence_rounds: int = 5  # a source that has said nothing for so long says how far it had come, twice
    covering: bool = True  # a subscription that another one covers is not passed on
    resend_s: float = 0.1  # subscriptions that a neighbour has not confirmed
    linger_s: float = 3.0  # what a lost neighbour led to is numbered so long, for who leads there next

    cache_events_max: int = 1500
    cache_policy: CachePolicy = "interest_first"
    digest_ids_max: int = 256
    trail_steps_max: int = 1024  # that are remembered, and missed, on one link
    told_max: int = 4096  # lost events that others were told of
    watermarks_max: int = 16  # on one gossip
    lost_rounds_max: int = 20  # then it is given up
    lost_max: int = 4096
    routes_max: int = 4096
    route_hops_max: int = 64  # how far gossip and events travel at most
    streams_max: int = 65536
    sources_max: int = 4096
    numbers_max: int = 65536  # patterns that a source counts for
    window_events: int = 8192  # of one source; what is older is taken for known
    patterns_max: int = 65536  # from one neighbour, and from all clients
    unconfirmed_max: int = 4096  # changes of subscriptions on their way to one neighbour
    changes_max: int = 64  # in one message
    payload_bytes_max: int = 60_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 0 if name in ("jitter", "cache_events_max", "fanout", "watermarks_max") else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise ConfigError(f"{name}={value} is less than {least}")
        if self.gossip_s <= 0 or not 0 <= self.jitter < 1:
            raise ConfigError("gossip_s is above 0 and jitter from 0 to below 1")
        for name in ("forward_probability", "subscriber_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a probability, from 0 to 1")

    @property
    def silence_s(self) -> float:
        """How long a source says nothing before it says how far it had come; trails find the same sooner."""
        is_trailed = self.trails and self.algorithm == "combined"
        return self.silence_rounds * self.gossip_s * (TRAILED_SILENCE if is_trailed else 1)

    @property
    def lost_s_max(self) -> float:
        """How long a missing event is asked for."""
        return self.lost_rounds_max * self.gossip_s


def jitter(random: Random, settings: DispatcherSettings) -> float:
    """A factor for a time, so that not everybody does the same at once."""
    return 1 + settings.jitter * (2 * random.random() - 1)


class TreeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How dispatchers keep one tree."""

    beat_s: float = 0.1
    silent_s: float = 0.7  # a neighbour that says nothing for so long is gone
    root_silent_s: float = 1.2  # a root of which nothing new is heard for so long is gone
    degree_max: int = 4
    candidates_max: int = 64  # dispatchers that one knows of
    path_max: int = 64  # hops to the root
    roots_max: int = 256  # that one remembers

    def __post_init__(self) -> None:
        if not 0 < self.beat_s < self.silent_s < self.root_silent_s:
            raise ConfigError("beat_s is above 0 and below silent_s, and that below root_silent_s")
        if self.degree_max < 2:
            raise ConfigError("degree_max is at least 2: a tree of degree 1 has two dispatchers")
