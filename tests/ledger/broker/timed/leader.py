"""A leader of shard 0 without other voters and without a network. The test says when a proposal is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from ledger.batch import Batch, TimedColumn, encode
from ledger.broker.applied_state import AppliedState
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.membership import Membership
from ledger.broker.timed.delivery import TimedDelivery
from ledger.codec import Codec
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, CreateTopic, RaiseFeatureLevel
from ledger.state.feature_levels import TIMED
from ledger.timed import TIMED_TOPIC
from store import CommitLog, ConsumeQueues, EntryDraft, EntryKind, Header, KeyIndex, LogSettings, MemoryDisk, TimedIndex
from tests.ledger.broker.test_broker_membership import ME

T = TypeVar("T")

ORDERS, WAITING = 1, 2
NOW_MS = 1_800_000_000_000


class Driver:
    """Stands for the Raft driver of a leader. Proposals stay in `proposed` until `Leader.commit`."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.leads = True
        self.failure = None
        self.raft = SimpleNamespace(leader=2, term=1, divergences={})
        self.now: int | None = NOW_MS
        # The append time of new entries.
        self.append_time_ms = NOW_MS
        self.proposed: list[tuple[Any, Header]] = []

    def check_room(self, size: int) -> None:
        """Accept everything."""

    def now_ms(self) -> int:
        return self.append_time_ms

    def passed_ms(self) -> int | None:
        return self.now

    def propose(self, proposal: Any) -> None:
        header = self.log.append([proposal.draft], term=1, commit=0, now_ms=self.append_time_ms)[0]
        proposal.appended(header)
        self.proposed.append((proposal, header))


class Meter:
    """Counts nothing."""

    def produced(self, *_: object) -> None: ...

    def delivered(self, *_: object) -> None: ...

    def cancelled(self, *_: object) -> None: ...

    def refused(self, *_: object) -> None: ...


class Leader:
    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.log = CommitLog.open(self.disk, Path("/log"), LogSettings(segment_bytes=1 << 20))
        self.index = TimedIndex(self.disk, Path("/timed"))
        meter: Any = Meter()
        self.replica = BrokerReplica(
            shard=0,
            applied=AppliedState(
                self.log,
                ConsumeQueues(self.disk, Path("/queues")),
                KeyIndex(self.disk, Path("/keys")),
                self.index,
            ),
            membership=Membership(2, ME, {}),
            max_message_bytes=1 << 20,
            max_entry_bytes=2 << 20,
            meter=meter,
        )
        self.driver = Driver(self.log)
        driver: Any = self.driver
        self.replica.attach(driver)
        self.applied = 0
        for command in (RaiseFeatureLevel(TIMED), CreateTopic("orders", 2), CreateTopic(TIMED_TOPIC, 1)):
            self.append(command)
        self.replica.leading(1)

    # -- what others do

    def append(self, entry: Command | EntryDraft) -> Header:
        """Append an entry, and apply all entries."""
        draft = entry if isinstance(entry, EntryDraft) else EntryDraft(EntryKind.COMMAND, encode_command(entry))
        header = self.log.append([draft], term=1, commit=0, now_ms=self.driver.append_time_ms)[0]
        self.commit()
        return header

    def send(
        self, times_ms: Sequence[int], queue: int = 0, values: Sequence[bytes] = (), codec: Codec = Codec.NONE
    ) -> Header:
        """Append a timed batch. The value of a message is its identity, unless `values` are given."""
        offset = self.replica.state.next_offset(WAITING, 0)
        body = encode(
            values or [b"%d" % (offset + number) for number in range(len(times_ms))],
            topic_id=WAITING, queue=0, producer_id=offset + 1, epoch=0, first_sequence=0, base_timestamp_ms=NOW_MS,
            timed=TimedColumn(ORDERS, queue, np.array(times_ms, np.int64)), codec=codec,
        )  # fmt: skip
        return self.append(EntryDraft(EntryKind.BATCH, body, WAITING, 0, offset, len(times_ms)))

    def commit(self, count: int | None = None) -> None:
        """Commit and apply the first `count` proposals and all entries before them; None: all entries."""
        mine = self.driver.proposed[:count]
        last = self.log.last_index if count is None else mine[-1][1].index
        while self.applied < last:
            self.applied += 1
            self.replica.apply(*self.log.entry(self.applied))
        del self.driver.proposed[: len(mine)]
        for proposal, _ in mine:
            proposal.settled(True)

    def flip(self, position: int) -> None:
        """Change one bit of the log on the disk, or change it back."""
        first, *others = self.disk.list(Path("/log"))
        assert not others, "the log has one segment"
        self.disk.flip(Path("/log") / first, position)

    def fail_over(self) -> None:
        """Let another leader follow that has all entries of the log."""
        self.commit()
        self.replica._projected = None
        self.replica.leading(2)

    # -- what the leader does

    async def turns(self, delivery: TimedDelivery, now_ms: int) -> int:
        """Let the leader deliver what is due, and return how many turns it needed."""
        self.driver.now = now_ms
        for turn in range(1000):
            work = asyncio.ensure_future(delivery._look())
            await asyncio.sleep(0)
            if not self.driver.proposed:
                await work
                return turn
            self.commit()
            await work
        raise AssertionError("the leader delivers for ever")

    async def carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`, and commit what it proposes."""
        task = asyncio.ensure_future(work)
        for _ in range(1000):
            await asyncio.sleep(0)
            if task.done():
                return await task
            self.commit()
        raise AssertionError("the work does not end")

    def delivered(self, queue: int = 0) -> list[bytes]:
        """Return the values of the messages in a queue of `orders`."""
        found = []
        for index in range(1, self.applied + 1):
            header, body = self.log.reading.entry(index)
            if (header.kind, header.topic_id, header.queue) == (EntryKind.BATCH, ORDERS, queue):
                found += Batch(body).values()
        return found
