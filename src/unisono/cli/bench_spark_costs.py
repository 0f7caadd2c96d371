"""What the processes of a benchmark take of memory and of processors, by what they are."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

ROLES = {
    b"nats-server": "server",
    b"pyspark": "python",
    b"unisono": "node",
}  # by what is in their command lines
TICKS_S = os.sysconf("SC_CLK_TCK")


class Memory(threading.Thread):
    """What Spark's processes take, again and again, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._seen: list[dict[str, int]] = []

    def run(self) -> None:
        """Look twice a second."""
        while not self._over.wait(0.5):
            self._seen.append(memory_mib())

    def stop(self) -> dict[str, int]:
        """The most that it was."""
        self._over.set()
        self.join()
        return {who: max([seen[who] for seen in self._seen], default=0) for who in ("python", "java")}

    @property
    def first_fifth(self) -> int:
        """The same of Python, in the first fifth of the time."""
        return max([seen["python"] for seen in self._seen[: max(1, len(self._seen) // 5)]], default=0)


def memory_mib() -> dict[str, int]:
    """Memory of Spark's Java and Python processes; pages that they share count for each a part."""
    found = {"python": 0, "java": 0}
    for pid, role in _ours():
        if role in found:
            rollup = _read(pid, "smaps_rollup").partition("Pss:")[2].split()
            found[role] += int(rollup[0]) >> 10 if rollup else 0
    return found


def cpu_s() -> dict[str, float]:
    """Processor time that processes below this one have taken, those included that have ended."""
    found = {"server": 0.0, "node": 0.0, "java": 0.0, "python": 0.0}
    for pid, role in _ours():
        words = _read(pid, "stat").rpartition(")")[2].split()
        if role in found and len(words) > 14:
            found[role] += sum(map(int, words[11:15])) / TICKS_S
    return found


def _ours() -> Iterator[tuple[int, str]]:
    """The processes below this one, and what they are."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = _read(int(entry.name), "stat").rpartition(")")[2].split()
            parents[int(entry.name)] = int(words[1]) if len(words) > 1 else 0
    for pid in parents:
        at = pid
        while (at := parents.get(at, 0)) and at != os.getpid():
            pass
        if at == os.getpid():
            line = _read(pid, "cmdline").encode()
            is_java = b"java" in line.partition(b"\0")[0]
            yield pid, "java" if is_java else next((role for word, role in ROLES.items() if word in line), "")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""  # it has ended
