"""A Spark session for plans, sweeps and reports."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(master: str | None = None) -> SparkSession:
    """The session of this process, on this machine unless a master is named."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("the pipeline needs Spark; install it with: pip install 'unisono[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("unisono").master(master or "local[*]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
