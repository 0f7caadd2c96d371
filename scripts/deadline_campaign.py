"""Events with deadlines between real processes, on real UDP and real NATS: letters delayed and lost, members killed.

Members publish on some topics, half of it in reply to what they were handed, and subscribe with order="causal" and a
deadline. In the middle one is killed (kill -9, unless --no-kill: it leaves), one leaves, and one comes. Each keeps a
journal, on which the promises
are judged: nothing handed over after its deadline, nothing after an effect of it, nothing dropped but what was too late
or overtaken; and those that are left go on. Prints what came of it as JSON; exit 1 if a promise was broken.

python scripts/deadline_campaign.py --transport nats --seconds 30
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import unisono
from unisono.history import Kind, Record, judge
from unisono.journal import read_records
from unisono.journal.options import Journal
from unisono.testing.servers import nats_server

TOPICS = ("a", "b", "c", "d")
PROMISES = ("causal_order", "publisher_fifo", "no_duplication")
FAIR = ("too late", "overtaken")
STALLED = (
    "stalled"  # the machine had no time for the process when something had to go: told, and no fault of ours
)


async def play(name: str, url: str, journal: str, options: argparse.Namespace) -> None:
    """One member, until it is stopped."""
    rng = random.Random(name)
    held = rng.sample(TOPICS, 3)
    deadlines = unisono.Deadlines(jitter_s=options.jitter, loss=options.loss)
    async with (
        unisono.connect(
            url,
            name=name,
            journal=Journal(journal, seconds_max=0.2),
            deadlines=deadlines,
            nodes=url.startswith("udp"),
        ) as bus,
        bus.subscribe(*held, order="causal", deadline=options.deadline) as events,
    ):
        print(json.dumps({"ready": name}), flush=True)

        def say(about: str = "") -> None:
            deadline = rng.uniform(0.4, 1.0) * options.deadline
            bus.publish_nowait(rng.choice(TOPICS), {"by": name, "re": about}, deadline=deadline)

        async def talk() -> None:
            while True:
                await asyncio.sleep(rng.expovariate(options.rate / 2))
                say()

        talking = asyncio.create_task(talk())
        stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        taking = asyncio.create_task(_take(events, say, rng, options.rate / 2))
        await stopped
        talking.cancel()
        await asyncio.sleep(options.deadline)  # what is under way may still come
        taking.cancel()


async def _take(events: unisono.Subscription, say: Any, rng: random.Random, rate: float) -> None:
    """Take what comes, and reply now and then."""
    replied = time.monotonic()
    async for event in events:
        if time.monotonic() - replied > rng.expovariate(rate):
            replied = time.monotonic()
            say(event.id)


class Member:
    """A member's process."""

    def __init__(self, name: str, url: str, journal: Path, options: argparse.Namespace) -> None:
        words = [sys.executable, __file__, "--play", name, url, str(journal)]
        for option in ("rate", "deadline", "jitter", "loss"):
            words += [f"--{option}", str(getattr(options, option))]
        self.name = name
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ready(self) -> None:
        """Return when it has subscribed."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise SystemExit(f"member '{self.name}' has ended")

    def stop(self) -> None:
        """Let it come to its end."""
        if self.process.poll() is None:
            self.process.communicate("\n", timeout=60)

    def kill(self) -> None:
        """Kill it, without a word."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def place(transport: str) -> Iterator[str]:
    """Where they meet."""
    if transport == "nats":
        with nats_server() as server:
            yield server.url
        return
    dispatchers: list[subprocess.Popen[str]] = []
    try:
        url = ""
        for _ in range(3):
            words = [sys.executable, "-m", "unisono", "dispatcher", "--json", "--listen", "udp://127.0.0.1:0"]
            words += ["--join", url] if url else []
            dispatchers.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            assert dispatchers[-1].stdout is not None
            url = url or json.loads(dispatchers[-1].stdout.readline())["url"]
        yield url
    finally:
        for dispatcher in dispatchers:
            dispatcher.kill()
            dispatcher.communicate()


def run(journal: Path, options: argparse.Namespace) -> float:
    """Let them talk; returns when one was killed."""
    with place(options.transport) as url:
        members = [Member(f"m{i}", url, journal, options) for i in range(options.members)]
        try:
            for member in members:
                member.ready()
            time.sleep(options.seconds / 2)
            killed_at = time.time()
            members[0].kill() if options.kill else members[0].stop()
            members[1].stop()
            members.append(Member("newcomer", url, journal, options))
            members[-1].ready()
            time.sleep(options.seconds / 2)
            for member in members[2:]:
                assert member.process.stdin is not None
                member.process.stdin.write("\n")
                member.process.stdin.flush()
            for member in members[2:]:
                member.process.wait(60)
            return killed_at
        finally:
            for member in members:
                if member.process.poll() is None:
                    member.process.kill()
                member.process.communicate()


def judged(records: list[Record], killed_at: float) -> dict[str, Any]:
    """The promises, and how much came."""
    known = {r.event for r in records if r.kind is Kind.PUBLISHED}
    told = [
        r for r in records if r.kind is not Kind.DELIVERED or r.event in known
    ]  # of the killed, not all is
    verdicts = {verdict.promise: verdict.outcome.value for verdict in judge(told, PROMISES)}
    delivered = [r for r in records if r.kind is Kind.DELIVERED]
    late = [r for r in delivered if r.deadline is None or r.at > r.deadline]
    dropped = Counter(r.reason for r in records if r.kind is Kind.DROPPED)
    held: dict[str, set[str]] = {}
    for r in records:
        if r.kind is Kind.SUBSCRIBED:
            held.setdefault(r.process, set()).add(r.topic)
    published = [r for r in records if r.kind is Kind.PUBLISHED]
    longest = [(r.deadline or 0.0) - r.at for r in delivered]
    after = Counter(r.process for r in delivered if r.at > killed_at + 1.0)
    return {
        **verdicts,
        "published": len(published),
        "delivered": len(delivered),
        "unrecorded": len(records) - len(told),
        "delivered_after_deadline": len(late),
        "dropped": dict(dropped),
        "dropped_unfairly": sum(count for reason, count in dropped.items() if reason not in (*FAIR, STALLED)),
        "nearest_to_deadline_s": round(min(longest, default=0.0), 3),
        "delivered_after_the_kill": dict(sorted(after.items())),
    }


def audit(journal: Path) -> dict[str, Any]:
    """What the pipeline makes of it."""
    words = ["pipeline", "audit", "--journal", str(journal), "--mode", "independent", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "unisono", *words], capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)
    return {"verdict": report["verdict"]} | {
        p["promise"]: p["verdict"] for p in report["promises"] if p["matters"]
    }


def main() -> None:
    """Play a member, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=("nats", "udp"), default="nats")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--rate", type=float, default=20.0, help="events a second of each member")
    parser.add_argument("--deadline", type=float, default=1.0)
    parser.add_argument(
        "--jitter", type=float, default=0.15, help="seconds by which letters are delayed at most"
    )
    parser.add_argument("--loss", type=float, default=0.05, help="share of letters that are lost")
    parser.add_argument(
        "--kill", action=argparse.BooleanOptionalAction, default=True, help="kill -9 one of them"
    )
    parser.add_argument("--skip-audit", action="store_true", help="judge in this process only")
    parser.add_argument("--play", nargs=3, metavar=("NAME", "URL", "JOURNAL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        name, url, journal = options.play
        asyncio.run(play(name, url, journal, options))
        return
    with tempfile.TemporaryDirectory() as name:
        journal = Path(name) / "journal"
        killed_at = run(journal, options)
        found = judged(read_records(journal), killed_at)
        verdicts = {} if options.skip_audit else audit(journal)
    print(json.dumps({"transport": options.transport, **found, "audit": verdicts}))
    kept = not found["delivered_after_deadline"] and not found["dropped_unfairly"]
    kept &= (
        all(found[promise] != "violated" for promise in PROMISES) and verdicts.get("verdict") != "violated"
    )
    left = {"newcomer", *(f"m{i}" for i in range(2, options.members))}
    sys.exit(0 if kept and left <= found["delivered_after_the_kill"].keys() else 1)


if __name__ == "__main__":
    main()
