"""A peer whose publisher and subscribers are a program in another language.

The program is called with ROLE URL FOLDER SUBSCRIBERS PUBLISHERS PUBLISHER EVENTS RATE and prints the JSON lines of
its role (kit.py), but for what subscribers heard: that is a file `row.<i>` for each in the folder, records of the
payload's head and the time at which it was had, and then any line.
"""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
from pathlib import Path

from benchmarks.peers.kit import HEAD, Missing, Peer, Work, judge, say
from unisono.server.child import Child, ended

RECORD = struct.Struct(HEAD.format + "Q")
COMPILE_S = 120.0


class Program(Peer):
    """A peer that is compiled; a script says how."""

    def command(self) -> list[str]:
        """How to start the program, which `check` has compiled."""
        raise NotImplementedError

    def _called(self, role: str, work: Work) -> list[str]:
        numbers = (work.subscribers, work.publishers, work.publisher, work.events, work.rate)
        return [*self.command(), role, work.url, work.folder, *map(str, numbers)]

    async def publish_role(self, work: Work) -> None:
        """The program speaks for itself."""
        command = self._called("publish", work)
        os.execvp(command[0], command)

    async def subscribe_role(self, work: Work) -> None:
        """Pass on that it is ready, then read and judge what it heard."""
        command = self._called("subscribe", work)
        program = await Child.start(command, name=command[0], stdout=asyncio.subprocess.PIPE)
        for word in ("ready", "heard"):
            if not await program.output.readline():
                raise RuntimeError(f"{command[0]} {ended(await program.wait())}")
            if word == "ready":
                say({"ready": True})
        rows = [
            list(RECORD.iter_unpack((Path(work.folder) / f"row.{i}").read_bytes()))
            for i in range(work.subscribers)
        ]
        full = all(len(row) >= work.expected for row in rows)
        say(
            judge(
                work,
                [[(record[0], record[1], record[2]) for record in row] for row in rows],
                [[record[-1] for record in row] for row in rows],
                [row[work.expected - 1][-1] if full else 0 for row in rows],
            )
        )
        await program.wait()


def compiled(command: list[str], source: Path, target: Path) -> None:
    """Compile the source unless that is done; raises Missing with what the compiler says."""
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMPILE_S, text=True, check=False)
    except FileNotFoundError:
        raise Missing(f"{command[0]} is not installed; 'make peers-setup' installs it") from None
    if done.returncode:
        said = next(iter(done.stderr.strip().splitlines()), "nothing said")
        raise Missing(f"{source.name} cannot be compiled: {said}; 'make peers-setup' installs what it needs")
