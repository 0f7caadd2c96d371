"""One run of JGroups with SEQUENCER over the same links: TCP from member to member, as paper 000 had to.

Members listen on addresses of loopback that nobody is told; what they tell each other is the address of a relay.
So every connection between two members takes the latency of a link, the line up of one and the line down of the
other, in both directions. The program is the one of `unisono bench peers`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import unisono
from unisono.lab.wan.relay import Line, Lines, Relay
from unisono.lab.wan.system import Heard, collect, read_records
from unisono.model.errors import ServerError
from unisono.server import guard
from unisono.server.child import MODE, tail
from unisono.sim.links import ADSL
from unisono.testing.servers import free_port

SOURCE = Path(unisono.__file__).resolve().parents[2] / "benchmarks" / "peers" / "JGroupsSequencer.java"
JAR = Path("/usr/share/java/jgroups.jar")
INSTALL = "'make peers-setup' installs libjgroups-java and a JDK"
COMPILE_S = 120.0
READY_S = 30.0
PATIENCE_MS, ALONE_MS = 3000, 300  # until a member takes itself for the first; the first one is
WARM_UP = 200  # events, for the compiler that works at run time
SETTLE_S = 2.0  # until the lines have carried the warm-up to everybody
END_S = 30.0  # behind the last publication
STOP_S = 5.0

STACK = """<config xmlns="urn:org:jgroups">
  <TCP bind_addr="{bind}" external_addr="{told}" bind_port="{port}" port_range="1" loopback="true"
       max_bundle_size="64K" max_bundle_timeout="2" enable_bundling="true" use_send_queues="true"
       sock_conn_timeout="2000" enable_diagnostics="false"
       thread_pool.enabled="true" thread_pool.min_threads="2" thread_pool.max_threads="8"
       thread_pool.queue_enabled="true" thread_pool.queue_max_size="10000" thread_pool.rejection_policy="discard"
       oob_thread_pool.enabled="true" oob_thread_pool.min_threads="1" oob_thread_pool.max_threads="8"
       oob_thread_pool.queue_enabled="false" oob_thread_pool.rejection_policy="Run"/>
  <TCPPING timeout="{patience_ms}" initial_hosts="{others}" port_range="0" num_initial_members="{wanted}"/>
  <pbcast.NAKACK use_mcast_xmit="false" gc_lag="0" retransmit_timeout="300,600,1200,2400,4800"
                 discard_delivered_msgs="true"/>
  <UNICAST timeout="300,600,1200"/>
  <pbcast.STABLE stability_delay="1000" desired_avg_gossip="50000" max_bytes="4M"/>
  <pbcast.GMS print_local_addr="false" join_timeout="3000" view_bundling="true"/>
  <SEQUENCER/>
  <UFC max_credits="2M" min_threshold="0.4"/>
  <MFC max_credits="2M" min_threshold="0.4"/>
  <FRAG2 frag_size="60K"/>
</config>
"""


class GroupError(ServerError):
    """The members did not find each other in time."""


def why_not() -> str:
    """Why JGroups cannot be run here, and what to do; empty if it can."""
    if sys.platform != "linux":
        return "members need addresses 127.0.1.1 and so on, which only Linux has from the start"
    if not SOURCE.exists():
        return f"{SOURCE.name} is not there: JGroups is run in a checkout of unisono"
    if not JAR.exists():
        return f"JGroups is not installed; {INSTALL}"
    if not shutil.which("java") or not shutil.which("javac"):
        return f"there is no JDK; {INSTALL}"
    return ""


async def run(members: int, rate_s: int, events: int, link_ms: float, folder: Path) -> Heard:
    """All members but the last subscribe, the last one publishes."""
    subscribers, port = members - 1, free_port()
    _compile(folder)
    async with AsyncExitStack() as stack:
        await _lay_links(members, port, link_ms, folder, stack)
        numbers = [str(n) for n in (subscribers, 1, 0, events, rate_s)]
        java = [
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            f"-Dwarm_up={WARM_UP}",
            "-Djava.net.preferIPv4Stack=true",
        ]
        program = [*java, "-cp", f"{folder}:{JAR}", "JGroupsSequencer"]
        words = [str(folder / "stack-%d.xml"), str(folder), *numbers]
        hearing = await stack.enter_async_context(_started([*program, "subscribe", *words], folder))
        await _joined(hearing, folder)
        publishing = await stack.enter_async_context(_started([*program, "publish", *words], folder))
        await _joined(publishing, folder)
        await asyncio.sleep(SETTLE_S)
        assert publishing.stdin is not None
        publishing.stdin.write(b"\n")
        await _line(publishing, events / rate_s + END_S, folder)
        await _line(hearing, END_S, folder)
    rows = [[(r[0], 0, r[2], r[3]) for r in read_records(folder / f"row.{i}")] for i in range(subscribers)]
    return collect(rows, [events])[0]


async def _lay_links(members: int, port: int, link_ms: float, folder: Path, stack: AsyncExitStack) -> None:
    """A relay in front of each member, and its stack."""
    ups = [Line(ADSL.up_bits_s) for _ in range(members)]
    downs = [Line(ADSL.down_bits_s) for _ in range(members)]
    for i in range(members):

        def ways(client: str, i: int = i) -> tuple[Lines, Lines]:
            other = int(client.rpartition(".")[2]) - 1
            return (ups[other], downs[i]), (ups[i], downs[other])

        relay = Relay((_bind(i), port), link_ms / 1000, ways)
        await relay.open(_told(i), port)
        stack.push_async_callback(relay.close)
        there = max(1, i)  # members before it: it asks each of them for its address, and counts itself too
        others = ",".join(f"{_told(n)}[{port}]" for n in range(there))
        text = STACK.format(
            bind=_bind(i),
            told=_told(i),
            port=port,
            others=others,
            wanted=there + 1,
            patience_ms=PATIENCE_MS if i else ALONE_MS,
        )
        (folder / f"stack-{i}.xml").write_text(text)


def _bind(member: int) -> str:
    return f"127.0.1.{member + 1}"


def _told(member: int) -> str:
    return f"127.0.2.{member + 1}"


def _compile(folder: Path) -> None:
    command = ["javac", "-cp", str(JAR), "-d", str(folder), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, timeout=COMPILE_S, text=True, check=False)
    if done.returncode:
        said = next(iter(done.stderr.strip().splitlines()), "nothing said")
        raise ServerError(f"{SOURCE.name} cannot be compiled: {said}; {INSTALL}")


@asynccontextmanager
async def _started(command: list[str], folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that does not outlive us, and is not there any more behind this."""
    guarded = [sys.executable, "-I", "-S", guard.__file__, MODE, str(int(signal.SIGKILL)), str(os.getpid())]
    with (folder / "java.err").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *guarded,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(STOP_S):
            await process.wait()


async def _joined(process: asyncio.subprocess.Process, folder: Path) -> None:
    """Wait until it is a member, and everybody else too."""
    try:
        await _line(process, READY_S, folder)
    except ServerError as error:
        raise GroupError(str(error)) from None


async def _line(process: asyncio.subprocess.Process, within_s: float, folder: Path) -> None:
    """Wait until it says something."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(within_s):
            if await process.stdout.readline():
                return
    except TimeoutError:
        raise ServerError(
            f"JGroups said nothing for {within_s:g} s; {tail(folder / 'java.err', 1)}"
        ) from None
    raise ServerError(f"JGroups ended; {tail(folder / 'java.err', 1)}")
