"""A topic as a stream: what `spark.readStream.format("ledgermq")` reads.

    checkpoint:  {"orders": {"0": 42, "1": 17}}      of the next message of each queue, as Kafka's source has it

Spark remembers the offsets, and asks for exactly the messages between two of them, as often as it needs; a log gives
the same messages each time. So what comes of a micro-batch is computed once, however often a query dies.

All but `read` runs in one long-lived process beside the driver, `read` in tasks: they share nothing but the partition.
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
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._planner = Planner(options)
        self._target: QueueMap | None = None
        """Where a query ends that is to read what is there now."""
        self._latest: QueueMap | None = None

    def initialOffset(self) -> Checkpoint:  # noqa: N802 - Spark's names
        return as_checkpoint(self._planner.starts(self._planner.contents()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._planner.contents().ends

    def latestOffset(self, start: Checkpoint, limit: ReadLimit) -> Checkpoint:  # noqa: N802
        """Where the next micro-batch ends: what is there, or about as much of it as the limit allows."""
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
        """One for each range. A queue that was not there at the start is read from its first message."""
        starts, ends = from_checkpoint(start), from_checkpoint(end)
        if starts == ends:
            return []
        return [InputPartition(each) for each in self._planner.ranges(starts, ends, self._planner.contents())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)

    def _check_removed(self, starts: Mapping[TopicQueue, int], contents: Contents) -> None:
        for place in starts:
            if place not in contents.offsets:
                self._planner.lost(f'Queue {place.queue} of topic "{place.topic}" was read and is not there any more')

    def _beginnings(self, starts: QueueMap, contents: Contents, ends: QueueMap) -> QueueMap:
        """Where reading goes on, but not before what is kept."""
        firsts = {place: each.first_offset for place, each in contents.offsets.items()}
        return {place: max(starts.get(place, 0), firsts.get(place, 0)) for place in ends}


def as_checkpoint(offsets: Mapping[TopicQueue, int]) -> Checkpoint:
    """As JSON has it; the same offsets give the same text."""
    found: Checkpoint = {}
    for place in sorted(offsets):
        found.setdefault(place.topic, {})[str(place.queue)] = offsets[place]
    return found


def from_checkpoint(offsets: Checkpoint) -> QueueMap:
    return {
        TopicQueue(topic, int(queue)): offset for topic, queues in offsets.items() for queue, offset in queues.items()
    }
