"""Random filter texts and events against the parser, the matcher, covering and the index: `make fuzz-filters`.

What must hold: a text is a filter or a FilterError, within a bounded time, and nothing of it is run; a filter means
what its text means (where we know), and its form parses to itself; the index finds whom asking each filter finds;
whoever covers another matches all that it matches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from unisono.engines.filters import Filter, parse
from unisono.engines.filters.index import Index
from unisono.lab.filter_texts import NOISE, Maker, Meaning
from unisono.model.errors import FilterError

TEXTS_PER_ROUND = 50
EVENTS_PER_ROUND = 50
KEPT_MAX = 10  # filters that stay in the index from round to round
PARSE_S_MAX = 2.0  # of processor time, for one text
RUNNING = frozenset({"exec", "compile", "import", "open", "os.system", "subprocess.Popen", "socket.connect"})


class Fuzzed(msgspec.Struct):
    """What was tried, and what went wrong."""

    texts: int = 0
    refused: int = 0
    events: int = 0
    pairs: int = 0  # of a filter and an event
    matches: int = 0
    covered: int = 0  # pairs of filters of which one covers the other
    parse_ms_max: float = 0.0
    wrong: list[str] = []


class Fuzzer:
    """Rounds of texts and events, all decided by one seed."""

    def __init__(self, seed: int) -> None:
        self._chances = Random(seed)
        self._maker = Maker(self._chances)
        self._index: Index[int] = Index()
        self._kept: dict[int, Filter] = {}
        self._watch = _Watch()
        self.result = Fuzzed()

    def round(self) -> None:
        """Texts, events, and what the two make of each other."""
        meanings: dict[int, Meaning] = {}
        for key in self._chances.sample(list(self._kept), max(0, len(self._kept) - KEPT_MAX)):
            del self._kept[key]
            self._index.remove(key)
        for _ in range(TEXTS_PER_ROUND):
            text, meaning = self._text()
            wanted = self._parsed(text)
            if wanted is not None:
                self._kept[self.result.texts] = wanted
                self._index.add(self.result.texts, wanted)
                if meaning is not None:
                    meanings[self.result.texts] = meaning
        self._look_at_events(meanings)

    def _text(self) -> tuple[str, Meaning | None]:
        chance = self._chances.random()
        if chance < 0.6:
            return self._maker.filter(self._chances.randrange(4))
        if chance < 0.996:
            return self._maker.garbage(), None
        if chance < 0.998:
            return "".join(map(chr, self._chances.choices(range(0x3000), k=40))), None
        return self._large(), None

    def _large(self) -> str:
        """A text at the bounds, or over them."""
        word, count = self._chances.choice(NOISE), self._chances.choice((30, 300, 3000, 20_000))
        name = ["a", "b", "c", "d"]
        return self._chances.choice(
            (
                word * count,
                "(" * count + "a == 1" + ")" * count,
                "not " * count + "a == 1",
                f'a contains "{"x" * count}"',
                " and ".join(
                    f"({name[i % 4]} == {i} or {name[i % 3]}{i} > {i})" for i in range(min(count, 40))
                ),
                " or ".join(f'{name[i % 4]} contains "{i}" and b{i} == {i}' for i in range(min(count, 400))),
                "a in [" + ",".join(map(str, range(min(count, 3000)))) + "]",
            )
        )

    def _parsed(self, text: str) -> Filter | None:
        result = self.result
        result.texts += 1
        began = time.thread_time()
        try:
            with self._watch:
                wanted = parse(text)
        except FilterError:
            result.refused += 1
            wanted = None
        except Exception as error:
            self._wrong(f"{type(error).__name__} from {text!r}: {error}")
            wanted = None
        took = time.thread_time() - began
        result.parse_ms_max = max(result.parse_ms_max, round(took * 1000, 1))
        if took > PARSE_S_MAX:
            self._wrong(f"{took:.1f} s for {text!r}")
        if self._watch.seen:
            self._wrong(f"{self._watch.seen} while parsing {text!r}")
            self._watch.seen.clear()
        if wanted is not None and (again := parse(wanted.text)).hash != wanted.hash:
            self._wrong(f"{wanted.text!r} becomes {again.text!r}")
        return wanted

    def _look_at_events(self, meanings: dict[int, Meaning]) -> None:
        result = self.result
        events = [self._maker.event() for _ in range(EVENTS_PER_ROUND)]
        result.events += len(events)
        matched: dict[int, list[int]] = {key: [] for key in self._kept}
        for at, (event, found) in enumerate(zip(events, self._index.match_many(events), strict=True)):
            asked = [key for key, wanted in self._kept.items() if wanted.matches(event)]
            result.pairs += len(self._kept)
            result.matches += len(asked)
            if sorted(found) != asked:
                self._wrong(f"the index finds {sorted(found)}, asking each {asked}, for {event}")
            for key in asked:
                matched[key].append(at)
            for key, meaning in meanings.items():
                if meaning(event) is not (bool(matched[key]) and matched[key][-1] == at):
                    self._wrong(f"{self._kept[key].text!r} is wrong about {event}")
        self._look_at_covering(matched)

    def _look_at_covering(self, matched: dict[int, list[int]]) -> None:
        keys = list(self._kept)
        for _ in range(len(keys)):
            outer, inner = self._chances.choice(keys), self._chances.choice(keys)
            if outer != inner and self._kept[outer].covers(self._kept[inner]):
                self.result.covered += 1
                if not set(matched[inner]) <= set(matched[outer]):
                    self._wrong(f"{self._kept[outer].text!r} does not cover {self._kept[inner].text!r}")

    def _wrong(self, message: str) -> None:
        if len(self.result.wrong) < 20:
            self.result.wrong.append(message)


class _Watch:
    """Notes whether anything is run, imported or opened while it is on."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._is_on = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_on and event in RUNNING:
            self.seen.append(event)

    def __enter__(self) -> None:
        self._is_on = True

    def __exit__(self, *_: object) -> None:
        self._is_on = False


def fuzz(texts: int, seed: int = 0, tell: Callable[[Fuzzed], None] = lambda _: None) -> Fuzzed:
    """At least so many texts, and as many events."""
    fuzzer = Fuzzer(seed)
    while fuzzer.result.texts < texts:
        fuzzer.round()
        tell(fuzzer.result)
    return fuzzer.result
