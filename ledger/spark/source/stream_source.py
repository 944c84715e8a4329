"""The reader of a stream: `spark.readStream.format("ledgermq")`.

    checkpoint:  {"orders": {"0": 42, "1": 17}}      the offset of the next message of each queue, as in Kafka's source

Spark stores the offsets in its checkpoint. After a failure Spark asks for the same offsets again, and a log returns
the same messages each time. A micro-batch has the same input in every attempt.

Spark calls `read` in tasks, and all other methods in one long-lived process beside the driver. The long-lived process
passes data to the tasks only through the tasks' partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ledger.client.records import TopicQueue
from ledger.spark.source.batch_source import read_partition
from ledger.spark.source.options import ReadOptions
from ledger.spark.source.planning import Contents, Planner, QueueMap
from ledger.spark.source.ranges import limited

if TYPE_CHECKING:
    import pyarrow as pa

Checkpoint = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as a stream. Spark calls its methods."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._planner = Planner(options)
        # The ends of a query with the trigger availableNow, which stops there.
        self._target: QueueMap | None = None
        self._latest: QueueMap | None = None

    def initialOffset(self) -> Checkpoint:  # noqa: N802 - Spark's names
        return as_checkpoint(self._planner.starts(self._planner.contents()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._planner.contents().ends

    def latestOffset(self, start: Checkpoint, limit: ReadLimit) -> Checkpoint:  # noqa: N802
        """Return the end of the next micro-batch: the present end, or about as many messages as the limit allows."""
        contents = self._planner.contents()
        starts = from_checkpoint(start)
        ends = self._latest = contents.ends if self._target is None else self._target
        self._check_removed(starts, contents)
        if isinstance(limit, ReadMaxRows):
            ends = limited(self._beginnings(starts, contents, ends), ends, limit.max_rows)
        return as_checkpoint(ends)

    def reportLatestOffset(self) -> Checkpoint | None:  # noqa: N802
        return None if self._latest is None else as_checkpoint(self._latest)

    def partitions(self, start: Checkpoint, end: Checkpoint) -> Sequence[InputPartition]:
        """Return one partition for each range. A queue that is new since `start` is read from its first message."""
        starts, ends = from_checkpoint(start), from_checkpoint(end)
        if starts == ends:
            return []
        return [InputPartition(each) for each in self._planner.ranges(starts, ends, self._planner.contents())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)

    def _check_removed(self, starts: Mapping[TopicQueue, int], contents: Contents) -> None:
        for place in starts:
            if place not in contents.offsets:
                self._planner.lost(f'Queue {place.queue} of topic "{place.topic}" was read and no longer exists')

    def _beginnings(self, starts: QueueMap, contents: Contents, ends: QueueMap) -> QueueMap:
        """Return the offset at which reading continues in each queue. This offset is at least the queue's first
        kept offset."""
        firsts = {place: each.first_offset for place, each in contents.offsets.items()}
        return {place: max(starts.get(place, 0), firsts.get(place, 0)) for place in ends}


def as_checkpoint(offsets: Mapping[TopicQueue, int]) -> Checkpoint:
    """Return the offsets in the form of the checkpoint. Equal offsets give equal JSON text."""
    found: Checkpoint = {}
    for place in sorted(offsets):
        found.setdefault(place.topic, {})[str(place.queue)] = offsets[place]
    return found


def from_checkpoint(offsets: Checkpoint) -> QueueMap:
    """Return the offsets of a checkpoint by queue."""
    return {
        TopicQueue(topic, int(queue)): offset for topic, queues in offsets.items() for queue, offset in queues.items()
    }
