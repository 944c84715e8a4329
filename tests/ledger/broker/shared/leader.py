"""A leader of shard 0 that leases messages, without other voters and without a network. Its clocks stand still until
the test moves them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ledger.batch import HEADER_BYTES, Batch, BatchHeader, encode
from ledger.batch.header import seal
from ledger.broker.applied_state import AppliedState
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.membership import Membership
from ledger.broker.replicas import Replicas
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.broker.shared.lease_turns import LeaseTurns
from ledger.broker.shared.members import Answer, ChangeRequest, Receive, SharedMember, SharedTopic
from ledger.codec import Codec
from ledger.filters.parse import parse_filter
from ledger.hashing import tag_hash
from ledger.retries import dead_letter_topic
from ledger.state import TopicQueueId
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, CreateConsumerGroup, CreateTopic, RaiseFeatureLevel
from ledger.state.feature_levels import SHARED_GROUPS
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import ChangeKind, LeaseChange
from store import CommitLog, ConsumeQueues, EntryDraft, EntryKind, Header, KeyIndex, LogSettings, MemoryDisk, TimedIndex
from tests.ledger.broker.test_broker_membership import ME
from tests.ledger.broker.timed.leader import Meter

ORDERS, DEAD = 1, 2
QUEUE = TopicQueueId(ORDERS, 0)
NOW_MS = 1_800_000_000_000
GROUP = "work"


class LeasingDriver:
    """Stands for the Raft driver of a leader. Every proposal is committed in the next turn of the event loop."""

    def __init__(self, leader: LeasingLeader) -> None:
        self._leader = leader
        self.leads = True
        self.failure = None
        self.raft = SimpleNamespace(leader=2, term=1, divergences={})

    def check_room(self, size: int) -> None:
        """Accept everything."""

    def now_ms(self) -> int:
        return self._leader.now_ms

    @property
    def applied(self) -> int:
        return self._leader.applied

    def propose(self, proposal: Any) -> None:
        header = self._leader.log.append([proposal.draft], term=1, commit=0, now_ms=self._leader.now_ms)[0]
        proposal.appended(header)
        asyncio.get_running_loop().call_soon(self._commit, proposal)

    def _commit(self, proposal: Any) -> None:
        self._leader.apply_all()
        proposal.settled(True)


class LeasingLeader:
    """A leader with the topic `orders`, and the shared group `work`."""

    def __init__(self, *, by_key: bool = False, max_attempts: int = 16, queues: int = 2) -> None:
        self.disk = disk = MemoryDisk()
        self.now_ms = NOW_MS
        self.steady_ms = 5_000.0
        self.applied = 0
        self.log = CommitLog.open(disk, Path("/log"), LogSettings(segment_bytes=16 << 20))
        meter: Any = Meter()
        self.replica = BrokerReplica(
            shard=0,
            applied=AppliedState(
                self.log,
                ConsumeQueues(disk, Path("/queues")),
                KeyIndex(disk, Path("/keys")),
                TimedIndex(disk, Path("/timed")),
            ),
            membership=Membership(2, ME, {}),
            max_message_bytes=1 << 20,
            max_entry_bytes=2 << 20,
            meter=meter,
            monotonic_s=lambda: self.steady_ms / 1000,
        )
        driver: Any = LeasingDriver(self)
        self.driver = driver
        self.replica.attach(driver)
        replicas = Replicas()
        replicas.add(self.replica)
        self.lookup = GroupLookup(replicas)
        self.turns = LeaseTurns(self.replica, lambda: self.steady_ms)
        self._members = 0
        for command in (
            RaiseFeatureLevel(SHARED_GROUPS),
            CreateTopic("orders", queues),
            CreateTopic(dead_letter_topic(GROUP), 1),
            CreateConsumerGroup(GroupMode(GROUP, is_shared=True, by_key=by_key, max_attempts=max_attempts)),
        ):
            self.append(command)
        self.replica.leading(1)

    def append(self, entry: Command | EntryDraft) -> None:
        draft = entry if isinstance(entry, EntryDraft) else EntryDraft(EntryKind.COMMAND, encode_command(entry))
        self.log.append([draft], term=1, commit=0, now_ms=self.now_ms)
        self.apply_all()

    def spoil(self, queue: TopicQueueId, offset: int) -> None:
        """Change one bit at the begin of the entry of this message on the disk, or change it back."""
        (first,) = self.disk.list(Path("/log"))
        self.disk.flip(Path("/log") / first, int(self.replica.queues.get(*queue).read(offset, 1)["position"][0]))

    def entries(self) -> Iterator[tuple[Header, memoryview]]:
        """Yield the applied batches."""
        for index in range(1, self.applied + 1):
            header, body = self.log.entry(index)
            if header.kind is EntryKind.BATCH:
                yield header, body

    def apply_all(self) -> None:
        while self.applied < self.log.last_index:
            self.applied += 1
            self.replica.apply(*self.log.entry(self.applied))

    def send(
        self,
        count: int,
        *,
        keys: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes]]] | None = None,
        queue: int = 0,
        size: int = 0,
        codec: Codec = Codec.NONE,
    ) -> None:
        """Append one batch. The value of a message is its offset, and then zeros up to `size` bytes."""
        offset = self.replica.state.next_offset(ORDERS, queue)
        body = encode(
            [(b"%d" % (offset + number)).ljust(size, b"\0") for number in range(count)],
            topic_id=ORDERS, queue=queue, producer_id=offset + 1, epoch=0, first_sequence=0, base_timestamp_ms=NOW_MS,
            keys=None if keys is None else [None if key is None else key.encode() for key in keys],
            tags=tags, headers=headers, codec=codec,
        )  # fmt: skip
        self.append(EntryDraft(EntryKind.BATCH, body, ORDERS, queue, offset, count))

    def send_nonsense(self, count: int) -> None:
        """Append a batch whose checksum is right, and whose payload cannot be decoded."""
        offset = self.replica.state.next_offset(ORDERS, 0)
        body = encode(
            [b"x" * 8] * count, topic_id=ORDERS, queue=0, producer_id=offset + 1, epoch=0, first_sequence=0,
            base_timestamp_ms=NOW_MS,
        )  # fmt: skip
        header = BatchHeader.parse(body)
        nonsense = seal(header.pack(), bytes(len(body) - HEADER_BYTES - 1) + b"\xff")
        self.append(EntryDraft(EntryKind.BATCH, nonsense, ORDERS, 0, offset, count))

    def pass_ms(self, passed_ms: int) -> None:
        """Let the wall clock and the steady clock advance."""
        self.now_ms += passed_ms
        self.steady_ms += passed_ms

    def fail_over(self) -> None:
        """Let another leader follow, which has all entries of the log, and no memory of members."""
        self.apply_all()
        self.replica._projected = None
        self.turns = LeaseTurns(self.replica, lambda: self.steady_ms)
        self.driver.raft.term += 1
        self.replica.leading(self.driver.raft.term)

    def member(
        self,
        *tags: str,
        where: str | None = None,
        only_changes: bool = False,
        consumer_group: str = GROUP,
        start_offset: int = 0,
        name: str = "",
    ) -> LeasingMember:
        """Let a member join; without `name`, it has a name of its own."""
        self._members += 1
        hashes = frozenset(map(tag_hash, tags)) or None
        topic = SharedTopic(ORDERS, hashes, start_offset, None if where is None else parse_filter(where))
        member = SharedMember(consumer_group, name or f"m{self._members}", {ORDERS: topic}, self.lookup, only_changes)
        self.turns.join(member)
        return LeasingMember(self, member)

    async def turn(self, count: int = 1) -> None:
        for _ in range(count):
            await self.turns._turn()


class LeasingMember:
    """A member with one stream to the leader."""

    def __init__(self, leader: LeasingLeader, member: SharedMember) -> None:
        self._leader = leader
        self.member = member
        self._number = 0

    def ask(
        self,
        count: int = 32,
        *,
        lease_ms: int = 10_000,
        attempt_id: int = 0,
        repeated: bool = False,
        max_bytes: int = 1 << 20,
        wait_s: float = 1000.0,
    ) -> int:
        """Send a receive, and return its number."""
        self._number += 1
        now_s = asyncio.get_running_loop().time()
        receive = Receive(
            self._number, count, max_bytes, lease_ms, now_s, now_s + wait_s, attempt_id or self._number, repeated
        )
        self._leader.turns.receive(self.member, receive)
        return self._number

    def answers(self) -> list[Answer]:
        """Return the answers that have arrived since the last call."""
        found = list(self.member.outbox)
        self.member.outbox.clear()
        return found

    async def receive(self, count: int = 32, **options: Any) -> list[Got]:
        """Send a receive, take turns, and return the messages."""
        self.ask(count, **options)
        await self._leader.turn(2)
        return [got for answer in self.answers() for got in messages_of(answer)]

    async def change(self, kind: ChangeKind, *messages: Got, duration_ms: int = 0) -> list[int]:
        """Change the leases of messages, and return what each change did."""
        changed = (await self.changed(kind, *messages, duration_ms=duration_ms)).changed
        assert changed is not None
        return changed

    async def changed(
        self, kind: ChangeKind, *messages: Got, duration_ms: int = 0, in_time: Collection[int] = ()
    ) -> Answer:
        """Do the same, and return the whole answer. `in_time` has the places of the messages whose changes count only
        while their leases last."""
        self._number += 1
        changes = [
            (got.queue, LeaseChange(kind, got.offset, 1, got.lease, got.resets, duration_ms)) for got in messages
        ]
        self._leader.turns.change(ChangeRequest(self.member, self._number, changes, in_time))
        await self._leader.turn()
        (answer,) = [answer for answer in self.answers() if answer.changed is not None]
        return answer

    async def ack(self, *messages: Got) -> list[int]:
        return await self.change(ChangeKind.ACKNOWLEDGE, *messages)


class Got(SimpleNamespace):
    """A message that a member got: queue, offset, value, key, lease, resets and attempt."""

    queue: TopicQueueId
    offset: int
    value: bytes
    key: bytes | None
    lease: int
    resets: int
    attempt: int


def messages_of(answer: Answer) -> list[Got]:
    """Return the messages of an answer."""
    found = []
    for leased in answer.received or ():
        batch = Batch(leased.body)
        offsets = batch.offsets_from(leased.base_offset).tolist()
        for offset, value, key, attempt in zip(offsets, batch.values(), batch.keys(), leased.attempts, strict=True):
            found.append(
                Got(
                    queue=leased.queue, offset=offset, value=value, key=key, lease=leased.lease, resets=leased.resets,
                    attempt=attempt,
                )
            )  # fmt: skip
    return found
