"""Delivers waiting messages, on the leader of their shard.

A turn appends one firing batch for each target queue, and then the entry `SettleTimed`, which moves the cursor of the
shard. All entries of a turn are proposed together. The next turn begins when the last of them is committed:

    due messages ──> firing batch, queue 0 ┐
                 ──> firing batch, queue 3 ├──> all committed ──> next turn
                     SettleTimed           ┘

If the leader fails within a turn, the state of the shard has the messages that were delivered (`State.timed.open`), and
the next leader delivers the others. A message is due when the clocks of a majority of voters have passed its time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.timed.applied_timed import cursor_of
from ledger.broker.timed.turn import Turn, moves_on, next_turn
from ledger.broker.timed.waiting_batches import TargetMessages, WaitingBatches, fitting_batches
from ledger.errors import (
    CorruptBatchError,
    InvalidArgumentError,
    LedgerError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.state.commands import SettleTimed
from ledger.timed import MAX_IDENTITY
from store import StoreError, TimedKey

log = logging.getLogger("ledgermq.broker.timed")

# The time between two turns, if the first has delivered all that was due.
PAUSE_S = 0.01
# A node that cannot deliver now, for example because its disk is full, tries again after this time.
RETRY_S = 1.0
# Messages that could not be read are read again after this time.
READ_AGAIN_S = 5.0
# At most so many messages that cannot be read are passed over.
MOST_UNREADABLE = 4096
# The longest sleep. Wall clocks may leap while a leader sleeps.
LONGEST_SLEEP_S = 1.0


class TimedDelivery:
    """Delivers the waiting messages of one shard while this node leads the shard."""

    def __init__(self, replica: BrokerReplica, monotonic_s: Callable[[], float]) -> None:
        """`monotonic_s` is a clock in seconds."""
        self._replica = replica
        self._monotonic_s = monotonic_s
        self._news = asyncio.Event()
        replica.timed.on_news = self._news.set
        self._batches = WaitingBatches(replica.log)
        # Identity and delivery time of messages that this node could not read, and when they are read again.
        self._unreadable: dict[int, int] = {}
        self._read_again_s = 0.0
        # How many messages this leader has delivered, and how many it has dropped because their queue was deleted.
        self.delivered = 0
        self.dropped = 0

    @property
    def unreadable(self) -> int:
        """How many due messages this node cannot read now."""
        return len(self._unreadable)

    async def run(self) -> None:
        """Deliver messages until the task is cancelled."""
        while True:
            self._news.clear()
            try:
                pause_s = await self._look()
            except (LedgerError, StoreError) as error:
                log.info("shard %d: waiting messages cannot be delivered now: %s", self._replica.shard, error)
                pause_s = RETRY_S
            await self._sleep(pause_s)

    async def _look(self) -> float | None:
        """Deliver the messages that are due, in one turn. Return the time in seconds until the next look, and None if
        only news can bring a message that is due."""
        replica = self._replica
        if not replica.knows_the_end:
            self._batches.clear()
            self._unreadable.clear()
            replica.timed.index.release()
            return None
        now_ms = replica.driver.passed_ms()
        if now_ms is None:
            return PAUSE_S
        if self._unreadable and self._monotonic_s() >= self._read_again_s:
            self._unreadable.clear()
        if len(self._unreadable) >= MOST_UNREADABLE:
            return RETRY_S
        turn = next_turn(replica, now_ms, self._unreadable)
        if moves_on(replica, turn):
            await self._deliver(turn)
            return PAUSE_S if turn.is_last else 0.0
        if self._unreadable:
            return RETRY_S
        next_ms = replica.timed.index.next_ms(TimedKey(now_ms, MAX_IDENTITY), cursor_of(replica.state))
        return None if next_ms is None else max(PAUSE_S, (next_ms - now_ms) / 1000)

    async def _deliver(self, turn: Turn) -> None:
        """Append the entries of a turn, and return when they are committed. Raises LedgerError."""
        replica = self._replica
        targets, unreadable = self._batches.by_target(turn.units)
        batches: list[tuple[TargetMessages, bytes]] = []
        undelivered: list[int] = []
        for target in targets:
            if not self._exists(target):
                undelivered += target.identities
            else:
                batches += self._batches_for(target, unreadable)
        if unreadable:
            self._pass_over(unreadable)
            return  # the next turn leaves them out
        entries: list[asyncio.Future[Any]] = [replica.deliver(batch, target.identities) for target, batch in batches]
        entries.append(replica.propose_checked(SettleTimed(*turn.cursor, settled=tuple(sorted(undelivered)))))
        await asyncio.gather(*entries)
        self.delivered += len(turn.units) - len(undelivered)
        self.dropped += len(undelivered)

    def _batches_for(self, target: TargetMessages, unreadable: dict[int, int]) -> list[tuple[TargetMessages, bytes]]:
        """Return the firing batches of these messages: one, unless it is too large for an entry. If there can be none,
        return none, and add the messages to `unreadable` that are the reason."""
        try:
            return self._firing_batches(target, self._replica.next_offset(target.topic_id, target.queue))
        except (InvalidArgumentError, CorruptBatchError) as error:
            log.error("shard %d: waiting messages cannot be delivered: %s", self._replica.shard, error)
        for one in target.alone():
            try:
                self._firing_batches(one, 0)
            except (InvalidArgumentError, CorruptBatchError):
                unreadable[one.identities[0]] = int(one.messages.times_ms[0])
        return []

    def _firing_batches(self, target: TargetMessages, first_sequence: int) -> list[tuple[TargetMessages, bytes]]:
        return fitting_batches(target, first_sequence, TargetMessages.firing_batch, self._replica.fits)

    def _exists(self, target: TargetMessages) -> bool:
        try:
            self._replica.check_leads(0).require(target.topic_id, target.queue)
        except (UnknownTopicError, UnknownQueueError):
            return False
        return True

    def _pass_over(self, unreadable: dict[int, int]) -> None:
        if not self._unreadable:
            self._read_again_s = self._monotonic_s() + READ_AGAIN_S
        for identity, time_ms in unreadable.items():
            if len(self._unreadable) < MOST_UNREADABLE:
                self._unreadable[identity] = time_ms

    async def _sleep(self, pause_s: float | None) -> None:
        """Sleep for `pause_s` seconds, or until shortly after news. The news of many small batches lead to one look."""
        if pause_s is not None and pause_s <= PAUSE_S:
            await asyncio.sleep(pause_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(None if pause_s is None else min(pause_s, LONGEST_SLEEP_S)):
                await self._news.wait()
                await asyncio.sleep(PAUSE_S)
