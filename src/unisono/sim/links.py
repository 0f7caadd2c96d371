"""Links of wide-area networks: how long a message takes, how long its bytes take, whether it is lost.

The channels are those of paper 000, section 6.1: 80 % of all links are fast, N(21, 10.85) ms, and 20 % are slow,
N(240, 129.27) ms. As it says "of all links", we read: a link is fast or slow for good, and each message on it
draws its own latency, so that a link has a mean that stays and a jitter around it. A Gaussian falls below
zero in 3 % of the draws; what falls below `FLOOR_S` takes `FLOOR_S`. That leaves the means within 1 % of the
paper's (21.1 and 241.6 ms), whereas drawing again would raise them by 4 %.

Which links are slow is a hash of the seed and the link's two ends: worlds of 10,000 nodes need no table of
links, and whoever asks, one by one or for arrays, hears the same.
"""

from __future__ import annotations

from random import Random
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FLOOR_S = 0.001
_MASK = (1 << 64) - 1


class Channel(msgspec.Struct, frozen=True):
    """A kind of link: what its messages take, in seconds, before the cut at the floor."""

    mean_s: float
    deviation_s: float
    floor_s: float = FLOOR_S

    def sample(self, random: Random) -> float:
        """The latency of one message."""
        return max(self.floor_s, random.gauss(self.mean_s, self.deviation_s))

    def sample_many(self, generator: np.random.Generator, n: int) -> Floats:
        """The latencies of n messages."""
        return np.maximum(generator.normal(self.mean_s, self.deviation_s, n), self.floor_s)

    @property
    def cut_mean_s(self) -> float:
        """The mean after the cut."""
        if not self.deviation_s:
            return max(self.floor_s, self.mean_s)
        normal, z = NormalDist(), (self.floor_s - self.mean_s) / self.deviation_s
        return self.floor_s + self.deviation_s * (normal.pdf(z) - z * (1 - normal.cdf(z)))


FAST = Channel(0.021, 0.01085)
SLOW = Channel(0.240, 0.12927)


class Mixture(msgspec.Struct, frozen=True):
    """Fast and slow channels, and the share of links that are slow."""

    fast: Channel = FAST
    slow: Channel = SLOW
    slow_share: float = 0.2

    def sample(self, random: Random) -> float:
        """The latency of one message on any link."""
        return (self.slow if random.random() < self.slow_share else self.fast).sample(random)

    def sample_many(self, generator: np.random.Generator, n: int) -> Floats:
        """The latencies of n messages, each on a link of its own."""
        return self.sample_on(generator.random(n) < self.slow_share, generator)

    def sample_on(self, is_slow: Bools, generator: np.random.Generator) -> Floats:
        """A latency for each message, given which of them are on slow links; any shape."""
        mean = np.where(is_slow, self.slow.mean_s, self.fast.mean_s)
        deviation = np.where(is_slow, self.slow.deviation_s, self.fast.deviation_s)
        floor = np.where(is_slow, self.slow.floor_s, self.fast.floor_s)
        return np.maximum(mean + deviation * generator.standard_normal(is_slow.shape), floor)

    @property
    def cut_mean_s(self) -> float:
        """The mean over all links, after the cut."""
        return self.slow_share * self.slow.cut_mean_s + (1 - self.slow_share) * self.fast.cut_mean_s


WAN = Mixture()  # paper 000, section 6.1


class Bandwidth(msgspec.Struct, frozen=True):
    """What a node's line carries: bytes go up at the sender and down at the receiver."""

    up_bits_s: float
    down_bits_s: float

    def transmission_s(self, size_bytes: float) -> float:
        """How long the bytes of one message take over both lines."""
        return 8 * size_bytes * (1 / self.up_bits_s + 1 / self.down_bits_s)

    def transmission_many(self, sizes_bytes: ArrayLike) -> Floats:
        """The same for an array of sizes."""
        return np.asarray(sizes_bytes, np.float64) * self.transmission_s(1)

    def up_s(self, size_bytes: float) -> float:
        """How long the sender's line is busy with a message: the next one waits for it."""
        return 8 * size_bytes / self.up_bits_s


ADSL = Bandwidth(up_bits_s=1e6, down_bits_s=8e6)  # the ends of ITU-T G.992.1


class Links:
    """Every link between the nodes 0..n-1 of a world: slow or fast for good, and the same in both directions."""

    def __init__(
        self, seed: int, mixture: Mixture = WAN, bandwidth: Bandwidth | None = None, loss: float = 0.0
    ) -> None:
        if not 0 <= loss < 1:
            raise ValueError(f"a share of {loss} cannot be lost; take one from 0 up to, not including, 1")
        self.mixture = mixture
        self.bandwidth = bandwidth
        self.loss = loss
        self._salt = _mixed(seed & _MASK)
        self._slow_below = int(mixture.slow_share * 2**53)

    def is_slow(self, a: int, b: int) -> bool:
        """Whether the link between two nodes is a slow one."""
        pair = (min(a, b) << 32 | max(a, b)) ^ self._salt
        return _mixed(pair) >> 11 < self._slow_below

    def is_slow_many(self, a: ArrayLike, b: ArrayLike) -> Bools:
        """The same for arrays of ends."""
        ends = np.asarray(a, np.uint64), np.asarray(b, np.uint64)
        pair = (np.minimum(*ends) << np.uint64(32)) | np.maximum(*ends)
        mixed = _mixed_many(pair ^ np.uint64(self._salt))
        return np.asarray(mixed >> np.uint64(11) < np.uint64(self._slow_below))

    def mean_s(self, a: int, b: int) -> float:
        """What a message takes on this link on average; nothing from a node to itself."""
        if a == b:
            return 0.0
        return (self.mixture.slow if self.is_slow(a, b) else self.mixture.fast).cut_mean_s

    def sample(self, a: int, b: int, random: Random, size_bytes: float = 0.0) -> float:
        """How long one message takes from a to b; nothing from a node to itself."""
        if a == b:
            return 0.0
        channel = self.mixture.slow if self.is_slow(a, b) else self.mixture.fast
        wire_s = self.bandwidth.transmission_s(size_bytes) if self.bandwidth else 0.0
        return channel.sample(random) + wire_s

    def sample_many(
        self, a: ArrayLike, b: ArrayLike, generator: np.random.Generator, size_bytes: ArrayLike = 0.0
    ) -> Floats:
        """The same for arrays of ends, and sizes if bytes take time."""
        times = self.mixture.sample_on(self.is_slow_many(a, b), generator)
        if self.bandwidth:
            times = times + self.bandwidth.transmission_many(size_bytes)
        return np.where(np.asarray(a) == np.asarray(b), 0.0, times)


def _mixed(x: int) -> int:
    """SplitMix64's finaliser: neighbouring numbers come out unrelated."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31


def _mixed_many(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The same for arrays; arithmetic wraps at 64 bits as it must."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)
