"""A newcomer with only the README: from a clone to a dashboard that shows a live ordered system, timed.

    python scripts/newcomer.py                    # clones this repository, sets it up, everything; make newcomer
    python scripts/newcomer.py --with .venv/bin   # the same without cloning and set-up, for the tests

Exit code 1 if it took longer than five minutes, or if the page does not show what it should.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300.0
PATIENCE_S = 60.0


def main() -> int:
    """Walk the newcomer's way; returns the exit code."""
    parser = argparse.ArgumentParser(description="from a clone to a running dashboard, timed")
    parser.add_argument(
        "--with", dest="ready", type=Path, help="the bin folder of an environment that is set up"
    )
    given = parser.parse_args()
    began = time.monotonic()
    steps: dict[str, float] = {}

    def done(step: str) -> None:
        steps[step] = round(time.monotonic() - began - sum(steps.values()), 1)
        print(f"{step}: {steps[step]:g} s", file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        bin_ = given.ready
        if bin_ is None:
            run("git", "clone", "--quiet", str(ROOT), str(place / "unisono"))
            done("clone")
            run("make", "--silent", "setup", cwd=place / "unisono")
            bin_ = place / "unisono" / ".venv" / "bin"
            done("set-up")
        unisono = str(bin_.absolute() / "unisono")
        up = [unisono, "up", "--nodes", "2", "--dashboard", "--json"]
        ports = ["--port", "0", "--dashboard-port", "0", "--data", str(place / "data")]
        ready = stack.enter_context(started([*up, *ports], place))
        done("up")
        sub = [unisono, "sub", "orders", "payments", "--json", "--url", ready["url"]]
        for _ in range(2):
            stack.enter_context(started(sub, place, says=False))
        seen = see(ready["dashboard"], [unisono, "pub", "--stdin", "--url", ready["url"]], place)
        done("seen on the page")
    total = round(sum(steps.values()), 1)
    print(json.dumps({"steps_s": steps, "total_s": total, "limit_s": LIMIT_S, "seen": seen}))
    return 0 if total <= LIMIT_S else 1


def see(url: str, pub: list[str], place: Path) -> dict[str, Any]:
    """Publish until the page is told of events on both topics, and of both subscriptions."""
    with urllib.request.urlopen(url, timeout=10) as page:
        assert b"unisono" in page.read()
    lines = "".join(
        f'{{"topic": "{topic}", "data": {i}}}\n' for i in range(50) for topic in ("orders", "payments")
    )
    deadline = time.monotonic() + PATIENCE_S
    published = 0
    with urllib.request.urlopen(url + "api/live", timeout=10) as stream:
        for line in stream:
            if not line.startswith(b"data: "):
                continue
            told = json.loads(line[6:])
            if told.get("subscribed", 0) == 2 and not published:
                run(*pub, cwd=place, feed=lines)
                published = 100
            if published and told.get("events", 0) >= published:
                nodes = [node["node"] for node in told["nodes"] if node["state"] == "alive"]
                return {"events": told["events"], "subscriptions": told["subscribed"], "nodes": nodes}
            if time.monotonic() > deadline:
                break
    raise SystemExit(f"the page was not told of the events within {PATIENCE_S:g} s")


def run(*command: str, cwd: Path | None = None, feed: str | None = None) -> None:
    """Run a command; what it prints is not ours."""
    subprocess.run(command, cwd=cwd, input=feed, text=True, check=True, stdout=sys.stderr, env=environment())


@contextmanager
def started(command: list[str], place: Path, *, says: bool = True) -> Iterator[dict[str, Any]]:
    """A command that runs until it is stopped; yields the line that it says when it is ready."""
    process = subprocess.Popen(command, cwd=place, text=True, stdout=subprocess.PIPE, env=environment())
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline()) if says else {}
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def environment() -> dict[str, str]:
    """Ours, without settings of unisono."""
    return {key: value for key, value in os.environ.items() if not key.startswith("UNISONO_")}


if __name__ == "__main__":
    sys.exit(main())
