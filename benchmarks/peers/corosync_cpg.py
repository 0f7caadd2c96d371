"""Corosync CPG, with programs in C (corosync_cpg.c): one process group, agreed order, one Corosync on loopback.

Its transport is udpu, which is faster here than knet, the default, by a half.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.kit import Missing, main
from benchmarks.peers.program import Program, compiled
from unisono.server.child import Child, tail
from unisono.testing.servers import free_port

HERE = Path(__file__).parent
SOURCE = HERE / "corosync_cpg.c"
BINARY = HERE.parents[1] / "out" / "peers" / "corosync_cpg"
GROUP = "bench"
START_S = 30.0
CONFIGURATION = """\
totem {{
  version: 2
  cluster_name: bench
  transport: udpu
  interface {{
    linknumber: 0
    mcastport: {port}
  }}
}}
nodelist {{
  node {{
    ring0_addr: 127.0.0.1
    name: bench
    nodeid: 1
  }}
}}
logging {{
  to_stderr: no
  to_syslog: no
  to_logfile: yes
  logfile: {folder}/corosync.log
}}
system {{
  state_dir: {folder}
}}
"""


class Corosync(Program):
    """Needs root: Corosync does."""

    def check(self) -> str:
        if (program := _program()) is None:
            raise Missing("Corosync is not installed; 'make peers-setup' installs it")
        if os.geteuid() != 0:
            raise Missing("Corosync wants to be started by root")
        if Path("/run/corosync.pid").exists() and _runs(Path("/run/corosync.pid")):
            raise Missing("a Corosync runs here already, and there can be only one")
        compiled(["gcc", "-O2", "-o", str(BINARY), str(SOURCE), "-lcpg"], SOURCE, BINARY)
        said = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=10, check=False).stdout
        return said.splitlines()[0].replace(", version", "").replace("'", "") if said else "corosync"

    def command(self) -> list[str]:
        return [str(BINARY)]

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        path = folder / "corosync.conf"
        path.write_text(CONFIGURATION.format(port=free_port(), folder=folder))
        command = [_program() or "corosync", "-f", "-c", str(path)]
        errors = folder / "corosync.err"
        with errors.open("wb") as file:
            child = await Child.start(command, name="Corosync", stdout=file, stderr=file)
        try:
            async with asyncio.timeout(START_S):
                while not await _is_formed():
                    if not child.is_running:
                        raise RuntimeError(f"Corosync ended: {tail(errors)} {tail(folder / 'corosync.log')}")
                    await asyncio.sleep(0.05)
            yield GROUP
        finally:
            await child.stop(10.0)


async def _is_formed() -> bool:
    """Whether it answers."""
    tool = await asyncio.create_subprocess_exec(
        "corosync-cpgtool", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    return await tool.wait() == 0


def _program() -> str | None:
    return shutil.which("corosync") or shutil.which("corosync", path="/usr/sbin:/usr/local/sbin")


def _runs(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


if __name__ == "__main__":
    main(Corosync())
