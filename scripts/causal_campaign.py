"""Questions on topic A, replies on topic B, between processes on NATS: is a reply ever heard before its question?

One process asks, one replies to each question it is handed, others listen to both topics with order="causal". Each
keeps a journal, which the Spark pipeline audits. Prints what came of it as JSON; exit 1 if causal order was violated or
could not be judged, if anything is missing, or if it was slower than --rate events a second.

python scripts/causal_campaign.py --events 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import unisono
from unisono.cli.loop import run_loop
from unisono.testing.servers import nats_server

QUESTIONS, REPLIES = "questions", "replies"
BURST = 2048  # events between two looks at how far they have come
OPEN_MAX = 8 * BURST  # questions without a reply
QUEUE = 1 << 18  # who lags is not to be asked for what it has left to the nodes
START_S = 120.0
QUIET_S = 60.0  # without any event, after which a listener gives up


def say(**what: Any) -> None:
    """One line of JSON for whoever started us."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def ask(bus: unisono.Bus, count: int) -> None:
    """Publish all questions as fast as they are replied to: so many may be open at a time."""
    open_max = asyncio.Semaphore(OPEN_MAX // BURST)
    async with bus.subscribe(REPLIES, order="causal", queue=QUEUE) as replies:

        async def hear() -> None:
            heard = 0
            async for batch in replies.batches():
                for _ in range((heard + len(batch)) // BURST - heard // BURST):
                    open_max.release()
                heard += len(batch)
                if heard == count:
                    return

        hearing = asyncio.create_task(hear())
        say(ready=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        say(began=time.time())
        for n in range(count):
            if n % BURST == 0:
                await open_max.acquire()
                await bus.flush()
            bus.publish_nowait(QUESTIONS, b"%d" % n)
        await hearing
    say(published=count)


async def reply(bus: unisono.Bus, count: int) -> None:
    """Publish a reply to every question, once it was handed over."""
    left = count
    async with bus.subscribe(QUESTIONS, order="causal", queue=QUEUE) as questions:
        say(ready=True)
        async for batch in questions.batches():
            for event in batch:
                bus.publish_nowait(REPLIES, event.body)
            await bus.flush()
            left -= len(batch)
            if left <= 0:
                break
    await bus.drain(300)
    say(published=count)


async def listen(bus: unisono.Bus, count: int) -> None:
    """Take everything, and count replies that come before their questions."""
    asked = bytearray(count)
    early = heard = 0
    async with bus.subscribe(QUESTIONS, REPLIES, order="causal", queue=QUEUE) as events:
        say(ready=True)
        batches = events.batches()
        while heard < 2 * count:
            try:
                batch = await asyncio.wait_for(anext(batches), QUIET_S)
            except TimeoutError:
                break
            heard += len(batch)
            for event in batch:
                if event.topic == QUESTIONS:
                    asked[int(event.body)] = 1
                else:
                    early += not asked[int(event.body)]
        ended = time.time()
    say(heard=heard, early=early, ended=ended)


async def play(role: str, url: str, name: str, journal: str, count: int) -> None:
    """One process."""
    async with unisono.connect(url, name=name, journal=journal, outbox=4 * BURST) as bus:
        await {"ask": ask, "reply": reply, "listen": listen}[role](bus, count)


class Process:
    """A process of ours that says lines of JSON."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def told(self, key: str) -> dict[str, Any]:
        """The next line that has this key."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if key in said:
                return dict(said)
        raise SystemExit(f"a process ended before it said '{key}'")

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All of them on a server of our own; returns what was measured."""
    journal, count = str(folder / "journal"), options.events // 2
    processes: list[Process] = []
    with nats_server(jetstream=True) as server:
        url = f"{server.url}?durability=memory"

        def start(*words: str) -> Process:
            processes.append(Process(*words))
            return processes[-1]

        def member(role: str, name: str) -> Process:
            return start(sys.executable, __file__, "--play", role, url, name, journal, "--events", str(count))

        try:
            start(sys.executable, "-m", "unisono", "node", "--name", "n1", "--url", url, "--json").told(
                "ready"
            )
            listeners = [member("listen", f"listener-{i}") for i in range(options.listeners)]
            for one in [*listeners, replies := member("reply", "replier")]:
                one.told("ready")
            asks = member("ask", "asker")
            asks.told("ready")
            assert asks.process.stdin is not None
            asks.process.stdin.write("\n")
            asks.process.stdin.flush()
            began = asks.told("began")["began"]
            asks.told("published")
            replies.told("published")
            heard = [listener.told("heard") for listener in listeners]
            for process in processes[1:]:
                process.process.wait(60)  # journals are written to their ends
        finally:
            for process in reversed(processes):
                process.end()
    seconds = max(h["ended"] for h in heard) - began
    return {
        "events": 2 * count,
        "listeners": len(listeners),
        "heard": [h["heard"] for h in heard],
        "replies_before_questions": sum(h["early"] for h in heard),
        "seconds": round(seconds, 2),
        "events_per_s": round(2 * count / seconds),
    }


def audit(folder: Path) -> dict[str, Any]:
    """What the pipeline makes of the journal."""
    words = ["pipeline", "audit", "--journal", str(folder / "journal"), "--mode", "independent", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "unisono", *words], capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)
    promises = {p["promise"]: p["verdict"] for p in report["promises"] if p["matters"]}
    return {"verdict": report["verdict"], "deliveries": report["deliveries"], **promises}


def main() -> None:
    """Play a role, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="questions and replies together")
    parser.add_argument("--listeners", type=int, default=2)
    parser.add_argument("--rate", type=float, default=50_000, help="events a second, at least")
    parser.add_argument("--skip-audit", action="store_true", help="measure only")
    parser.add_argument("--play", nargs=4, metavar=("ROLE", "URL", "NAME", "JOURNAL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        role, url, name, journal = options.play
        run_loop(play(role, url, name, journal, options.events))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured = run(folder, options)
        verdicts = {} if options.skip_audit else audit(folder)
    say(**measured, audit=verdicts)
    held = (
        measured["replies_before_questions"] == 0
        and set(measured["heard"]) == {measured["events"]}
        and measured["events_per_s"] >= options.rate
        and (options.skip_audit or verdicts.get("causal_order") == "held")
    )
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
