"""Kills `unisono pipeline run` at random moments, again and again, and compares its tables with those of a quiet run.

Run as `make kill-campaign`. Exit code 1 when a table differs by a row.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from unisono.pipeline.declarative import committed_files
from unisono.pipeline.synth import synthesize

TABLES = ("raw", "clean", "facts", "quarantine", "verdicts", "plan")


def main() -> int:
    """Kill, run to the end, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--deliveries", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory(prefix="unisono-kills-") as folder:
        journal, quiet, killed = (Path(folder) / name for name in ("journal", "quiet", "killed"))
        synthesize(journal, chosen.deliveries, subscribers=20, segment_rows=2000)
        (journal / "subscriber-003" / "0" / "00000002.parquet").write_bytes(b"nothing of the kind")
        started = time.monotonic()
        _start(journal, quiet).wait()
        seconds = time.monotonic() - started
        for number in range(chosen.kills):
            process = _start(journal, killed)
            time.sleep(rng.uniform(0.3, seconds))
            at = _stage(killed)
            was_running = process.poll() is None
            if was_running:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not was_running:
                shutil.rmtree(killed, ignore_errors=True)  # nothing left to kill: from the beginning
            print(f"kill {number + 1}: {at if was_running else 'it had ended'}", flush=True)
        _start(journal, killed).wait()
        wrong = [name for name in TABLES if _rows(quiet, name) != _rows(killed, name)]
        for name in TABLES:
            print(f"{name}: {_rows(killed, name)[0]} rows, {'DIFFERENT' if name in wrong else 'the same'}")
    return 1 if wrong else 0


def _start(journal: Path, lake: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "unisono",
        "pipeline",
        "run",
        "--journal",
        str(journal),
        "--lake",
        str(lake),
    ]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, start_new_session=True, stdout=quiet, stderr=quiet)


def _stage(lake: Path) -> str:
    """How far it had come."""
    made = [name for name in TABLES if committed_files(lake / "warehouse" / name)]
    if made:
        return f"tables {', '.join(made)} had rows"
    counts = {name: len(list((lake / name).glob("*"))) for name in ("states", "landed", "verdicts")}
    return ", ".join(f"{count} in {name}/" for name, count in counts.items())


def _rows(lake: Path, name: str) -> tuple[int, str]:
    """How many rows a table has, and what they add up to, whatever their order."""
    files = [str(path) for path in committed_files(lake / "warehouse" / name)]
    if not files:
        return 0, ""
    columns = '* exclude ("at")' if name == "quarantine" else "*"
    query = f"select count(*), sum(hash(t)::hugeint)::varchar from (select {columns} from read_parquet({files})) t"
    count, total = duckdb.sql(query).fetchall()[0]
    return int(count), str(total)


if __name__ == "__main__":
    sys.exit(main())
