"""`python -m unisono.pipeline.tables SPEC MASTER`: a declarative pipeline on a Spark of its own.

Declarative pipelines talk to Spark through Spark Connect. What `spark-pipelines` starts for that listens on a
fixed port of every network; this one on a free port of this machine only, so that runs of several lakes do not
meet, and nobody else can call.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


def main(spec: str, master: str) -> None:
    """Start Spark, run the pipeline, stop Spark."""
    from pyspark.pipelines.cli import run
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    os.environ[_TOKEN] = str(uuid.uuid4())
    session = (
        SparkSession.builder.master(master)
        .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.connect.grpc.binding.port", "0")
        .config("spark.sql.artifact.isolation.enabled", "true")
        .config("spark.sql.artifact.isolation.alwaysApplyClassloader", "true")
        .getOrCreate()
    )
    try:
        service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
        port = getattr(service, "MODULE$").localPort()
        # Spark takes a session in the same process to be at its usual port, and has no setting for another.
        DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
        os.environ.update(SPARK_LOCAL_REMOTE="1", SPARK_REMOTE="local")
        run(Path(spec), full_refresh=[], full_refresh_all=False, refresh=[], dry=False)
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
