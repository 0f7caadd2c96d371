"""Made-up subscriptions, as large as wanted: few topics that nearly everybody holds, many that hardly anybody does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from unisono.model.errors import ConfigError

CHUNK = 50_000  # subscribers drawn at once


def topic_names(topics: int) -> list[str]:
    """Names that sort like their numbers; the first is the most popular."""
    width = len(str(topics - 1))
    return [f"topic.{i:0{width}d}" for i in range(topics)]


def draw_subscriptions(
    rng: np.random.Generator, subscribers: int, topics: int, each: int, skew: float
) -> npt.NDArray[np.int32]:
    """For each subscriber `each` different topics, drawn by a power law: weight 1 / (place + 1) ** skew.

    The largest of `log(weight) + Gumbel noise` are a weighted draw without replacement.
    """
    weight = -skew * np.log(np.arange(1, topics + 1))
    noise = -np.log(-np.log(rng.random((subscribers, topics), dtype=np.float32).clip(1e-7, 1 - 1e-6)))
    keys = weight.astype(np.float32) + noise
    return np.argpartition(keys, topics - each, axis=1)[:, topics - each :].astype(np.int32)


def draw_groups(
    rng: np.random.Generator, subscribers: int, topics: int, skew: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Groups of Zipf size, as in paper 003: about 1 / k ** skew of all subscribers, whoever they are, hold topic k."""
    share = (1.0 / np.arange(1, topics + 1) ** skew).astype(np.float32)
    who, topic = np.nonzero(rng.random((subscribers, topics), dtype=np.float32) < share)
    return who, topic.astype(np.int32)


def synthesise(
    path: Path, subscribers: int, topics: int, each: int = 20, skew: float = 1.0, seed: int = 7
) -> None:
    """Write rows of `subscriber, topic` to one Parquet file, a chunk of subscribers at a time; each 0: groups."""
    if not 0 <= each <= topics:
        raise ConfigError(
            f"each subscriber holds between 1 and all {topics} topics (0: by size of group), not {each}"
        )
    rng = np.random.default_rng(seed)
    names = pa.array(topic_names(topics))
    schema = pa.schema([("subscriber", pa.int64()), ("topic", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(path, schema) as file:
        for first in range(0, subscribers, CHUNK):
            count = min(CHUNK, subscribers - first)
            if each:
                chosen = draw_subscriptions(rng, count, topics, each, skew).ravel()
                who = np.repeat(np.arange(count, dtype=np.int64), each)
            else:
                who, chosen = draw_groups(rng, count, topics, skew)
            topic = pa.DictionaryArray.from_arrays(pa.array(chosen), names)
            file.write_table(pa.table([pa.array(who + first), topic], schema=schema))


def write_rates(path: Path, topics: int, busiest: float = 1000.0, skew: float = 1.0) -> None:
    """Publication rates by the same law, the most popular topics not being the busiest ones."""
    names = topic_names(topics)
    places = np.random.default_rng(topics).permutation(topics)
    rates = busiest / (places + 1.0) ** skew
    pq.write_table(pa.table({"topic": names, "rate": rates}), path)


def main() -> None:
    """Write subscriptions and rates to a folder: `python -m unisono.pipeline.plan_synth --out DIR`."""
    from argparse import ArgumentParser

    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--subscribers", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument(
        "--each", type=int, default=20, help="topics that a subscriber holds; 0: groups of Zipf size"
    )
    parser.add_argument("--skew", type=float, default=1.0, help="exponent of the power law")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    synthesise(asked.out / "subscriptions.parquet", asked.subscribers, asked.topics, asked.each, asked.skew)
    write_rates(asked.out / "rates.parquet", asked.topics)


if __name__ == "__main__":
    main()
