"""Plants each violation in a large journal, and none, and checks that the audit says exactly that.

Run as `make audit-campaign`; the commands are those anybody would type. Exit code 1 when one verdict is not as
it must be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# What is planted -> the promise it breaks first of all, and words of the explanation.
EXPECTED = {
    "": ("", ""),
    "swap": ("total_notification_order", "subscriber-000 saw"),
    "tag": ("tags", "untagged, but it came too late"),
    "duplicate": ("no_duplication", "twice"),
    "forge": ("stamps", "with a stamp that says"),
    "cause": ("causal_order", "before"),
    "gap": ("nothing_lost", "never saw"),
}


def main() -> int:
    """Try every plant; how many went wrong decides the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=10_000_000)
    parser.add_argument(
        "--out", type=Path, help="Where journals are made for a while; a temporary folder by default."
    )
    chosen = parser.parse_args()
    wrong = 0
    for plant in EXPECTED:
        with tempfile.TemporaryDirectory(prefix="unisono-campaign-", dir=chosen.out) as folder:
            problem, said = _try(plant, Path(folder) / "journal", chosen.deliveries)
        wrong += bool(problem)
        print(f"{plant or 'clean':<10} {'WRONG: ' + problem if problem else 'right'}  {said}", flush=True)
    return 1 if wrong else 0


def _try(plant: str, journal: Path, deliveries: int) -> tuple[str, str]:
    """What is wrong with the answer, and the answer."""
    planting = ["--plant", plant] if plant else []
    made = _unisono("synth", "--deliveries", str(deliveries), "--out", str(journal), *planting)
    started = time.perf_counter()
    report = _unisono("audit", "--journal", str(journal))
    seconds = time.perf_counter() - started
    said = f"{report['verdict']} over {report['deliveries']:,} in {report['seconds']} s ({seconds:.1f} s with Spark's start)"
    said += "".join(f"\n           {v['promise']}: {v['explanation']}" for v in report["violations"])
    return _problem(plant, made, report), said


def _problem(plant: str, made: dict[str, Any], report: dict[str, Any]) -> str:
    promise, words = EXPECTED[plant]
    if report["deliveries"] != made["deliveries"]:
        return f"{report['deliveries']} deliveries audited of {made['deliveries']}"
    if not plant:
        return "" if report["verdict"] == "held" and not report["violations"] else "a false alarm"
    if report["verdict"] != "violated" or len(report["violations"]) != 1:
        return f"one violation was planted, {len(report['violations'])} found"
    (found,) = report["violations"]
    if found["promise"] != promise or words not in found["explanation"]:
        return f"expected {promise}, '{words}'"
    if not any(event in made["planted"] for event in found["events"]):
        return f"planted was: {made['planted']}"
    return ""


def _unisono(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "unisono", "pipeline", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


if __name__ == "__main__":
    sys.exit(main())
