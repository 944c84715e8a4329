"""Makes ranges of offsets from the options, before any message is read.

The planner asks the cluster for the queues, their offsets and the nodes with replicas. All other steps only compute
with these queues, offsets and nodes. If the cluster no longer has some of the messages to read, the planner reports it
before a task runs: as an error, or as a warning if `failOnDataLoss` is false.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ledger.client.connection.route_table import RoutedTopic
from ledger.client.records import QueueOffsets, TopicQueue
from ledger.errors import InvalidArgumentError, OffsetOutOfRangeError, UnknownQueueError, UnknownTopicError
from ledger.spark.source.connection import SparkConnection, connection_to
from ledger.spark.source.options import ReadOptions
from ledger.spark.source.positions import EARLIEST_OFFSET, LATEST_OFFSET, Offsets, Position
from ledger.spark.source.ranges import OffsetRange, split

log = logging.getLogger("ledgermq.spark")

QueueMap = dict[TopicQueue, int]


class DataLossError(OffsetOutOfRangeError):
    """Raised if messages that should be read no longer exist. To read the remaining messages, set the option
    `failOnDataLoss` to "false"."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The selected topics, and the present offsets of each selected queue."""

    topics: Mapping[str, RoutedTopic]
    offsets: Mapping[TopicQueue, QueueOffsets]

    @property
    def ends(self) -> QueueMap:
        return {place: offsets.end_offset for place, offsets in self.offsets.items()}


class Planner:
    """Plans for one source which ranges of offsets the tasks read. The planner connects to the cluster at its first
    use."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @property
    def _connection(self) -> SparkConnection:
        return connection_to(self._options.servers)

    def contents(self) -> Contents:
        """Ask the cluster for the selected topics and their offsets. Raises UnknownTopicError or UnknownQueueError."""
        selection, connection = self._options.selection, self._connection
        if selection.pattern is not None:
            topics = connection.topics_like(selection.pattern)
        else:
            try:
                topics = connection.topics(selection.assigned or selection.topics)
            except UnknownTopicError as error:
                name = "assign" if selection.assigned else "subscribe"
                raise UnknownTopicError(f'The option "{name}" is "{selection}": {error}') from error
        offsets: dict[TopicQueue, QueueOffsets] = {}
        for topic in topics:
            for queue, found in sorted(connection.offsets(topic, self._queues(topic)).items()):
                offsets[TopicQueue(topic.name, queue)] = found
        return Contents({topic.name: topic for topic in topics}, offsets)

    def _queues(self, topic: RoutedTopic) -> list[int]:
        if self._options.selection.assigned is None:
            return list(range(len(topic.shards)))
        queues = self._options.selection.assigned[topic.name]
        if (last := max(queues)) >= len(topic.shards):
            raise UnknownQueueError(
                f'The option "assign" names queue {last} of topic "{topic.name}": its queues are 0 to '
                f"{len(topic.shards) - 1}."
            )
        return list(queues)

    # -- starts and ends

    def starts(self, contents: Contents) -> QueueMap:
        """Return for each queue the offset at which reading starts, as the options say."""
        return self._resolved(self._options.starting, contents, "startingOffsets")

    def ends(self, contents: Contents) -> QueueMap:
        """Return for each queue the offset at which the reading of a table ends, as the options say."""
        return self._resolved(self._options.ending, contents, "endingOffsets")

    def _resolved(self, position: Position, contents: Contents, option: str) -> QueueMap:
        if position.time_ms is not None or position.times is not None:
            return self._at_times(position, contents, option)
        if position.everywhere is not None:
            return {place: _meaning(position.everywhere, each) for place, each in contents.offsets.items()}
        assert position.offsets is not None
        given = matched(position.offsets, contents, option)
        return {place: self._in_range(number, place, contents, option) for place, number in given.items()}

    def _at_times(self, position: Position, contents: Contents, option: str) -> QueueMap:
        if position.times is not None:
            times = matched(position.times, contents, f"{option}ByTimestamp")
        else:
            assert position.time_ms is not None
            times = dict.fromkeys(contents.offsets, position.time_ms)
        found = self._connection.offsets_at(times)
        for place, offset in found.items():
            if position.strict and offset >= contents.offsets[place].end_offset:
                raise InvalidArgumentError(
                    f'Queue {place.queue} of topic "{place.topic}" has no message that was appended at the starting '
                    f"time, {times[place]} ms since 1970, or later: choose an earlier time, or set "
                    '"startingOffsetsByTimestampStrategy" to "latest".'
                )
        return found

    def _in_range(self, number: int, place: TopicQueue, contents: Contents, option: str) -> int:
        offsets = contents.offsets[place]
        if number < 0:
            return _meaning(number, offsets)
        first, end = offsets.first_offset, offsets.end_offset
        if not first <= number <= end:
            self.lost(
                f'The option "{option}" has offset {number} for queue {place.queue} of topic "{place.topic}", which '
                f"has the offsets {first} to {end}"
            )
        return min(max(number, first), end)

    # -- ranges

    def ranges(self, starts: QueueMap, ends: QueueMap, contents: Contents) -> list[OffsetRange]:
        """Return the ranges to read, at least `minPartitions` if possible. The ranges do not include queues without
        messages."""
        ranges = []
        for place, end in ends.items():
            topic, offsets = contents.topics.get(place.topic), contents.offsets.get(place)
            if topic is None or offsets is None:
                self.lost(f'Queue {place.queue} of topic "{place.topic}" should be read and no longer exists')
                continue
            start = self._still_there(place, starts.get(place, 0), end, offsets)
            if start < end <= offsets.end_offset:
                ranges.append(
                    OffsetRange(topic.name, topic.topic_id, place.queue, topic.shards[place.queue], start, end)
                )
        return self._with_replicas(split(ranges, self._options.min_partitions))

    def _still_there(self, place: TopicQueue, start: int, end: int, offsets: QueueOffsets) -> int:
        """Return the first offset to read: `start`, or the first kept offset if earlier messages are gone."""
        where = f'of queue {place.queue} of topic "{place.topic}"'
        if start > end or end > offsets.end_offset:
            self.lost(
                f"The offsets {start} to {end} {where} should be read, and the queue ends at {offsets.end_offset}; "
                "perhaps the topic was deleted and created again, or endingOffsets are below startingOffsets"
            )
        elif start < min(offsets.first_offset, end):
            self.lost(
                f"The offsets from {start} on {where} should be read, and the messages before {offsets.first_offset} "
                "are no longer kept"
            )
            return min(offsets.first_offset, end)
        return start

    def lost(self, sentence: str) -> None:
        """Raise DataLossError, or log a warning if failOnDataLoss is false."""
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f'{sentence}. Set the option "failOnDataLoss" to "false" to read the remaining messages.'
            )
        log.warning("%s; reading the remaining messages, because failOnDataLoss is false.", sentence)

    def _with_replicas(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges with the nodes to ask. If all replicas are to be read, return one range for each
        replica."""
        replica = self._options.replica
        if replica == "leader" or not ranges:
            return ranges
        members = {shard: self._connection.members(shard) for shard in {each.shard for each in ranges}}
        if replica == "all":
            return [replace(each, nodes=(node,)) for each in ranges for node in members[each.shard]]
        if replica == "any":
            return [replace(each, nodes=_turned(members[each.shard], at)) for at, each in enumerate(ranges)]
        node = int(replica)
        for each in ranges:
            if node not in members[each.shard]:
                raise InvalidArgumentError(
                    f'The option "replica" is "{replica}": the nodes that have queue {each.queue} of topic '
                    f'"{each.topic}" are {", ".join(map(str, members[each.shard]))}.'
                )
        return [replace(each, nodes=(node,)) for each in ranges]


def matched(given: Offsets, contents: Contents, option: str) -> QueueMap:
    """Return the user's offsets or times by queue. Raises InvalidArgumentError unless the user's offsets or times
    name exactly the queues to read."""
    flat = {
        TopicQueue(topic, int(queue)): number for topic, queues in given.items() for queue, number in queues.items()
    }
    for place in contents.offsets:
        if place not in flat:
            raise InvalidArgumentError(
                f'The option "{option}" has no value for queue {place.queue} of topic "{place.topic}": give a value '
                "for every queue that is read (-2: its first message, -1: its end)."
            )
    for place in flat:
        if place not in contents.offsets:
            raise InvalidArgumentError(
                f'The option "{option}" names queue {place.queue} of topic "{place.topic}", which is not selected: '
                "remove it there, or select the queue."
            )
    return flat


def _meaning(number: int, offsets: QueueOffsets) -> int:
    assert number in (LATEST_OFFSET, EARLIEST_OFFSET)
    return offsets.end_offset if number == LATEST_OFFSET else offsets.first_offset


def _turned(nodes: tuple[int, ...], by: int) -> tuple[int, ...]:
    """Return the nodes rotated by `by`, so that the ranges are spread over the nodes."""
    at = by % len(nodes)
    return nodes[at:] + nodes[:at]
