"""`format("unisono")` for Spark, which finds packages of this name by itself; the work is in `unisono.pipeline.stream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Ordered events as rows, and rows as ordered events."""

    @classmethod
    def name(cls) -> str:
        """What `format` is told."""
        return "unisono"

    def schema(self) -> str:
        """The columns of the source."""
        from unisono.pipeline.stream.options import source_options
        from unisono.pipeline.stream.rows import schema_of

        return schema_of(source_options(self.options, streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from unisono.pipeline.stream.options import source_options
        from unisono.pipeline.stream.source import BatchReader

        return BatchReader(source_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        from unisono.pipeline.stream.options import source_options
        from unisono.pipeline.stream.source import LiveReader

        return LiveReader(source_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        from unisono.pipeline.stream.options import sink_options
        from unisono.pipeline.stream.sink import BatchWriter

        return BatchWriter(sink_options(self.options, streaming=False), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        from unisono.pipeline.stream.options import sink_options
        from unisono.pipeline.stream.sink import LiveWriter

        return LiveWriter(sink_options(self.options, streaming=True), schema, overwrite=overwrite)
