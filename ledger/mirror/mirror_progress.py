"""Keeps how far a mirror came as the progress of a broadcast: at the source, and at the target.

The target itself says what was copied (copied_end.py). The progress at the source serves what the target cannot do:
operators see the lag of the mirror there, the mirror finds its place again when retention has emptied the target, and a
second mirror of the same name is noticed, because its claims fence those of the first one. A second progress at the
source says where the present run of each queue began. With it, a target that has no message of the queue any more still
knows which one is next. The progress at the target marks a topic as a copy (copies.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.client.background import all_done
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.consumer_groups import broadcast_name
from ledger.errors import ConsumerFencedError, LedgerError, UnknownGroupError, from_wire
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.v1 import consumer_group_pb2

# The consumer group of the progress at the source.
MIRROR_GROUP = "ledgermq-mirror"
# The consumer group of the offsets at which the present runs began.
RUNS_GROUP = "ledgermq-mirror-runs"


@dataclass(slots=True)
class _Claimed:
    shard: int
    epoch: int
    resets: int
    # The offset that the source has, and the one that it shall have.
    stored: int
    wanted: int


class MirrorProgress:
    """The progress of the mirror `name` in one cluster, under the consumer group `group`."""

    def __init__(self, client: ClusterClient, group: str, name: str) -> None:
        self.group = broadcast_name(group, name)
        self._client = client
        # By topic id and queue.
        self._claimed: dict[tuple[int, int], _Claimed] = {}

    async def is_new(self) -> bool:
        """Return True if no mirror of this name has run before."""
        try:
            await ConsumerGroupsAdmin(self._client).describe(self.group)
        except UnknownGroupError:
            return True
        return False

    async def claim(self, topic: RoutedTopic, starts: Mapping[int, int]) -> dict[int, int]:
        """Claim queues of a topic, and return the offset that is stored for each of them. `starts` has for each queue
        the offset that is stored if there is none yet. Raises MirrorRefusedError or LedgerError."""
        by_shard: defaultdict[int, list[int]] = defaultdict(list)
        for queue in starts:
            by_shard[topic.shards[queue]].append(queue)
        found = {}
        for shard, queues in sorted(by_shard.items()):
            request = consumer_group_pb2.ClaimRequest(shard=shard, consumer_group=self.group)
            for queue in queues:
                request.queues.add(topic_id=topic.topic_id, queue=queue, epoch=0, start_offset=starts[queue])
            response = await self._client.call(shard, partial(_claim, request))
            for queue, progress in zip(queues, response.queues, strict=True):
                if progress.HasField("error"):
                    raise self._refusal(from_wire(progress.error))
                offset = found[queue] = progress.offset
                self._claimed[topic.topic_id, queue] = _Claimed(shard, progress.epoch, progress.resets, offset, offset)
        return found

    def copied(self, topic_id: int, queue: int, offset: int) -> None:
        """Note that all messages of a queue before `offset` are copied."""
        claimed = self._claimed.get((topic_id, queue))
        if claimed is not None:
            claimed.wanted = max(claimed.wanted, offset)

    def forget(self, topic_id: int, queue: int) -> None:
        """Forget a queue of a topic that was deleted."""
        self._claimed.pop((topic_id, queue), None)

    async def store(self) -> None:
        """Store what was noted, in all shards at once. Raises MirrorRefusedError if another mirror has the same name,
        and LedgerError if a shard does not answer."""
        by_shard: defaultdict[int, dict[tuple[int, int], _Claimed]] = defaultdict(dict)
        for key, claimed in self._claimed.items():
            if claimed.wanted > claimed.stored:
                by_shard[claimed.shard][key] = claimed
        await all_done(*(self._store_in(shard, queues) for shard, queues in sorted(by_shard.items())))

    async def _store_in(self, shard: int, queues: Mapping[tuple[int, int], _Claimed]) -> None:
        request = consumer_group_pb2.AcknowledgeRequest(shard=shard, consumer_group=self.group)
        for (topic_id, queue), claimed in queues.items():
            request.queues.add(
                topic_id=topic_id, queue=queue, epoch=claimed.epoch, offset=claimed.wanted, resets=claimed.resets
            )
        response = await self._client.call(shard, partial(_acknowledge, request))
        for (key, claimed), asked, progress in zip(queues.items(), request.queues, response.queues, strict=True):
            if not progress.HasField("error"):
                claimed.stored = asked.offset
                continue
            error = from_wire(progress.error)
            # This mirror itself may have claimed the queue anew meanwhile, with a higher epoch, or may have forgotten
            # the queue. Other errors: for example the topic was deleted.
            if isinstance(error, ConsumerFencedError) and self._claimed.get(key) is claimed:
                raise self._refusal(error)

    def _refusal(self, error: LedgerError) -> LedgerError:
        if not isinstance(error, ConsumerFencedError):
            return error
        return MirrorRefusedError(
            f"Another mirror runs as {self.group!r}, or the progress of that name was reset: run one mirror of a name, "
            "and give each target a --name of its own."
        )


async def _claim(
    request: consumer_group_pb2.ClaimRequest, stub: NodeStub, seconds: float
) -> consumer_group_pb2.ClaimResponse:
    response: consumer_group_pb2.ClaimResponse = await stub.Claim(request, timeout=seconds)
    return response


async def _acknowledge(
    request: consumer_group_pb2.AcknowledgeRequest, stub: NodeStub, seconds: float
) -> consumer_group_pb2.AcknowledgeResponse:
    response: consumer_group_pb2.AcknowledgeResponse = await stub.Acknowledge(request, timeout=seconds)
    return response
