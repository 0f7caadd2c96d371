"""A Spark session that starts fast, is quiet, has bounds, and whose failures are sentences."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.model.errors import ConfigError, UnisonoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "1g"  # of the JVM: it plans and passes results on, the work is done by Python workers
CONNECT_S_MAX = 3.0
_MASTER = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?|yarn|k8s://.+|spark://[^\s:]+:\d+(,[^\s:]+:\d+)*")

# Where Java plans and Python works, compiling Java for speed costs more than it brings: half of a short run.
LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
HEAVY_BYTES = 64 << 20
_JAVA = "spark.driver.extraJavaOptions"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    _JAVA: f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}",
}


# Nobody else need reach a Spark that runs here alone.
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def is_heavy(source: Path | None) -> bool:
    """Whether a file or folder is so large that Java has much to do with it."""
    if source is None:
        return False
    files = source.rglob("*.parquet") if source.is_dir() else [source] if source.is_file() else []
    return sum(file.stat().st_size for file in files) >= HEAVY_BYTES


def settings(*, heavy: bool, java: str = "") -> dict[str, str]:
    """The settings of a session; `heavy` where Java itself has much to do. `java`: more options for it."""
    options = [SETTINGS[_JAVA], *([] if heavy else [LIGHT_JAVA]), *([java] if java else [])]
    return {**SETTINGS, _JAVA: " ".join(options)}


def open_session(
    master: str = "local[*]", remote: str = "", *, heavy: bool = False, java_log: Path | None = None
) -> SparkSession:
    """The Spark session of this process: on this machine, on a cluster's master, or at a Spark Connect URL.

    `heavy`: the work is done by Spark's own operators, not by Python workers.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("the pipeline needs Spark; install it with: pip install 'unisono[spark]'") from None
    check_address(master, remote)
    builder = SparkSession.builder.appName("unisono")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if remote:
        builder = builder.remote(remote)
    else:
        check_java()
        chosen = settings(heavy=heavy) | (LOCAL if master.startswith("local") else {})
        builder = builder.master(master)
        for key, value in chosen.items():
            builder = builder.config(key, value)
    with explained(f"Spark did not start at '{remote or master}'"), _apart(java_log):
        return builder.getOrCreate()


def java_pid(spark: SparkSession) -> int:
    """The process id of the Java that this process has started, 0 if it has not."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return int(process.pid) if process is not None else 0


@contextmanager
def _apart(log: Path | None) -> Iterator[None]:
    """Java keeps what it finds when it starts: here a file to print to, and no ear for SIGTERM.

    Whoever stops us may tell all our processes at once, and we need Java to end in good order.
    """
    if log is None:
        yield
        return
    kept = [os.dup(number) for number in (1, 2)]
    heard = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with log.open("ab") as file:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        yield
    finally:
        signal.signal(signal.SIGTERM, heard)
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns what Spark, Java or the disk raises into one sentence that says what to do."""
    try:
        yield
    except UnisonoError:
        raise
    except OSError as error:
        raise ConfigError(f"{what}: {advice(error)}") from error
    except Exception as error:
        raise ConfigError(f"{what}: {advice(error)}") from error


def advice(error: BaseException | str) -> str:
    """What happened and what to do, out of whatever was raised or printed."""
    text = str(error)
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    # numpy does not say why a file came out short.
    if full or "No space left on device" in text or re.search(r"\d+ requested and \d+ written", text):
        return "the disk is full; make room, or set TMPDIR and --lake to a disk that has some"
    if isinstance(error, PermissionError) or "Permission denied" in text:
        return f"{_gist(text)}; choose a folder you may write to"
    if "Master URL" in text or "MasterURL" in text:
        return f"{_gist(text)}; use local[*], spark://host:7077, yarn or k8s://…"
    if "OutOfMemoryError" in text or isinstance(error, MemoryError):
        return "memory ran out; give Spark a machine with more, or fewer cores: --master 'local[1]'"
    return _gist(text) or type(error).__name__


def _gist(text: str) -> str:
    """The line of a long trace that says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"(Error|Exception): ", line)]
    return (telling[-1] if telling else lines[0] if lines else "")[:300]


def check_java() -> None:
    """Refuse to go on without Java: Spark's own words for that are hard to read."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise ConfigError(
            f"JAVA_HOME is '{home}', but there is no Java; point it to Java 17 or newer, or unset it"
        )
    if not home and shutil.which("java") is None:
        raise ConfigError(
            "Spark needs Java 17 or newer and none was found; install one (for example: apt install "
            "openjdk-17-jre-headless), or set JAVA_HOME"
        )


def check_address(master: str, remote: str) -> None:
    """Refuse what no Spark can be at, and where none answers."""
    if remote:
        if not remote.startswith("sc://"):
            raise ConfigError(f"'{remote}' is no Spark Connect URL; it looks like sc://host:15002")
        _reach(remote.removeprefix("sc://").split("/")[0].split(";")[0], 15002, remote)
    elif not _MASTER.fullmatch(master):
        raise ConfigError(f"'{master}' is no Spark master; use local[*], spark://host:7077, yarn or k8s://…")
    elif master.startswith("spark://"):
        _reach(master.removeprefix("spark://").split(",")[0], 7077, master)


def _reach(address: str, port: int, url: str) -> None:
    """Spark itself tries for minutes to reach a master that is not there."""
    host, _, given = address.partition(":")
    try:
        socket.create_connection((host, int(given or port)), CONNECT_S_MAX).close()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"nothing answers at '{url}' ({error}); check the address, or leave it out to run here"
        ) from None
