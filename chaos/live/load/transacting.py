"""The part of the load that sends transactions, and answers the checks of nodes about them.

    begin ─ send, send, ... ─ wait ─ decide ─┬─ commit or roll back, and perhaps once more if there is no answer
                    │                        └─ be silent: a node asks, and a checker says what was decided
                    └─ be silent: a node asks; the checker answers "unknown" once, and then decides to roll back

The messages of a transaction go to random queues of all topics, so they are in several shards. Many transactions end at
moments that they share: multiples of `ENDS_MS` of the wall clock, so that a fault knows when many half batches wait
(chaos/live/faults/ends.py). A decision is recorded (decisions.py), then written into the history, and only then told to
the cluster. So also the transactions of a killed producer are judged.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random

import google_crc32c

from chaos.live.load.call_pace import CallPace, waited
from chaos.live.load.decisions import NAME, Decisions
from chaos.live.load.running import producer_of, running
from chaos.live.load.spec import ENDS_MS, PRODUCER_GROUP, ClientSpec
from cluster.load.seeded_payloads import mixed_payload
from ledger.client.producer.producer import AsyncProducer
from ledger.client.transactions.records import CheckedTransaction, CheckResult
from ledger.client.transactions.transaction import AsyncTransaction
from ledger.errors import DeliveryTimeoutError, LedgerError, TransactionEndedError
from ledger.history import Decide, EndRequest, HistoryWriter, OperationOutcome, Prepare, now_ns
from ledger.transactions import TransactionId

# The share of transactions that are rolled back, and the share about which the producer says nothing to the cluster.
# Of the latter, the share that nobody has decided.
_ROLLED_BACK, _SILENT, _UNDECIDED = 0.25, 0.2, 0.4
# The share that ends at a shared moment. Others wait at most `_WAIT_S`.
_SHARED, _WAIT_S = 0.5, 1.0
# A request without an answer is repeated with this chance, so long after it.
_REPEATED, _AGAIN_S = 0.5, 0.2
# The most messages of a transaction, their mean, and how many transactions are open at the same time.
_MESSAGES, _MEAN, _OPEN = 5, 3, 40
_UNIQUE_BYTES = 16
# Header: the name that the load gives to the transaction.
_NAME = "transaction"
# The header and the name need room beside the largest value.
_ROOM = 1 << 10


async def send_transactions(spec: ClientSpec, process: int, random: Random, stop: asyncio.Event) -> None:
    """Run one producer of transactions until `stop`. Returns when each of them has ended, or is left to a check."""
    with HistoryWriter(Path(spec.history)) as writer:
        async with running(lambda: producer_of(spec, process, random), stop) as producer:
            load = _TransactionLoad(spec, process, producer, writer, random, stop)
            producer.answer_checks(PRODUCER_GROUP, load.checker.answer)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_OPEN):
                    tasks.create_task(load.send())


async def answer_checks(spec: ClientSpec, stop: asyncio.Event) -> None:
    """Run one producer that only answers checks, until `stop`."""
    process, random = spec.first_process, Random(f"{spec.seed} checks")
    with HistoryWriter(Path(spec.history)) as writer:
        async with running(lambda: producer_of(spec, process, random), stop) as producer:
            producer.answer_checks(PRODUCER_GROUP, LoadChecker(spec, process, writer).answer)
            await stop.wait()


class LoadChecker:
    """Answers checks with the decisions of the load."""

    def __init__(self, spec: ClientSpec, process: int, writer: HistoryWriter) -> None:
        self.decisions = Decisions(Path(spec.history).parent / NAME)
        self._process = process
        self._writer = writer

    def decide(self, name: str, *, commit: bool) -> bool:
        """Decide, if nobody has decided yet, and write the decision into the history. Return whether the transaction is
        to be committed."""
        decided = self.decisions.decide(name, commit=commit)
        self._writer.write(Decide(self._process, name, decided, now_ns()))
        return decided

    def answer(self, asked: CheckedTransaction) -> CheckResult:
        """Implements a checker of `AsyncProducer.answer_checks`."""
        name = dict(asked.messages[0].headers)[_NAME].decode()
        if self.decisions.decided(name) is None and not asked.checks:
            return "unknown"
        return "commit" if self.decide(name, commit=False) else "rollback"


class _TransactionLoad:
    def __init__(
        self,
        spec: ClientSpec,
        process: int,
        producer: AsyncProducer,
        writer: HistoryWriter,
        random: Random,
        stop: asyncio.Event,
    ) -> None:
        self.checker = LoadChecker(spec, process, writer)
        self._spec, self._process, self._producer, self._writer = spec, process, producer, writer
        self._random, self._stop = random, stop
        self._pace = CallPace(_MEAN / (spec.rate * spec.transactions), stop)
        self._count = 0

    async def send(self) -> None:
        """Make one transaction after another, until the load ends."""
        while await self._pace.next_call():
            self._count += 1
            await self._one(f"{self._process}-{self._count}")

    async def _one(self, name: str) -> None:
        random = self._random
        transaction = self._producer.transaction(random.choice(self._spec.topics), group=PRODUCER_GROUP)
        is_whole = await self._prepare(transaction, name)
        chance = random.random()
        await waited(self._stop, self._pause_s())
        if chance < _SILENT * _UNDECIDED:
            return
        commit = self.checker.decide(name, commit=is_whole and random.random() >= _ROLLED_BACK)
        if chance < _SILENT:
            return
        if await self._end(transaction, name, commit=commit) is None and random.random() < _REPEATED:
            await asyncio.sleep(_AGAIN_S)
            await self._end(transaction, name, commit=commit)

    def _pause_s(self) -> float:
        if self._random.random() < _SHARED:
            return (-(time.time_ns() // 1_000_000) % ENDS_MS) / 1000
        return self._random.uniform(0, _WAIT_S)

    async def _prepare(self, transaction: AsyncTransaction, name: str) -> bool:
        """Send the messages. Return whether all were acknowledged."""
        count = self._random.randint(1, _MESSAGES)
        sends = [self._send(transaction, name) for _ in range(count)]
        first = await sends[0]
        return all([first, *await asyncio.gather(*sends[1:])])

    async def _send(self, transaction: AsyncTransaction, name: str) -> bool:
        spec, random = self._spec, self._random
        topic, queue = random.choice(spec.topics), random.randrange(spec.queues)
        value = random.randbytes(_UNIQUE_BYTES) + mixed_payload(random, spec.largest_bytes - _ROOM)
        start, error = now_ns(), None
        try:
            await transaction.send(value, topic=topic, queue=queue, headers={_NAME: name.encode()})
        except LedgerError as failure:
            error = failure
        begun = TransactionId.parse(transaction.id) if error is None else None
        outcome = OperationOutcome.OK if error is None else _outcome(error)
        self._writer.write(
            Prepare(
                self._process,
                outcome,
                name,
                topic,
                queue,
                -1 if begun is None else begun.shard,
                None if begun is None else begun.number,
                google_crc32c.value(value),
                len(value),
                None if error is None else type(error).__name__,
                start,
                now_ns(),
            )
        )
        return error is None

    async def _end(self, transaction: AsyncTransaction, name: str, *, commit: bool) -> bool | None:
        """Ask the cluster to end the transaction. Return None if there is no answer, and whether it ended so."""
        start, error = now_ns(), None
        try:
            await (transaction.commit() if commit else transaction.rollback())
        except LedgerError as failure:
            error = failure
        outcome = OperationOutcome.OK if error is None else _outcome_of_end(error)
        told = None if error is None else type(error).__name__
        self._writer.write(EndRequest(self._process, outcome, name, commit, told, start, now_ns()))
        return None if outcome is OperationOutcome.UNKNOWN else outcome is OperationOutcome.OK


def _outcome(error: LedgerError) -> OperationOutcome:
    doubtful = isinstance(error, DeliveryTimeoutError) and error.maybe_committed
    return OperationOutcome.UNKNOWN if doubtful else OperationOutcome.FAIL


def _outcome_of_end(error: LedgerError) -> OperationOutcome:
    return OperationOutcome.FAIL if isinstance(error, TransactionEndedError) else OperationOutcome.UNKNOWN
