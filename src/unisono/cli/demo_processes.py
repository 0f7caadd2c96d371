"""The second act of the demo: real processes on a real NATS server, and one of them is killed.

`unisono up` with two nodes, three `unisono pub`, four `unisono sub` on overlapping topics, two more that listen to the
bare broker's order. Half-way through, a node is killed with SIGKILL; the other takes its topics over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import IO, Any

import msgspec

from unisono.model.errors import ServerError, UnconfirmedError

TOPICS = ("orders", "payments", "stock")
WANTED = (("orders", "payments"), ("payments", "stock"), ("orders", "stock"), TOPICS)
PUBLISHERS = 3
START_S = 60.0
END_S = 60.0
STOP_S = 15.0


class Command:
    """A `unisono` command in a process of its own, and the JSON lines it prints."""

    def __init__(self, *words: str, env: dict[str, str], feed: bool = False) -> None:
        self.name = " ".join(words[:2])
        self.lines: list[dict[str, Any]] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "unisono", *words],
            env=os.environ | env,
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[bytes]) -> None:
        for line in output:
            self.lines.append(msgspec.json.decode(line))

    def first_line(self) -> dict[str, Any]:
        """What it says when it is ready."""
        _until(
            lambda: bool(self.lines) or self._process.poll() is not None, START_S, f"{self.name} is not ready"
        )
        if not self.lines:
            raise ServerError(f"{self.name} ended at once: {self._complaint()}")
        return self.lines[0]

    def feed(self, line: dict[str, Any]) -> None:
        """Give it a line to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(line) + b"\n")
        self._process.stdin.flush()

    def fed(self) -> None:
        """There is nothing more to read."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Return when it has ended well."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise UnconfirmedError(f"{self.name} has not ended after {END_S:g} s") from None
        if code:
            raise ServerError(f"{self.name} ended with {code}: {self._complaint()}")
        self._reader.join(END_S)

    def stop(self) -> None:
        """Make it end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(STOP_S)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _complaint(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()[-500:] or "it says nothing"


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    published: int
    heard: list[list[str]]  # ids, as each subscriber heard them
    bare: list[list[str]]  # as the broker told them
    killed: str
    seconds: float

    @property
    def pairs(self) -> int:
        """Pairs of subscribers that share events."""
        return len(list(combinations(self.heard, 2)))

    @property
    def agreeing(self) -> int:
        """Pairs that heard what they share in one order."""
        return sum(agree(one, other) for one, other in combinations(self.heard, 2))

    @property
    def is_complete(self) -> bool:
        """Whether everybody heard everything."""
        share = self.published // len(TOPICS)
        return all(len(ids) == share * len(topics) for ids, topics in zip(self.heard, WANTED, strict=True))

    @property
    def held(self) -> bool:
        """Whether nothing was lost and everybody agrees."""
        return self.is_complete and self.agreeing == self.pairs

    @property
    def bare_swaps(self) -> int:
        """Neighbours of the first bare listener that the second heard the other way round."""
        place = {id: i for i, id in enumerate(self.bare[1])}
        order = [place[id] for id in self.bare[0] if id in place]
        return sum(a > b for a, b in pairwise(order))

    def summary(self) -> dict[str, Any]:
        """The figures, for machines."""
        return {
            "published": self.published,
            "subscribers": len(self.heard),
            "heard": [len(ids) for ids in self.heard],
            "pairs": self.pairs,
            "agreeing": self.agreeing,
            "bare_swaps": self.bare_swaps,
            "killed": self.killed,
            "seconds": round(self.seconds, 1),
            "held": self.held,
        }


def agree(one: list[str], other: list[str]) -> bool:
    """Whether two heard what they share in one order, each event once."""
    common = set(one) & set(other)
    mine, theirs = ([id for id in ids if id in common] for ids in (one, other))
    return mine == theirs and len(mine) == len(common)


def play(events: int, journal: Path | None, tell: Callable[[str], None]) -> Outcome:
    """Run the act; `tell` is told how far it is."""
    began = time.monotonic()
    with ExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory(prefix="unisono-demo-"))
        tell("starting a NATS server and two nodes")
        up = stack.enter_context(
            _running("up", "--json", "--port", "0", "--nodes", "2", "--data", data, env={})
        )
        system = up.first_line()
        env = {"UNISONO_URL": system["url"]}
        keep = [] if journal is None else ["--journal", str(journal)]
        tell("starting four subscribers and three publishers")
        wanted = [
            (topics, events // len(TOPICS) * PUBLISHERS * len(topics), ["--name", f"s{i}", *keep])
            for i, topics in enumerate(WANTED, start=1)
        ]
        subscribers = [stack.enter_context(_sub(topics, count, more, env)) for topics, count, more in wanted]
        bare = [stack.enter_context(_sub(TOPICS, None, ["--order", "none"], env)) for _ in range(2)]
        publishers = [
            stack.enter_context(_running("pub", "--stdin", "--name", f"p{i}", *keep, env=env, feed=True))
            for i in range(1, PUBLISHERS + 1)
        ]
        for command in (*subscribers, *bare):
            command.first_line()
        victim = system["nodes"][0]
        for n in range(events):
            if n == events // 2:
                tell(f"kill -9 of node {victim['name']}")
                os.kill(victim["pid"], signal.SIGKILL)
            for i, publisher in enumerate(publishers):
                publisher.feed({"topic": TOPICS[(n + i) % len(TOPICS)], "data": {"by": i, "n": n}})
            time.sleep(0.002)
        for publisher in publishers:
            publisher.fed()
        tell("waiting for the rest")
        for command in (*publishers, *subscribers):
            command.wait()
        return Outcome(
            events * PUBLISHERS,
            [_ids(subscriber) for subscriber in subscribers],
            [_ids(listener) for listener in bare],
            victim["name"],
            time.monotonic() - began,
        )


def _sub(topics: tuple[str, ...], count: int | None, more: list[str], env: dict[str, str]) -> Any:
    end = [] if count is None else ["--count", str(count), "--idle", str(END_S / 2)]
    return _running("sub", *topics, "--json", *end, *more, env=env)


@contextmanager
def _running(*words: str, env: dict[str, str], feed: bool = False) -> Iterator[Command]:
    command = Command(*words, env=env, feed=feed)
    try:
        yield command
    finally:
        command.stop()


def _ids(command: Command) -> list[str]:
    return [line["id"] for line in command.lines if "id" in line]


def _until(done: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise UnconfirmedError(f"{what} after {seconds:g} s")
        time.sleep(0.02)
