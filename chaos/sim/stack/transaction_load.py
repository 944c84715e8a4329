"""Programs that send messages in transactions, in a simulated cluster.

Each program sends one to three messages, and then decides: in a database of its own, which the world keeps. Then it
tells the cluster, or dies before it does so; then the cluster asks another program of the group, which looks into the
database. A program whose send failed decides to roll back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from chaos.sim.engine.node_life import Life
from chaos.sim.stack.transaction_truth import TransactionTruth
from chaos.sim.stack.workload_history import NO_ORDER, LoadHistory, name_of
from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within
from ledger.client.producer.producer import AsyncProducer
from ledger.client.transactions.records import CheckedTransaction, CheckResult
from ledger.client.transactions.transaction import AsyncTransaction
from ledger.errors import DeliveryTimeoutError, LedgerError, TransactionEndedError

GROUP = "programs"
# Transactions of one program that have not ended.
MOST_OPEN = 8
# The mean time between two transactions of a program, in seconds.
PAUSE_S = 0.3
# How many programs say "unknown" although they have decided, and die without telling the cluster.
UNKNOWN, DIES = 0.1, 0.25
AGAIN_S = 0.5
DELIVERY_TIMEOUTS_MS = (2_000, 10_000, 40_000)


class ProgramProcess(Protocol):
    """The simulated process of a program."""

    @property
    def number(self) -> int: ...
    @property
    def life(self) -> Life: ...
    @property
    def environment(self) -> Environment: ...


class ProgramLoad(Protocol):
    """The load to which a program belongs."""

    topics: list[str]
    busy: bool
    bootstrap: list[str]

    @property
    def history(self) -> LoadHistory: ...


class TransactionProgram:
    """One process that sends messages in transactions, from the creation of the first topic to the end of the load."""

    def __init__(
        self,
        load: ProgramLoad,
        process: ProgramProcess,
        truth: TransactionTruth,
        random: Random,
        number: Callable[[], int],
        delivery_timeouts_ms: Sequence[int] = DELIVERY_TIMEOUTS_MS,
    ) -> None:
        """`number()` returns a new number for a transaction. `delivery_timeouts_ms` has the times from which a producer
        draws how long a send may take."""
        self.process = process
        # True when its producer has started.
        self.has_begun = False
        # True when every transaction was decided.
        self.done = False
        self._load = load
        self._truth = truth
        self._random = random
        self._number = number
        self._delivery_timeouts_ms = delivery_timeouts_ms

    async def run(self) -> None:
        while not self._load.topics:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        producer = await self._started()
        self.has_begun = True
        producer.answer_checks(GROUP, self._check)
        working: list[asyncio.Task[None]] = []
        while self._load.busy:
            working = [task for task in working if not task.done()]
            if len(working) < MOST_OPEN:
                working.append(self.process.life.create_task(self._transact(producer)))
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_S))
        await asyncio.gather(*working)
        self.done = True  # it goes on to answer checks

    async def _started(self) -> AsyncProducer:
        while True:
            producer = within(self.process.environment, AsyncProducer)(
                self._load.bootstrap,
                compression=self._random.choice((None, "lz4")),
                delivery_timeout_ms=self._random.choice(self._delivery_timeouts_ms),
                request_timeout_ms=self._random.choice((1_000, 5_000)),
                rng=self._random,
            )
            try:
                await producer.start()
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
            else:
                return producer

    async def _transact(self, producer: AsyncProducer) -> None:
        random, program = self._random, self._number()
        transaction = producer.transaction(random.choice(self._load.topics), group=GROUP)
        count = random.choice((1, 1, 2, 3))
        if random.random() < 0.5:
            all_sent = all(await asyncio.gather(*[self._send(transaction, program) for _ in range(count)]))
        else:
            all_sent = all([await self._send(transaction, program) for _ in range(count)])
        await asyncio.sleep(random.choice((0.0, 0.0, random.uniform(0, 10))))
        commit = self._truth.decide(program, commit=all_sent and random.random() < 0.7)
        if random.random() >= DIES:
            await self._end(transaction, program, commit=commit)

    async def _send(self, transaction: AsyncTransaction, program: int) -> bool:
        """Send one message. Return False if the send failed."""
        random, history = self._random, self._load.history
        topic = random.choice(self._load.topics)
        sent = history.send(self.process.number, topic, NO_ORDER)
        self._truth.sends(sent.name, program)
        key = b"%d" % random.randrange(8) if random.random() < 0.5 else None
        try:
            await transaction.send(
                sent.name + b":" + bytes(random.choice((0, 10, 700))),
                topic=topic,
                key=key,
                tag=random.choice((None, "x")),
            )
        except LedgerError:
            history.unknown(sent)
            return False
        history.scheduled(sent)
        self._truth.acknowledged(sent.name)
        return True

    async def _end(self, transaction: AsyncTransaction, program: int, *, commit: bool) -> None:
        for _ in range(self._random.choice((1, 2))):
            try:
                await (transaction.commit() if commit else transaction.rollback())
            except DeliveryTimeoutError:
                continue
            except TransactionEndedError as error:
                if "no longer known" not in str(error):
                    self._truth.refused(program, commit=commit)
                return
            except LedgerError:
                return
            self._truth.told(program, commit=commit)
            return

    async def _check(self, checked: CheckedTransaction) -> CheckResult:
        await asyncio.sleep(self._random.choice((0.0, self._random.uniform(0, 3))))
        decision = self._truth.decision(name_of(checked.messages[0].value))
        if decision is None or self._random.random() < UNKNOWN:
            return "unknown"
        return "commit" if decision else "rollback"
