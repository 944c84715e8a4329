"""Sends commits and rollbacks to the leaders of decision shards.

    ends of one turn of the event loop ──> one request for each shard ──> a result for each end

While `MAX_REQUESTS` requests of a shard have no answer, ends wait, and the next request has all of them. An end is
repeated after each retriable error: ends are idempotent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.producer.producer_batch import because
from ledger.client.transactions.half_selection import PlacedHalf
from ledger.errors import DeliveryTimeoutError, InternalError, LedgerError, from_wire
from ledger.transactions import TransactionId
from ledger.v1 import transaction_pb2

MAX_REQUESTS = 4
MAX_ENDS = 500


@dataclass(frozen=True, slots=True)
class EndPlace:
    """Where the messages of a committed half batch are, if this commit put them there."""

    base_offset: int
    append_time_ms: int
    term: int


class EndSender:
    """Ends the transactions of one client."""

    def __init__(self, client: ClusterClient, timeout_ms: float) -> None:
        self._client = client
        self._timeout_s = timeout_ms / 1000
        self._shards: dict[int, _ShardEnds] = {}

    async def end(
        self, transaction: TransactionId, halves: list[PlacedHalf], *, commit: bool, timeout_ms: float | None = None
    ) -> EndPlace | None:
        """End a transaction. Return the place of its messages if it has one half batch that this call has committed.
        Raises TransactionEndedError, UnknownTransactionError, DeliveryTimeoutError if no leader answers in time, or
        another LedgerError."""
        wire = transaction_pb2.TransactionEnd(
            transaction=transaction.number,
            topic_id=transaction.topic_id,
            commit=commit,
            halves=[transaction_pb2.NamedHalf(shard=half.shard, number=half.number) for half in halves],
        )
        shard = self._shards.get(transaction.shard)
        if shard is None:
            shard = self._shards[transaction.shard] = _ShardEnds(self._client, transaction.shard)
        timeout_s = self._timeout_s if timeout_ms is None else timeout_ms / 1000
        deadline = asyncio.get_running_loop().time() + timeout_s
        last: LedgerError | None = None
        try:
            async with asyncio.timeout_at(deadline) as limit:
                failures = 0
                while True:
                    self._client.check_open()
                    try:
                        return await shard.end(wire)
                    except LedgerError as error:
                        if not error.retriable:
                            raise
                        last = error
                    failures += 1
                    await asyncio.sleep(self._client.backoff.wait_ms(failures) / 1000)
        except TimeoutError:
            if not limit.expired():  # RequestTimeoutError is a TimeoutError, too
                raise
            raise DeliveryTimeoutError(
                f"No leader has {'committed' if commit else 'rolled back'} the transaction {transaction} within "
                f"{timeout_s:g} s{because(last)}. It may end so later: the cluster asks a producer of the group.",
                maybe_committed=True,
            ) from last


class _ShardEnds:
    """The ends of one decision shard."""

    def __init__(self, client: ClusterClient, shard: int) -> None:
        self._client = client
        self._shard = shard
        self._waiting: deque[tuple[transaction_pb2.TransactionEnd, asyncio.Future[EndPlace | None]]] = deque()
        self._requests: set[asyncio.Task[None]] = set()
        self._is_due = False

    async def end(self, wire: transaction_pb2.TransactionEnd) -> EndPlace | None:
        """Send an end once, and return its result. Raises LedgerError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[EndPlace | None] = loop.create_future()
        self._waiting.append((wire, future))
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._send)
        return await future

    def _send(self) -> None:
        self._is_due = False
        while self._waiting and len(self._requests) < MAX_REQUESTS:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_ENDS))]
            some = [(wire, future) for wire, future in some if not future.done()]
            if some:
                task = asyncio.get_running_loop().create_task(self._request(some))
                self._requests.add(task)
                task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._send()

    async def _request(
        self, ends: list[tuple[transaction_pb2.TransactionEnd, asyncio.Future[EndPlace | None]]]
    ) -> None:
        request = transaction_pb2.EndTransactionsRequest(shard=self._shard, ends=[wire for wire, _ in ends])
        try:
            response = await self._client.call(
                self._shard, lambda stub, seconds: stub.EndTransactions(request, timeout=seconds)
            )
            if len(response.results) != len(ends):
                raise InternalError(f"A node answered {len(response.results)} results for {len(ends)} transactions.")
        except LedgerError as error:
            for _, future in ends:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, future in ends:
                future.cancel()
            raise
        for (_, future), result in zip(ends, response.results, strict=True):
            if not future.done():
                _settle(future, result)


def _settle(future: asyncio.Future[EndPlace | None], result: transaction_pb2.TransactionEnded) -> None:
    if result.HasField("error"):
        future.set_exception(from_wire(result.error))
    elif result.HasField("base_offset"):
        future.set_result(EndPlace(result.base_offset, result.append_time_ms, result.term))
    else:
        future.set_result(None)
