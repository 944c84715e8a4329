"""The part of the load that uses shared groups: a producer of messages with keys, and members that lease them.

    receive ─ work ─┬─ ack                    a member lives for some seconds, and then another one takes its place
                    ├─ nack, at once or later
                    ├─ extend, work, ack      half of the members die: they end without a word about what they have
                    └─ forget: the lease ends

There are two groups on one topic: one without order, and one with order by key. When the load ends, the members
acknowledge what they get, until no message comes for longer than any lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import google_crc32c

from chaos.live.load.call_pace import CallPace
from chaos.live.load.running import producer_of, running
from chaos.live.load.spec import JOBS, SHARED_GROUPS, ClientSpec
from cluster.load.seeded_payloads import mixed_payload
from ledger.client.shared.shared_consumer import AsyncSharedConsumer
from ledger.client.shared.shared_message import SharedMessage
from ledger.errors import LedgerError
from ledger.history import HistoryWriter, LeaseRequest, OperationOutcome, SharedReceive, now_ns

# The members of each group, and the shortest and longest life of one, in seconds.
_MEMBERS, _LIVES_S = 4, (2.0, 12.0)
# How many messages a receive wants, and how long it waits. A receive that gets all that it wants may leave others with
# the consumer. These were leased before the next receive begins, so fewer of its leases are judged.
_WANTED, _WAIT_MS = (8, 32), 1_000
_LEASE_MS = 3_000
# How long the work on a message takes at most.
_WORK_S = 0.3
# The shares of messages that are given up, forgotten, and extended.
_NACKED, _FORGOTTEN, _EXTENDED = 0.1, 0.05, 0.1
_DELAYS_MS = (0, 0, 200, 1_000)
# A message comes again within this time after the load, whatever happened to its lease.
_QUIET_S = 8.0
_LONGEST_END_S = 120.0
_AGAIN_S = 0.3
_KEYS = 40
_LARGEST_BYTES = 4 << 10
_IN_FLIGHT = 8


async def send_jobs(spec: ClientSpec, process: int, random: Random, stop: asyncio.Event) -> None:
    """Run one producer of messages with keys, for shared groups, until `stop`."""
    async with running(lambda: producer_of(spec, process, random), stop) as producer:
        pace = CallPace(1 / (spec.rate * spec.shared), stop)

        async def send() -> None:
            while await pace.next_call():
                key = random.randrange(_KEYS)
                value = mixed_payload(random, min(_LARGEST_BYTES, spec.largest_bytes))
                with suppress(LedgerError):
                    await producer.send(JOBS, value, key=b"key %d" % key, queue=key % spec.queues)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_IN_FLIGHT):
                tasks.create_task(send())


async def share(spec: ClientSpec, stop: asyncio.Event) -> None:
    """Run the members of all shared groups. After `stop`, they go on until no message comes any more."""
    with HistoryWriter(Path(spec.history)) as writer:
        numbers = count(spec.first_process)
        async with asyncio.TaskGroup() as tasks:
            for group, order in SHARED_GROUPS.items():
                quiet = _Quiet(stop)
                for place in range(_MEMBERS):
                    random = Random(f"{spec.seed} member {place} of {group}")
                    member = _Place(spec, writer, numbers, group, order, random, quiet)
                    tasks.create_task(member.run())


class _Quiet:
    """Says when a group gets no more messages after the load."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._last_s = self._loop.time()
        self._stopped_s: float | None = None

    @property
    def load_is_over(self) -> bool:
        return self._stop.is_set()

    def heard(self) -> None:
        """Record that a member got a message, or an error instead of an answer."""
        self._last_s = self._loop.time()

    def is_over(self) -> bool:
        """Return True if the load is over and no message came for long enough after that."""
        if not self._stop.is_set():
            return False
        now_s = self._loop.time()
        self._stopped_s = self._stopped_s or now_s
        since_s = max(self._last_s, self._stopped_s)
        return now_s - since_s > _QUIET_S or now_s - self._stopped_s > _LONGEST_END_S


class _Place:
    """One member of a group after the other. Each is a process of its own in the history."""

    def __init__(
        self,
        spec: ClientSpec,
        writer: HistoryWriter,
        numbers: Iterator[int],
        group: str,
        order: str | None,
        random: Random,
        quiet: _Quiet,
    ) -> None:
        self._spec, self._writer, self._numbers = spec, writer, numbers
        self._group, self._order = group, order
        self._random, self._quiet = random, quiet
        self._process = 0

    async def run(self) -> None:
        while not self._quiet.is_over():
            self._process = next(self._numbers)
            consumer = AsyncSharedConsumer(
                JOBS,
                group=self._group,
                bootstrap_servers=list(self._spec.bootstrap),
                order="key" if self._order else None,
                lease_ms=_LEASE_MS,
                rng=Random(self._random.getrandbits(32)),
            )
            try:
                await consumer.start()
                try:
                    await self._live(consumer)
                finally:
                    await consumer.stop()
            except LedgerError:
                self._quiet.heard()
                await asyncio.sleep(_AGAIN_S)

    async def _live(self, consumer: AsyncSharedConsumer[bytes]) -> None:
        loop = asyncio.get_running_loop()
        over_s = loop.time() + self._random.uniform(*_LIVES_S)
        dies = self._random.random() < 0.5
        work: set[asyncio.Task[None]] = set()
        try:
            while not self._quiet.is_over() and (loop.time() < over_s or self._quiet.load_is_over):
                messages = await consumer.receive(self._random.choice(_WANTED), max_wait_ms=_WAIT_MS)
                self._received(messages)
                for message in messages:
                    task = loop.create_task(self._work(consumer, message))
                    work.add(task)
                    task.add_done_callback(work.discard)
        finally:
            if dies and not self._quiet.load_is_over:
                for task in work:
                    task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    def _received(self, messages: list[SharedMessage[bytes]]) -> None:
        if not messages:
            return
        self._quiet.heard()
        end, now_s = now_ns(), asyncio.get_running_loop().time()
        # A message can be from a request of an earlier receive.
        by_request: dict[tuple[int, float], list[SharedMessage[bytes]]] = {}
        for message in messages:
            by_request.setdefault((message.queue, message.asked_s), []).append(message)
        for (queue, asked_s), some in by_request.items():
            offsets = [message.offset for message in some]
            keys = [google_crc32c.value(message.key) if message.key else 0 for message in some]
            self._writer.write(
                SharedReceive(
                    self._process,
                    self._group,
                    self._order is not None,
                    JOBS,
                    queue,
                    offsets,
                    keys,
                    _LEASE_MS,
                    end - round((now_s - asked_s) * 1e9),
                    end,
                )
            )

    async def _work(self, consumer: AsyncSharedConsumer[bytes], message: SharedMessage[bytes]) -> None:
        """Work on a message and say so. An error leaves the message to the end of its lease."""
        random = self._random
        await asyncio.sleep(random.uniform(0, _WORK_S))
        chance = 1.0 if self._quiet.load_is_over else random.random()
        with suppress(LedgerError):
            if chance < _FORGOTTEN:
                return
            if chance < _FORGOTTEN + _NACKED:
                delay_ms = random.choice(_DELAYS_MS)
                await self._asked(message, "nack", delay_ms, consumer)
                return
            if chance < _FORGOTTEN + _NACKED + _EXTENDED:
                await self._asked(message, "extend", _LEASE_MS, consumer)
                await asyncio.sleep(random.uniform(0, _WORK_S))
            await self._asked(message, "ack", 0, consumer)

    async def _asked(
        self, message: SharedMessage[bytes], what: str, ms: int, consumer: AsyncSharedConsumer[bytes]
    ) -> None:
        """Ask, and write the request with its result into the history. Raises LedgerError."""
        start, outcome, told = now_ns(), OperationOutcome.UNKNOWN, None
        try:
            match what:
                case "ack":
                    counted = await consumer.ack(message)
                case "nack":
                    counted = await consumer.nack(message, delay_ms=ms)
                case _:
                    counted = await consumer.extend(message, lease_ms=ms)
            outcome = OperationOutcome.OK if counted else OperationOutcome.FAIL
        except LedgerError as error:
            told = type(error).__name__
            raise
        finally:  # also if the member dies meanwhile
            place = (self._group, JOBS, message.queue, message.offset)
            self._writer.write(LeaseRequest(self._process, outcome, what, *place, ms, told, start, now_ns()))
