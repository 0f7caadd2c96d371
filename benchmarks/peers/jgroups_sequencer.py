"""JGroups with SEQUENCER, a program in Java (JGroupsSequencer.java), the stack that its jar brings for this."""

from __future__ import annotations

import socket
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.kit import Missing, main
from benchmarks.peers.program import Program, compiled

HERE = Path(__file__).parent
SOURCE = HERE / "JGroupsSequencer.java"
CLASSES = HERE.parents[1] / "out" / "peers"
JAR = Path("/usr/share/java/jgroups.jar")
HOST = "127.0.0.1"
STACK = "sequencer.xml"
CHANGED = {
    'max_bundle_timeout="30"': 'max_bundle_timeout="2"',  # as fast as with 30 ms, and that much less late
    'timeout="2000"': 'timeout="500"',  # nobody waits for members that are not there
    'num_initial_members="3"': 'num_initial_members="2"',
    'print_local_addr="true"': 'print_local_addr="false"',
    "${jgroups.udp.ip_ttl:2}": "0",
}


class JGroups(Program):
    """Every subscriber is a channel of one Java process, the first of them sequences."""

    def check(self) -> str:
        if not JAR.exists():
            raise Missing("JGroups is not installed; 'make peers-setup' installs libjgroups-java")
        command = ["javac", "-cp", str(JAR), "-d", str(CLASSES), str(SOURCE)]
        compiled(command, SOURCE, CLASSES / "JGroupsSequencer.class")
        named = sorted(path.stem for path in JAR.parent.glob("jgroups-*.jar"))
        return (named or ["jgroups"])[-1].replace("-", " ", 1)

    def command(self) -> list[str]:
        settings = [
            f"-Djgroups.bind_addr={HOST}",
            "-Djava.net.preferIPv4Stack=true",
            "-Djava.awt.headless=true",
        ]
        return ["java", "-Xmx512m", *settings, "-cp", f"{CLASSES}:{JAR}", "JGroupsSequencer"]

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        with zipfile.ZipFile(JAR) as jar:
            stack = jar.read(STACK).decode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
        for old, new in {**CHANGED, "${jgroups.udp.mcast_port:45588}": str(port)}.items():
            stack = stack.replace(old, new)
        (folder / STACK).write_text(stack)
        yield str(folder / STACK)


if __name__ == "__main__":
    main(JGroups())
