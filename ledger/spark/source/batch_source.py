"""The reader of a table: `spark.read.format("ledgermq")`.

The driver makes the plan when Spark asks for partitions. Spark pickles the reader before the plan exists, so each
partition carries the parts of the plan that its task needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ledger.spark.source.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads topics as a table. Spark calls its methods."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each range of offsets. Raises LedgerError."""
        from ledger.spark.source.planning import Planner

        planner = Planner(self._options)
        contents = planner.contents()
        ranges = planner.ranges(planner.starts(contents), planner.ends(contents), contents)
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark makes such a partition for an empty plan
            return iter(())
        return read_partition(partition, self._options, self._schema)


def read_partition(partition: InputPartition, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a partition's range as record batches. Spark calls this method in a task."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from ledger.spark.source.range_reader import read_range

    return read_range(partition.value, options, to_arrow_schema(schema, timezone="UTC"))
