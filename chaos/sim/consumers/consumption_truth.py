"""Computes the progress of consumer groups from the log, independently of the nodes. The simulator reads each entry of
the log once, in log order.

    claim, acknowledge, reset    ──> a simple copy (twin) of the progress that nodes keep
    a batch that was moved       ──> where a message is now

    the state of a node          must equal the twin: it never goes back, past the end, or to an older epoch
    the effect of an entry       must be right: only finished messages are acknowledged, and no message is in two places

When a node is the first to apply an entry, the simulator checks the state of this node. This way, a mistake is found
at the entry that caused it. After every COMPARED_EVERY entries, the simulator compares the progress on all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import xxhash

from chaos.sim.consumers.consumption_shares import SharesSeen
from chaos.sim.consumers.coordinator_truth import CoordinatorTruth
from chaos.sim.stack.shared_truth import GROUP as SHARED_GROUP
from chaos.sim.stack.workload_history import MessagePlace, name_of
from ledger.batch import Batch
from ledger.consumer_groups import is_broadcast
from ledger.retries import DEAD_LETTERS, consumer_group_of, origin, place_before
from ledger.state import State
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.progress_table import ConsumedQueue, QueueProgress
from ledger.v1 import command_pb2
from store import EntryKind, Header

Fail = Callable[[str, str], None]
# The states of the nodes are compared each time the index is a multiple of this number.
COMPARED_EVERY = 16
_OF_PROGRESS = ("claim_queues", "acknowledge_offsets", "reset_offsets", "renew_queues")


class StoredMessage(NamedTuple):
    """A message in a queue."""

    name: bytes
    tag: str | None
    # The place where its producer put it.
    origin: MessagePlace


@dataclass(slots=True)
class Stand:
    """The simulator's own copy of the progress of one consumer group in one queue, and facts from the log that the
    real progress does not store."""

    epoch: int
    offset: int
    resets: int = 0
    settled: set[int] = field(default_factory=set)
    # Number of resets, and of renewed epochs by an operator.
    era: int = 0
    # Offset of a moved message -> the era in which it was moved last.
    moved: dict[int, int] = field(default_factory=dict)
    # The offset at which the consumer group began.
    began: int = 0
    # Offsets that a forward reset skipped.
    skipped: set[int] = field(default_factory=set)

    def advance(self, offset: int) -> None:
        self.offset = max(self.offset, offset)
        while self.offset in self.settled:
            self.offset += 1
        self.settled = {each for each in self.settled if each >= self.offset}


class ConsumptionTruth:
    """Computes the progress of all consumer groups of a cluster from the committed entries of its logs. `applied`
    must be called for each entry that any node applies."""

    def __init__(self, fail: Fail) -> None:
        self.topic_ids: dict[str, int] = {}
        self.topics: dict[int, str] = {}
        self.stands: dict[ConsumedQueue, Stand] = {}
        # Shares by coordinating shard.
        self.shares: dict[int, SharesSeen] = {}
        self.coordinators = CoordinatorTruth(fail)
        self.counts: Counter[str] = Counter()
        # Whether a group need not consume a message: the group has finished it, filters it out, or it was trimmed.
        self.may_pass: Callable[[ConsumedQueue, MessagePlace, StoredMessage], bool] = lambda key, place, record: True
        # Whether the owner with this epoch has asked to move the message since the last reset.
        self.may_move: Callable[[ConsumedQueue, int, int, int], bool] = lambda key, offset, epoch, resets: True
        self._fail = fail
        # Shard -> index of the last entry that was followed.
        self._indexes: dict[int, int] = {}
        # (shard, index) -> digest of the progress after that entry.
        self._digests: dict[tuple[int, int], int] = {}
        self._records: dict[tuple[int, int], list[StoredMessage]] = {}

    def records(self, topic: str, queue: int) -> list[StoredMessage]:
        """Return all messages that were ever in the queue, by offset."""
        return self._records.get((self.topic_ids.get(topic, 0), queue), [])

    def queues(self, topic: str) -> list[int]:
        """Return the queues of the topic that have had messages."""
        return sorted(queue for topic_id, queue in self._records if topic_id == self.topic_ids.get(topic))

    def stand(self, consumer_group: str, topic: str, queue: int) -> Stand | None:
        return self.stands.get(ConsumedQueue(consumer_group, self.topic_ids.get(topic, 0), queue))

    def ended(self, consumer_group: str, queue: tuple[int, int], epoch: int) -> str:
        """Return the kind of the command that ended the claim of this queue with this epoch. Return "" if no
        command has ended the ownership."""
        key = (consumer_group, TopicQueueId(*queue), epoch)
        return next((shares.ended[key] for shares in self.shares.values() if key in shares.ended), "")

    # -- entries

    def applied(self, shard: int, header: Header, body: bytes, state: State) -> None:
        """Update the expected progress by an entry that a node of this shard has applied, and check that the node's
        progress is equal to the expected progress. `state` is the state of the node after it has applied the entry."""
        if header.index % COMPARED_EVERY == 0:
            self._compare_nodes(shard, header.index, state)
        if header.index <= self._indexes.get(shard, 0):
            return
        self._indexes[shard] = header.index
        if header.kind is EntryKind.BATCH:
            self._batch(header, body, state)
        elif header.kind is EntryKind.COMMAND:
            self._command(shard, header.index, command_pb2.Command.FromString(body), state)

    def _batch(self, header: Header, body: bytes, state: State) -> None:
        topic = state.topics.get(header.topic_id)
        assert topic is not None, "the state should have refused a batch of an unknown topic"
        self.topic_ids[topic.name], self.topics[topic.topic_id] = topic.topic_id, topic.name
        batch, records = Batch(body), self._records.setdefault((header.topic_id, header.queue), [])
        for value, tag, headers in zip(batch.values(), batch.tags(), batch.headers(), strict=True):
            here = MessagePlace(topic.name, header.queue, len(records))
            first = origin(headers)
            records.append(StoredMessage(name_of(value), tag, here if first is None else _place(first)))
            consumer_group, before = consumer_group_of(topic.name), place_before(headers)
            if consumer_group not in (None, SHARED_GROUP) and before is not None:
                self._moved(consumer_group, before, here, records[-1], state)

    def _command(self, shard: int, index: int, command: command_pb2.Command, state: State) -> None:
        shares = self.shares.setdefault(shard, SharesSeen(self._fail))
        shares.applied(command, index, state.consumption.groups)
        self.coordinators.applied(shard, index, command, state)
        kind = command.WhichOneof("command")
        if kind in _OF_PROGRESS and is_broadcast(getattr(command, kind).consumer_group):
            return  # that of a mirror, which claims its queues without a coordinator
        match kind:
            case "claim_queues":
                for claim in command.claim_queues.queues:
                    self._claim(ConsumedQueue(command.claim_queues.consumer_group, claim.topic_id, claim.queue), claim)
            case "acknowledge_offsets":
                name = command.acknowledge_offsets.consumer_group
                for each in command.acknowledge_offsets.offsets:
                    key = ConsumedQueue(name, each.topic_id, each.queue)
                    self._acknowledge(key, each, state)
            case "reset_offsets":
                for reset in command.reset_offsets.offsets:
                    key = ConsumedQueue(command.reset_offsets.consumer_group, reset.topic_id, reset.queue)
                    self._reset(key, reset.offset, state)
            case "renew_queues":
                for queue in command.renew_queues.queues:
                    key = ConsumedQueue(command.renew_queues.consumer_group, queue.topic_id, queue.queue)
                    if (stand := self.stands.get(key)) is not None:
                        stand.era += 1
                return  # the queue's progress may be in another shard
            case _:
                return
        self._compare(_touched(command), state)

    # -- the effect of entries

    def _claim(self, key: ConsumedQueue, claim: command_pb2.ClaimedQueue) -> None:
        stand = self.stands.get(key)
        if not any((key.consumer_group, (claim.topic_id, claim.queue), claim.epoch) in each for each in self._issued()):
            self._fail("epochs come from the coordinator", f"{self._name(key)} is claimed under epoch {claim.epoch}")
        if stand is None:
            stand = self.stands[key] = Stand(claim.epoch, claim.start_offset, began=claim.start_offset)
        if claim.epoch >= stand.epoch:
            stand.epoch = claim.epoch
            self.counts["claims"] += 1

    def _issued(self) -> list[dict[tuple[str, TopicQueueId, int], str]]:
        return [shares.issued for shares in self.shares.values()]

    def _acknowledge(self, key: ConsumedQueue, told: command_pb2.AcknowledgedOffset, state: State) -> None:
        stand = self.stands.get(key)
        if stand is None or not stand.epoch or (stand.epoch, stand.resets) != (told.epoch, told.resets):
            self.counts["fenced"] += 1
        elif told.offset <= state.next_offset(key.topic_id, key.queue):
            self._check_finished(key, stand.offset, told.offset, stand.settled)
            stand.advance(told.offset)

    def _check_finished(self, key: ConsumedQueue, first: int, end: int, settled: set[int]) -> None:
        records, topic = self._records.get((key.topic_id, key.queue), []), self.topics[key.topic_id]
        for offset in range(first, end):
            place = MessagePlace(topic, key.queue, offset)
            if offset not in settled and not self.may_pass(key, place, records[offset]):
                self._fail(
                    "acknowledged is finished", f"{key.consumer_group} passes {place}, which no member has finished"
                )

    def _reset(self, key: ConsumedQueue, offset: int, state: State) -> None:
        if offset > state.next_offset(key.topic_id, key.queue):
            return  # refused
        stand = self.stands.setdefault(key, Stand(0, 0))
        stand.skipped.update(each for each in range(stand.offset, offset) if each not in stand.settled)
        stand.offset, stand.settled = offset, set()
        stand.resets += 1
        stand.era += 1
        self.counts["offsets_reset"] += 1

    def _moved(
        self, consumer_group: str, before: tuple[int, int, int], here: MessagePlace, record: StoredMessage, state: State
    ) -> None:
        """Check a message that was moved to another topic. The message must have been at the queue and offset that
        its header names, and must not have been settled there."""
        topic_id, queue, offset = before
        key, there = ConsumedQueue(consumer_group, topic_id, queue), self._records.get((topic_id, queue), [])
        stand = self.stands.get(key)
        if stand is None or offset >= len(there) or (there[offset].name, there[offset].origin) != record[::2]:
            self._fail("in exactly one place", f"{here} names {self._name(key)}:{offset} as its source, which is wrong")
            return
        if offset < stand.offset or offset in stand.settled or stand.moved.get(offset) == stand.era:
            self._fail("in exactly one place", f"{self._name(key)}:{offset} is moved to {here} after it was settled")
        if not self.may_move(key, offset, stand.epoch, stand.resets):
            self._fail("moved by its owner", f"{self._name(key)}:{offset} is moved to {here} by an earlier owner")
        stand.moved[offset] = stand.era
        stand.settled.add(offset)
        stand.advance(stand.offset)
        self.counts["dead_letters" if here.topic.startswith(DEAD_LETTERS) else "retries"] += 1
        self._compare([key], state)

    # -- the state of nodes

    def _compare_nodes(self, shard: int, index: int, state: State) -> None:
        """Check that the progress is equal on all nodes after this entry. The check compares every value instead of
        the encoded bytes, so it also covers values that a snapshot omits."""
        digest = xxhash.xxh3_64_intdigest(repr(list(state.consumption.progress)).encode())
        if self._digests.setdefault((shard, index), digest) != digest:
            self._fail("progress is the same on all nodes", f"after entry {index} of shard {shard} the nodes differ")

    def _compare(self, keys: list[ConsumedQueue], state: State) -> None:
        for key in keys:
            self._compare_one(key, self.stands.get(key), state)

    def _compare_one(self, key: ConsumedQueue, stand: Stand | None, state: State) -> None:
        progress = state.consumption.progress.get(key)
        end = state.next_offset(key.topic_id, key.queue)
        if progress is not None and progress.offset > end:
            self._fail("nothing beyond the end", f"{self._name(key)} is at offset {progress.offset} of {end}")
        if stand is None and progress is None:
            return
        if stand is None or progress is None or _twin_of(progress, stand) != stand:
            self._fail("progress is what the log says", f"{self._name(key)} is {progress}, but the log says {stand}")

    def compare(self, state: State, shard: int) -> None:
        """At the end of the run, compare the progress that a node of this shard has with the expected progress."""
        for key, stand in self.stands.items():
            topic = state.topics.get(key.topic_id)
            # A shard does not know queues that were later opened in other shards.
            if topic is not None and key.queue < topic.queues and topic.shards[key.queue] == shard:
                self._compare_one(key, stand, state)

    def _name(self, key: ConsumedQueue) -> str:
        return f"{self.topics.get(key.topic_id, key.topic_id)}:{key.queue} of {key.consumer_group}"


def _twin_of(progress: QueueProgress, stand: Stand) -> Stand:
    """Return a copy of `stand` with the epoch, offset, resets and settled messages of this `QueueProgress`."""
    settled = set(progress.settled)
    return replace(stand, epoch=progress.epoch, offset=progress.offset, resets=progress.resets, settled=settled)


def _place(text: str) -> MessagePlace:
    """Return the topic, queue and offset from which a message was moved. `text` is the header of the moved message
    that contains these three values."""
    topic, queue, offset = text.rsplit(":", 2)
    return MessagePlace(topic, int(queue), int(offset))


def _touched(command: command_pb2.Command) -> list[ConsumedQueue]:
    kind = command.WhichOneof("command")
    wanted = getattr(command, kind)
    queues = wanted.offsets if kind in ("acknowledge_offsets", "reset_offsets") else wanted.queues
    return list(dict.fromkeys(ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue) for each in queues))
