"""Real brokers for tests: started on free ports of this machine, stopped again, killed and restarted on request.

with nats_server(jetstream=True) as server:
    service = open_service(server.url + "?jetstream=TEST")
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

START_S = 10.0
HOST = "127.0.0.1"

MOSQUITTO_LIMITS = """\
max_queued_messages 0
max_queued_bytes 0
max_inflight_messages 0
max_packet_size 68157440
persistence true
"""
"""Without these, Mosquitto keeps 1,000 messages for a reader that lags and drops the others without a word."""


class Server:
    """A broker of our own, in a directory of its own, that keeps its port when it is restarted."""

    def __init__(self, scheme: str, command: Callable[[int, Path], list[str]], directory: Path) -> None:
        self.port = free_port()
        self.url = f"{scheme}://{HOST}:{self.port}"
        self._command = command
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        log = (self._directory / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._command(self.port, self._directory), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + START_S
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                text = (self._directory / "server.log").read_text(errors="replace")
                raise RuntimeError(f"no server at {self.url}: {text[-2000:] or 'it says nothing'}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._end(kill=False)

    def kill(self) -> None:
        """Stop it at once, as a crash would."""
        self._end(kill=True)

    def restart(self, *, kill: bool = True) -> None:
        """Kill it, or ask it to stop, and start it again."""
        self._end(kill=kill)
        self.start()

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """For a while it does nothing at all, and keeps its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill() if kill else process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def nats_server(*, jetstream: bool = False, config: str = "") -> Iterator[Server]:
    """A NATS server; `config` is appended to its configuration file."""

    def command(port: int, directory: Path) -> list[str]:
        lines = [f"listen: {HOST}:{port}", config]
        if jetstream:
            lines.append(f'jetstream {{ store_dir: "{directory}", max_file_store: 64GB }}')
        path = directory / "nats.conf"
        path.write_text("\n".join(lines))
        return [program("nats-server"), "-c", str(path)]

    with _running("nats", command) as server:
        yield server


@contextmanager
def redis_server(*options: str) -> Iterator[Server]:
    """A Redis server that remembers its streams when it is restarted; `options` are further arguments."""

    def command(port: int, directory: Path) -> list[str]:
        durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        place = ["--port", str(port), "--bind", HOST, "--dir", str(directory)]
        return [program("redis-server"), *place, *durable, *options]

    with _running("redis", command) as server:
        yield server


@contextmanager
def mosquitto_server(config: str = "allow_anonymous true") -> Iterator[Server]:
    """A Mosquitto that drops nothing in silence; `config` is appended to its configuration file."""

    def command(port: int, directory: Path) -> list[str]:
        path = directory / "mosquitto.conf"
        user = "user root\n" if Path.home() == Path("/root") else ""  # or it cannot read its own directory
        path.write_text(
            f"listener {port} {HOST}\n{user}{MOSQUITTO_LIMITS}persistence_location {directory}/\n{config}\n"
        )
        return [program("mosquitto"), "-c", str(path)]

    with _running("mqtt", command) as server:
        yield server


def why_no_mosquitto() -> str | None:
    """What to tell somebody whose machine has no Mosquitto; None if it has one."""
    if _search("mosquitto"):
        return None
    return (
        "Mosquitto is not installed; 'apt-get install mosquitto' (or your system's package) runs these tests"
    )


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _running(scheme: str, command: Callable[[int, Path], list[str]]) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="unisono-") as directory:
        server = Server(scheme, command, Path(directory))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=0.2):
        return True
    return False


def _search(program: str) -> str | None:
    beside = Path(sys.executable).parent / program  # where wheels put what they bring
    if beside.exists():
        return str(beside)
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def program(name: str) -> str:
    """Where a program is: beside our Python, where wheels put what they bring, or on the path."""
    path = _search(name)
    if path is None:
        raise RuntimeError(f"{name} is not installed")
    return path
