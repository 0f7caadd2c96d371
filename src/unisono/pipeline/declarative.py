"""Runs the declarative pipeline of a lake, with a catalog that outlives the run.

Without a persistent catalog a second run does not know the tables of the first. The catalog is an embedded Derby
inside the lake; like all of the lake it serves one run at a time.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from string import Template
from urllib.parse import unquote

from unisono.model.errors import ConfigError
from unisono.pipeline.lake import Lake
from unisono.pipeline.session import LOCAL, advice, check_java, settings

PROJECT = Path(__file__).with_name("project")
_DONE = re.compile(r"Flow \S*?(\w+)`? has COMPLETED")


def prepare(lake: Lake, master: str = "local[*]", *, heavy: bool = True) -> Path:
    """Put the project into the lake with its folders named; returns the path of the spec."""
    shutil.rmtree(lake.project, ignore_errors=True)
    shutil.copytree(PROJECT, lake.project, ignore=shutil.ignore_patterns("__pycache__"))
    spec = lake.project / "spark-pipeline.yml"
    names = {
        name: str(getattr(lake, name)) for name in ("storage", "landed", "quarantined", "verdicts", "plan")
    }
    spec.write_text(Template(spec.read_text()).substitute(names))
    chosen = {
        **settings(heavy=heavy, java=f"-Dderby.stream.error.file={lake.conf / 'derby.log'}"),
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(lake.warehouse),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={lake.folder / 'catalog'};create=true",
    }
    if master.startswith("local"):
        chosen |= LOCAL
    lines = [f"{key} {value}" for key, value in chosen.items()]
    (lake.conf / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    return spec


def _die_with_parent() -> None:
    """A Spark that outlives whoever started it would keep the catalog locked."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run_tables(
    lake: Lake,
    *,
    master: str = "local[*]",
    remote: str = "",
    tell: Callable[[str], None] = lambda words: None,
    heavy: bool = True,
) -> None:
    """Bring all tables up to date; `heavy` where there is much to do."""
    check_java()
    spec = prepare(lake, master, heavy=heavy)
    command = [sys.executable, "-m", "unisono.pipeline.tables", str(spec), master]
    if remote:
        command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)]
    environment = {
        **os.environ,
        "SPARK_CONF_DIR": str(lake.conf),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    environment.pop("SPARK_REMOTE", None)
    if remote:
        environment["SPARK_REMOTE"] = remote
    last: deque[str] = deque(maxlen=200)
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=lake.conf,
        preexec_fn=_die_with_parent,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line.rstrip())
            done = _DONE.search(line)
            if done:
                tell(done.group(1))
    if process.returncode:
        said = "\n".join(last)
        raise ConfigError(
            f"the tables could not be made: {advice(said)} (if the lake is damaged, delete it: the journal has all)"
        )


def committed_files(table: Path) -> list[Path]:
    """The files of a table: what a killed stream left behind is not part of it, and only its log knows which."""
    files = sorted(table.glob("*.parquet"))
    log = table / "_spark_metadata"
    if not log.is_dir():
        return files
    names = {
        Path(json.loads(line)["path"]).name
        for entry in log.glob("[0-9]*")
        for line in entry.read_text().splitlines()
        if line.startswith("{")
    }
    return [file for file in files if unquote(file.name) in names or file.name in names]
