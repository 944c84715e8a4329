"""Answers the checks of nodes about transactions whose producers are silent.

    group ──> one stream to each node ──> check ──> the program's checker ──> answer

The streams follow the nodes of the cluster. A stream that ends is opened again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import grpc

from ledger.cancellation import heed_cancellation
from ledger.client.background import spawn
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.stream_end import end_of_stream
from ledger.client.transactions.records import (
    CheckedTransaction,
    CheckResult,
    TransactionChecker,
    prepared_messages,
)
from ledger.errors import InternalError, LedgerError, from_wire
from ledger.timed import moment
from ledger.transactions import TransactionId
from ledger.v1 import transaction_pb2

log = logging.getLogger("ledgermq.client.producer")

# How often the nodes of the cluster are looked at, and how long a stream that ended waits.
_LOOK_S = 1.0
_AGAIN_S = 1.0
# Checkers that run at the same time.
_MAX_RUNNING = 64

_OUTCOMES = {
    "commit": transaction_pb2.COMMIT,
    "rollback": transaction_pb2.ROLL_BACK,
    "unknown": transaction_pb2.UNKNOWN,
}


def _has_failed(_: InternalError) -> None:
    """The defect is in the log. The cluster asks another producer, or this one again."""


class GroupChecks:
    """Answers the checks of one producer group, from `start` to `stop`."""

    def __init__(self, client: ClusterClient, group: str, checker: TransactionChecker, name: str = "") -> None:
        """`name`: the place of this producer in the order in which all nodes ask those of the group, or "" for none."""
        self.checker = checker
        self._name = name
        self._client = client
        self._group = group
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._running = asyncio.Semaphore(_MAX_RUNNING)
        self._watch = spawn(self._follow_nodes(), f"nodes that ask producer group {group}", _has_failed)
        # Nodes that have taken the stream, for `ready`.
        self._taken: set[str] = set()

    async def stop(self) -> None:
        """End all streams."""
        tasks = [self._watch, *self._streams.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_nodes(self) -> None:
        while True:
            addresses = set(self._client.routes.table.nodes.values())
            for address in [each for each in self._streams if each not in addresses]:
                self._streams.pop(address).cancel()
            for address in sorted(addresses):
                if address not in self._streams:
                    self._streams[address] = spawn(self._serve(address), f"checks of node {address}", _has_failed)
            await asyncio.sleep(_LOOK_S)

    async def _serve(self, address: str) -> None:
        """Answer the checks of one node until the task is cancelled."""
        told = ""
        while True:
            try:
                await self._stream(address)
            except LedgerError as error:
                if str(error) != told:
                    told = str(error)
                    log.info(
                        "node %s asks this producer about no transactions of group %s: %s", address, self._group, error
                    )
            heed_cancellation()
            await asyncio.sleep(_AGAIN_S)

    async def _stream(self, address: str) -> None:
        """Answer checks until the stream ends. Raises LedgerError."""
        call: Any = self._client.connections.stub(address).CheckTransactions()
        answers: set[asyncio.Task[None]] = set()
        # A call takes one write at a time, and ends if it gets two.
        writing = asyncio.Lock()
        try:
            await call.write(transaction_pb2.CheckAnswer(producer_group=self._group, name=self._name))
            while (check := await call.read()) is not grpc.aio.EOF:
                if check.HasField("error"):
                    raise from_wire(check.error)
                task = spawn(self._answer(call, writing, check), "answer to a check", _has_failed)
                answers.add(task)
                task.add_done_callback(answers.discard)
            raise await end_of_stream(address, call)
        except LedgerError:
            raise
        except Exception as error:
            raise await end_of_stream(address, call, error) from error
        finally:
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
            call.cancel()

    async def _answer(self, call: Any, writing: asyncio.Lock, check: transaction_pb2.TransactionCheck) -> None:
        async with self._running:
            outcome = await self._outcome(check)
        try:
            async with writing:
                await call.write(transaction_pb2.CheckAnswer(check=check.check, outcome=_OUTCOMES[outcome]))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            log.info("the answer to a check was lost (the cluster asks again): %s", error)

    async def _outcome(self, check: transaction_pb2.TransactionCheck) -> CheckResult:
        """Ask the program. An error of the program, or a result that is none, counts as "unknown"."""
        try:
            asked = self._checked(check)
            result = self.checker(asked)
            if inspect.isawaitable(result):
                result = await result
        except Exception:
            log.exception("the checker of producer group %s failed: the outcome is unknown", self._group)
            return "unknown"
        if result not in _OUTCOMES:
            log.error(
                'the checker of producer group %s returned %r: return "commit", "rollback" or "unknown"',
                self._group,
                result,
            )
            return "unknown"
        return result

    def _checked(self, check: transaction_pb2.TransactionCheck) -> CheckedTransaction:
        topics = self._client.routes.table.topics.values()
        topic = next((each.name for each in topics if each.topic_id == check.topic_id), f"#{check.topic_id}")
        messages = prepared_messages(topic, check.queue, check.body)
        transaction = TransactionId(check.topic_id, check.shard, check.transaction)
        return CheckedTransaction(str(transaction), self._group, moment(check.since_ms), check.unknowns, messages)
