"""What `unisono bench filters` subscribes and publishes: subscriptions of three predicates, and a desk of readers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, product
from random import Random
from typing import Any

TEXTS = tuple(f"text{i}" for i in range(5))  # attributes that are strings, each of 100 values
NUMBERS = tuple(f"number{i}" for i in range(15))  # attributes that are numbers from 0 to 1000
WORDS = tuple(a + b + c for a, b, c in product("ABCDEFGHIJ", "KLMNOPQRST", "X"))
MIXES = {
    "led": "one value or prefix that 1 % of the events have, two ranges that 32 % are in",
    "ranges": "three ranges that 10 % of the events are in",
}
SYMBOLS, SECTORS = 2_000, 40
NEWS = ("merger", "takeover", "dividend", "strike", "recall", "lawsuit", "earnings", "guidance")


def subscriptions(mix: str, chances: Random) -> Iterator[str]:
    """Texts without end, each of three predicates over three of 20 attributes; one event in a thousand matches."""
    while True:
        if mix == "ranges":
            yield " and ".join(_between(name, 0.1, chances) for name in chances.sample(NUMBERS, 3))
            continue
        name, word = chances.choice(TEXTS), chances.choice(WORDS)
        first = f'{name} == "{word}"' if chances.random() < 0.85 else f'{name} starts with "{word[:2]}"'
        yield " and ".join([first, *(_between(name, 0.316, chances) for name in chances.sample(NUMBERS, 2))])


def _between(name: str, share: float, chances: Random) -> str:
    low = chances.uniform(0, 1000 * (1 - share))
    return f"{name} between {low:.2f} and {low + 1000 * share:.2f}"


def event(chances: Random) -> dict[str, Any]:
    """An event with all 20 attributes."""
    texts = {name: chances.choice(WORDS) for name in TEXTS}
    return texts | {name: chances.uniform(0, 1000) for name in NUMBERS}


def desk(chances: Random) -> Iterator[str]:
    """Subscriptions of people who read prices and news, without end.

    Symbols are asked for by Zipf's law, prices and urgencies in round numbers. Of 100 subscriptions 30 want all of a
    symbol, 25 its prices above or below a bound, 10 its large trades, 15 news of a sector from some urgency on,
    10 news with a word in its headline, 10 such news of one symbol.
    """
    weights = list(accumulate(1 / (rank + 1) for rank in range(SYMBOLS)))
    while True:
        symbol = f'symbol == "S{chances.choices(range(SYMBOLS), cum_weights=weights)[0]}"'
        word, chance = chances.choice(NEWS), chances.random()
        if chance < 0.30:
            yield symbol
        elif chance < 0.55:
            yield f"{symbol} and price {chances.choice('<>')} {chances.randrange(5, 100) * 5}"
        elif chance < 0.65:
            yield f"{symbol} and volume >= {chances.randrange(1, 20) * 1000}"
        elif chance < 0.80:
            yield f'sector == "T{chances.randrange(SECTORS)}" and urgency >= {chances.randrange(1, 10)}'
        elif chance < 0.90:
            yield f'headline contains "{word}" and urgency >= {chances.randrange(1, 10)}'
        else:
            yield f'{symbol} and headline contains "{word}"'
