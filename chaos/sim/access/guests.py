"""Clients whose rights come and go while they send and read.

A guest is one user with a producer and a reader. In some runs it also has a program that sends in transactions, and a
member of the shared group. The reader reads the topics again and again from their start, from one node, so that each
read would show a node that serves it without a right. A guest does not know when it has a right. Its sends end in a
result like those of all producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from chaos.sim.access.credentials import Credential, SimCredentials
from chaos.sim.stack.shared_load import SharedProgram
from chaos.sim.stack.transaction_load import ProgramProcess, TransactionProgram
from chaos.sim.stack.workload import AGAIN_S, ClientProcess, LoadProducer, Workload
from ledger.client.connection.lifetime import within
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.errors import LedgerError

# A guest reads once while the load sends this many messages.
SENDS_OF_A_READ = 11.0
# How long a fetch of a guest that waits for new messages waits.
LONG_WAIT_MS = 20_000


class Guest:
    """One user, its producer and its reader. `is_over()` is True after the load."""

    def __init__(
        self,
        name: str,
        credentials: SimCredentials,
        node: int,
        processes: tuple[ClientProcess, ClientProcess],
        load: Workload,
        randoms: tuple[Random, Random, Random],
        is_over: Callable[[], bool],
    ) -> None:
        sends, routes, reads = randoms
        self.name = name
        self.credentials = credentials
        # The node from which it reads.
        self.node = node
        # A fault lets the guest wait for new messages, instead of reading from the start again and again.
        self.waits = False
        self.producer = LoadProducer(load, processes[0], sends, routes)
        # Programs with transactions, and members of the shared group.
        self.programs: list[TransactionProgram | SharedProgram] = []
        self._reader = processes[1]
        self._load = load
        self._random = reads
        self._is_over = is_over

    def start(self) -> None:
        _spawn(self.producer.process, self.producer.run())
        _spawn(self._reader, self._read_on())
        for program in self.programs:
            _spawn(program.process, program.run())

    @property
    def has_transactions(self) -> bool:
        """Whether a program of the guest has transactions that are not decided."""
        programs = [each for each in self.programs if isinstance(each, TransactionProgram)]
        return any(program.has_begun and not program.done for program in programs)

    def proves_with(self, credential: Credential) -> None:
        self.credentials.replace(credential)

    async def _read_on(self) -> None:
        reads_per_second = self._load.options.sends_per_second / SENDS_OF_A_READ
        while not self._is_over():
            await asyncio.sleep(self._random.expovariate(reads_per_second))
            if self._load.topics:
                try:
                    await self._read(self._random.choice(self._load.topics))
                except LedgerError:
                    await asyncio.sleep(AGAIN_S)

    async def _read(self, topic: str) -> None:
        """Read some messages from the start of the topic. Raises LedgerError, for example without the right."""
        waits = self.waits
        consumer = within(self._reader.environment, AsyncConsumer)(
            topic,
            bootstrap_servers=self._load.bootstrap,
            node=self.node if self._load.takes_part(self.node) else None,
            max_wait_ms=self._random.choice((200, 2_000)) if not waits else LONG_WAIT_MS,
            max_bytes=2_000 if not waits else 1 << 20,
            request_timeout_ms=3_000,
            rng=self._random,
        )
        await consumer.start()
        try:
            while waits and self.waits and not self._is_over():
                await consumer.getmany(timeout_ms=1_500)
            for _ in range(self._random.choice((1, 4)) if not waits else 0):
                for (name, queue), first in (await consumer.beginning_offsets()).items():
                    await consumer.seek(name, queue, first)
                await consumer.getmany(timeout_ms=1_500)
        finally:
            await consumer.stop()


def _spawn(process: ProgramProcess, work: Coroutine[Any, Any, None]) -> None:
    process.life.deliver(process.life.create_task, work)
