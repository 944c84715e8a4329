"""Copies waiting messages to the end of the log, so that the log start can move past their entries.

    | %TIMED: a  b  c |  ...  |  %TIMED: d  |  ...  | copies of a and c |     b was delivered
    log start                 new log start

A copy keeps the identity and the delivery time of its message, and the timed index of every replica then finds the
message in the copy. Messages that are being delivered or cancelled are not copied; `make` waits until they are settled.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from ledger.batch import copying_batch
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import Committed
from ledger.broker.timed.applied_timed import cursor_of
from ledger.broker.timed.turn import MOST_MESSAGES, timed_queue, waiting_of
from ledger.broker.timed.waiting_batches import TargetMessages, WaitingBatches, first_that_fit, fitting_batches
from ledger.errors import BusyError, InvalidArgumentError, StorageFailedError
from ledger.state.commands import SettleTimed
from store import TimedKey

log = logging.getLogger("ledgermq.broker.timed")

# The time between two looks at messages that are being delivered or cancelled.
_WAIT_S = 0.05
# After so many looks without progress the log start stays for now.
_MOST_WAITS = 100


class WaitingCopies:
    """Copies the waiting messages of one shard, on the shard's leader."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica

    def is_clear(self, position: int) -> bool:
        """Return True if no message waits in the entries before `position`, and no late message has to be looked for
        there. The log may begin at `position`."""
        return not self._has_waiting(position) and self._seen_through(position)

    async def make(self, position: int) -> None:
        """Copy the messages that wait in the entries before `position`. After that `is_clear` is true. Raises BusyError
        if messages there are overdue, StorageFailedError if a message cannot be read, or another LedgerError."""
        copied = waits = 0
        while not self.is_clear(position):
            count = await self._copy_some(position) if self._has_waiting(position) else await self._see_all()
            copied, waits = copied + count, 0 if count else waits + 1
            if waits > _MOST_WAITS:
                raise BusyError("overdue messages wait before the new log start: try again when they are delivered")
            if not count:
                await asyncio.sleep(_WAIT_S)
        if copied:
            log.info("shard %d: %d waiting messages were copied to the end of the log", self._replica.shard, copied)

    def _has_waiting(self, position: int) -> bool:
        state = self._replica.state
        return len(self._replica.timed.index.before(position, 1, cursor_of(state), state.timed.open.keys())) > 0

    def _seen_through(self, position: int) -> bool:
        """Return True if the cursor has seen all messages of `%TIMED` before `position`."""
        replica = self._replica
        place = timed_queue(replica)
        if place is None:
            return True
        queue, seen = replica.queues.get(*place), replica.state.timed.cursor.seen
        if seen >= queue.end_offset:
            return True
        first = queue.read(max(seen, queue.first_offset), 1)
        return int(first["position"][0]) >= position

    async def _copy_some(self, position: int) -> int:
        """Append copies of the first messages, and return how many there are after the commit."""
        replica = self._replica
        state = replica.state
        found = replica.timed.index.before(position, MOST_MESSAGES, cursor_of(state), state.timed.open.keys())
        units = waiting_of(replica, first_that_fit(replica.log, found))
        targets, unreadable = WaitingBatches(replica.log).by_target(units)
        if unreadable:
            raise StorageFailedError(
                f"{len(unreadable)} waiting messages before the new log start cannot be read on this node: repair the "
                "log, or hand leadership to another node"
            )
        place = timed_queue(replica)
        assert place is not None, "messages wait in it"
        copied: list[asyncio.Future[Committed]] = []
        for target in targets:
            make = partial(_copying_batch, *place)
            batches = fitting_batches(target, replica.next_offset(*place), make, replica.fits)
            copied += [replica.copy(batch) for _, batch in batches]
        await asyncio.gather(*copied)
        return len(units)

    async def _see_all(self) -> int:
        """Let the cursor see all messages of `%TIMED`, if none of them is late. Return 1 if it does."""
        replica = self._replica
        through_ms, through_identity, _ = replica.state.timed.cursor
        through = TimedKey(through_ms, through_identity)
        state = replica.state
        if len(replica.timed.index.due(through, 1, cursor_of(state), state.timed.open.keys())):
            return 0
        try:
            await replica.propose_checked(SettleTimed(through_ms, through_identity, state.timed_end()))
        except InvalidArgumentError:
            return 0  # a turn of delivery has moved the cursor meanwhile
        return 1


def _copying_batch(topic_id: int, queue: int, target: TargetMessages, first_sequence: int) -> bytes:
    return copying_batch(
        target.messages,
        topic_id=topic_id,
        queue=queue,
        first_sequence=first_sequence,
        target_topic_id=target.topic_id,
        target_queue=target.queue,
        codec=target.codec,
    )
