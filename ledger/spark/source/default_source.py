"""The format "ledgermq": Spark tables and streams that read and write topics.

    spark.read.format("ledgermq").option("bootstrap.servers", "host:9871").option("subscribe", "orders").load()

This module checks the options and makes readers and writers. The module imports other modules inside its methods,
because Spark often imports this module only to learn the name of the format.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ledger.spark.source.options import WriteOptions, read_options, write_options
from ledger.spark.source.schema import check_schema, source_schema


class DefaultSource(DataSource):
    """The data source "ledgermq". Spark looks for the class by this name, and calls its methods."""

    @classmethod
    def name(cls) -> str:
        return "ledgermq"

    def schema(self) -> StructType:
        return source_schema(include_headers=read_options(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ledger.spark.source.batch_source import BatchReader

        check_schema(schema)
        return BatchReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from ledger.spark.source.stream_source import StreamReader

        check_schema(schema)
        return StreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ledger.spark.sink.sink import BatchWriter

        return BatchWriter(self._checked_for_writing(schema, overwrite=overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from ledger.spark.sink.sink import StreamWriter

        return StreamWriter(self._checked_for_writing(schema, overwrite=overwrite, streaming=True))

    def _checked_for_writing(self, schema: StructType, *, overwrite: bool, streaming: bool) -> WriteOptions:
        """Return the checked options. This function refuses wrong options, columns and topics before any task runs."""
        from ledger.spark.sink.sink import check_columns, check_mode, check_name, check_topic

        check_mode(overwrite=overwrite, streaming=streaming)
        options = write_options(self.options)
        check_name(options, streaming=streaming)
        check_columns(schema, options)
        check_topic(options)
        return options
