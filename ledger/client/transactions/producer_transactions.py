"""The transactions of one asyncio producer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.producer.producer_batch import Piece
from ledger.client.records import Sent
from ledger.client.transactions.checks import GroupChecks
from ledger.client.transactions.ends import EndPlace, EndSender
from ledger.client.transactions.half_selection import HalfQueueSelection, HalfReceipt, PlacedHalf, prepare
from ledger.client.transactions.records import TransactionChecker
from ledger.consumer_groups import validate_group_name
from ledger.errors import ClosedError, InvalidArgumentError, LedgerError
from ledger.transactions import TransactionId

# Waits for room in the producer's buffer, and then gives the piece to a sequencer.
Enter = Callable[[Piece, Callable[[], None]], Awaitable[None]]


class ProducerTransactions(Generic[Sent]):
    """Sends half batches, ends transactions and answers checks. Implements TransactionPort."""

    def __init__(
        self,
        client: ClusterClient,
        selection: HalfQueueSelection,
        make_piece: Callable[[HalfReceipt, str, OutgoingMessage[Sent]], Piece],
        enter: Enter,
        timeout_ms: float,
    ) -> None:
        """`make_piece(receipt, topic, message)` checks a message, and makes a piece of it."""
        self._client = client
        self._selection = selection
        self._make_piece = make_piece
        self._enter = enter
        self._ends = EndSender(client, timeout_ms)
        # By producer group: the request for its topics.
        self._prepared: dict[str, asyncio.Task[None]] = {}
        self._checks: dict[str, GroupChecks] = {}
        # Rollbacks for which no program waits. A dict, because a set has no order.
        self._finishing: dict[asyncio.Task[None], None] = {}

    def check(self, group: str, checker: TransactionChecker) -> None:
        """Answer the checks of this group with `checker` from now on."""
        self._client.check_open()
        validate_group_name(group)
        if not callable(checker):
            raise InvalidArgumentError("A checker must be a function or a coroutine function.")
        known = self._checks.get(group)
        if known is None:
            self._checks[group] = GroupChecks(self._client, group, checker)
        else:
            known.checker = checker

    async def send_half(
        self, group: str, transaction: tuple[int, int] | None, topic: str, message: OutgoingMessage[Sent]
    ) -> PlacedHalf:
        """Send one message as a half batch. Return its place when a majority has it. Raises LedgerError."""
        await self._prepare(group)
        self._selection.group = group
        future: asyncio.Future[PlacedHalf] = asyncio.get_running_loop().create_future()

        def done(result: PlacedHalf | LedgerError) -> None:
            if future.done():
                return
            if isinstance(result, LedgerError):
                future.set_exception(result)
            else:
                future.set_result(result)

        receipt = HalfReceipt(group, transaction, done)
        piece = self._make_piece(receipt, topic, message)
        await self._enter(piece, lambda: self._selection.place(topic, piece, message.queue))
        return await future

    async def end(self, transaction: TransactionId, halves: list[PlacedHalf], *, commit: bool) -> EndPlace | None:
        """End a transaction. Raises LedgerError."""
        return await self._ends.end(transaction, halves, commit=commit)

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` go on in the background."""
        task = asyncio.get_running_loop().create_task(work, name="rollback of a cancelled transaction")
        self._finishing[task] = None
        task.add_done_callback(self._finishing.pop)

    async def finished(self) -> None:
        """Wait for the work in the background."""
        while self._finishing:
            await asyncio.wait(list(self._finishing))

    async def stop(self) -> None:
        """Answer no more checks, and give up the work in the background."""
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)
        checks, self._checks = self._checks, {}
        for each in checks.values():
            await each.stop()
        for task in self._prepared.values():
            task.cancel()
        await asyncio.gather(*self._prepared.values(), return_exceptions=True)

    async def _prepare(self, group: str) -> None:
        """Return when the cluster has the topics of the group's transactions. Raises LedgerError."""
        task = self._prepared.get(group)
        if task is None:
            task = self._prepared[group] = asyncio.get_running_loop().create_task(self._prepare_until_stop(group))
        try:
            await asyncio.shield(task)
        except LedgerError:
            if self._prepared.get(group) is task:
                del self._prepared[group]  # the next send tries again
            raise

    async def _prepare_until_stop(self, group: str) -> None:
        try:
            await prepare(self._client, group)
        except asyncio.CancelledError:  # `stop` cancels it, and not the senders that wait for it
            raise ClosedError("The producer was closed before the message was sent: send it again.") from None
