"""The format "ledgermq-log": reads messages from the files of logs, also of nodes that do not run.

    spark.read.format("ledgermq-log").option("replica", "all").load("/var/lib/ledgermq")

The format has the same columns as the format "ledgermq". The source reads the files of each replica and asks no node,
so a groupBy(topic, partition, offset) compares the replicas. Files are cut into spans at arbitrary positions, and each
task reads one span, as in the validation (`ledger/validation`). If a file is damaged, the error names the file and the
position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ledger.errors import InvalidArgumentError, UnknownTopicError
from ledger.spark.source.log_options import LogOptions, log_options
from ledger.spark.source.log_span import LogSpan
from ledger.spark.source.schema import check_schema, source_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from ledger.validation.sources.replica import LogReplica

# The bytes of a log that one task reads.
_PARTITION_BYTES = 32 << 20


class DefaultSource(DataSource):
    """The data source "ledgermq-log". Spark looks for the class by this name, and calls its methods."""

    @classmethod
    def name(cls) -> str:
        return "ledgermq-log"

    def schema(self) -> StructType:
        return source_schema(include_headers=log_options(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        return LogTableReader(log_options(self.options), schema)


class LogTableReader(DataSourceReader):
    """Reads logs as a table. Spark calls its methods."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each span. Raises LedgerError."""
        from ledger.spark.source.topic_names import topic_names
        from ledger.validation.sources.replica import spans_of

        replicas = self._opened()
        names = self._wanted(topic_names(replicas))
        commits = {each.shard: 0 for each in replicas}
        for each in replicas:
            commits[each.shard] = max(commits[each.shard], each.told_commit)
        return [
            InputPartition(LogSpan(each, span, names, self._last_index(each, commits)))
            for each in self._chosen(replicas)
            for span in spans_of(each, span_bytes=_PARTITION_BYTES)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark makes such a partition for an empty plan
            return iter(())
        from pyspark.sql.pandas.types import to_arrow_schema

        from ledger.spark.source.log_span_reader import read_log_span

        return read_log_span(partition.value, self._options, to_arrow_schema(self._schema, timezone="UTC"))

    def _opened(self) -> list[LogReplica]:
        from ledger.validation.sources.sources import open_sources

        replicas, unread = open_sources(self._options.paths)
        if unread:
            raise InvalidArgumentError(
                f'The path "{",".join(self._options.paths)}" cannot be read: {"; ".join(unread)}.'
            )
        clusters = sorted({each.cluster for each in replicas if each.cluster})
        if len(clusters) > 1:
            raise InvalidArgumentError(
                f"The paths have logs of different clusters ({', '.join(clusters)}): read one cluster at a time."
            )
        return replicas

    def _chosen(self, replicas: list[LogReplica]) -> list[LogReplica]:
        wanted = self._options.replica
        if wanted == "all":
            return replicas
        if wanted == "any":
            longest = {each.shard: each for each in sorted(replicas, key=lambda each: each.last_index)}
            return [longest[shard] for shard in sorted(longest)]
        chosen = [each for each in replicas if each.node == int(wanted)]
        if not chosen:
            nodes = ", ".join(sorted({str(each.node) for each in replicas}))
            raise InvalidArgumentError(
                f'The option "replica" is "{wanted}", but the paths have logs of the nodes {nodes} only.'
            )
        return chosen

    def _wanted(self, names: Mapping[int, str]) -> dict[int, str]:
        for topic in self._options.topics or ():
            if topic not in names.values():
                raise UnknownTopicError(
                    f'The option "subscribe" names "{topic}", but the logs have no topic of this name.'
                )
        return {topic_id: name for topic_id, name in names.items() if self._options.wants(name)}

    def _last_index(self, replica: LogReplica, commits: Mapping[int, int]) -> int:
        return commits[replica.shard] if self._options.only_committed else replica.last_index
