"""Runs the load on a simulated cluster. Each real client runs in a separate simulated process, and the seed determines
the actions of the client.

Until the end of the load, the producers send messages, even while the cluster has faults. The producers report the
result of each send to the history. The consumers read all messages. One consumer reads from the leaders of shards, and
each other consumer reads from one fixed node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.node_life import Life
from chaos.sim.stack.named_sends import FORGETTING, NamedSends
from chaos.sim.stack.node import FIRST_CLIENT
from chaos.sim.stack.shared_load import SharedProgram
from chaos.sim.stack.shared_truth import SharedTruth
from chaos.sim.stack.timed_truth import TimedTruth
from chaos.sim.stack.transaction_load import ProgramProcess, TransactionProgram
from chaos.sim.stack.transaction_truth import TransactionTruth
from chaos.sim.stack.window_truth import WindowTruth
from chaos.sim.stack.workload_history import NO_ORDER, LoadHistory, MessagePlace, SentMessage
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.producer.producer import AsyncProducer
from ledger.client.producer.producer_batch import leaves_doubt
from ledger.client.producer.queue_selector import UnplacedMessage
from ledger.client.records import RecordRange
from ledger.errors import ClosedError, DeliveryTimeoutError, LedgerError, TopicExistsError
from ledger.timed import moment

FIRST_PROGRAM = FIRST_CLIENT + 26
READER = FIRST_CLIENT + 40
AGAIN_S = 0.5
TOPICS = 2
READS_PER_SECOND = 2.0
HURRIED_READS_PER_SECOND = 20.0
# After this many reads another client reads.
READS_OF_ONE = 50
# How often a consumer that is bound to a node checks whether the node is still a member.
LOOK_MS = 3_000
# A producer with more messages without a result waits. This keeps the time at the end of the run short.
MOST_OPEN = 100
VALUE_BYTES = (0, 10, 100, 700)
# How many producers tag the messages of a send_many, and with which tags. Consumer groups with tags want few of these
# messages, so nodes cut batches.
TAGGING_PRODUCERS = 0.5
TAGS = (None, None, "other", "other", "tag")
# How often a program sends several messages in one turn of the event loop, and how many.
BURST_SHARE = 0.05
BURSTS = (3, 10)
# How many producers give messages look-up keys, and how many of these keys are in use.
LOOK_UP_PRODUCERS = 0.5
LOOK_UP_KEYS = 20
# The share of programs that have several producers with equal settings, which send in common batches.
PROGRAMS_OF_MANY = 0.4
PRODUCERS_OF_MANY = 4
# The share of the sends with delivery times after which messages are cancelled.
CANCELS = 0.3
# How long a send of a program whose rights come and go may take. All sends of a transaction together take less time
# than the cluster goes on asking about the transaction.
UNCERTAIN_TIMEOUTS_MS = (2_000, 10_000)
# Time between the creation of two topics during the load.
NEW_TOPIC_S = 40.0


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """The simulated process of a client."""

    number: int
    life: Life
    environment: Environment


MakeProcess = Callable[[int], ClientProcess]


class Workload:
    """Runs the clients of one run. The function `process(number)` makes the process of a client. The function
    `takes_part(node)` returns True if the node is a member."""

    def __init__(
        self,
        options: Options,
        bootstrap: Sequence[str],
        history: LoadHistory,
        process: MakeProcess,
        takes_part: Callable[[int], bool],
        timed: TimedTruth,
        transactions: TransactionTruth,
        shared: SharedTruth,
        windows: WindowTruth,
    ) -> None:
        # Topics that exist.
        self.topics: list[str] = []
        # Whether new messages are sent.
        self.busy = True
        self.timed = timed
        self.transactions = transactions
        self.shared = shared
        self._windows = windows
        self._history = history
        self._options = options
        self._admin = process(FIRST_CLIENT)
        self._reader = process(READER)
        self._hurried_until = 0.0
        self.producers = [
            LoadProducer(
                self, process(FIRST_CLIENT + 1 + i), options.chance(f"producer {i}"), options.chance(f"routing {i}")
            )
            for i in range(options.producers)
        ]
        self._programs = count(1)
        self.programs = [
            TransactionProgram(
                self,
                process(FIRST_PROGRAM + i),
                transactions,
                options.chance(f"program {i}"),
                lambda: next(self._programs),
            )
            for i in range(options.transaction_programs)
        ]
        self.sharers = [
            SharedProgram(self, process(FIRST_CLIENT + 30 + i), (shared, windows), options.chance(f"sharer {i}"))
            for i in range(options.shared_members)
        ]
        pinned = options.chance("pinned").randint(1, options.nodes)
        self.consumers = [
            LoadConsumer(self, process(FIRST_CLIENT + 50 + i), node, options.chance(f"consumer {i}"))
            for i, node in enumerate((None, pinned))
        ]
        # At the end, this consumer reads every message that was not trimmed, from the start.
        self._late = LoadConsumer(self, process(FIRST_CLIENT + 60), None, options.chance("late consumer"), (1 << 20,))
        self.bootstrap = list(bootstrap)
        self.takes_part = takes_part
        self._random = options.chance("admin")

    @property
    def options(self) -> Options:
        return self._options

    @property
    def history(self) -> LoadHistory:
        return self._history

    def new_program(self, process: ClientProcess) -> TransactionProgram:
        """Return another program with transactions, which may lose its rights."""
        random = self._options.chance(f"program {process.number}")
        number = lambda: next(self._programs)  # noqa: E731
        return TransactionProgram(self, process, self.transactions, random, number, UNCERTAIN_TIMEOUTS_MS)

    def new_sharer(self, process: ClientProcess) -> SharedProgram:
        """Return another member of the shared group, which may lose its rights."""
        random = self._options.chance(f"sharer {process.number}")
        return SharedProgram(self, process, (self.shared, self._windows), random, creates_group=False)

    def start(self) -> None:
        _spawn(self._admin, self._make_topics())
        _spawn(self._reader, self._read())
        for producer in self.producers:
            _spawn(producer.process, producer.run())
        for program in self.programs:
            _spawn(program.process, program.run())
        for sharer in self.sharers:
            _spawn(sharer.process, sharer.run())

    def end(self) -> None:
        """Stop sending new messages, and let the sends in progress finish."""
        self.busy = False
        self.consumers.append(self._late)
        for name in self.topics:
            _spawn(self._late.process, self._late.read(name))

    def hurry(self, seconds: float) -> None:
        """Let the client that makes linearizable reads read much more often for this number of seconds."""
        self._hurried_until = self._reader.life.time() + seconds

    def unsettled(self) -> list[str]:
        """Return a phrase for each condition that must still be met before the load has ended."""
        missing = [f"producer {each.process.number} has open sends" for each in self.producers if not each.done]
        missing += [f"program {each.process.number} has transactions" for each in self.programs if not each.done]
        ends = self._history.ends()
        for consumer in self.consumers:
            for (topic, queue), end in ends.items():
                position = self._history.position(consumer.process.number, topic, queue)
                if position != end:
                    missing.append(
                        f"consumer {consumer.process.number} has read {position} of {end} of {topic}/{queue}"
                    )
        return missing

    async def _make_topics(self) -> None:
        """Create the topics one after another. The creation of each topic is repeated until it succeeds."""
        for number in range(TOPICS):
            name = f"t{number}"
            while not await self._made(name):  # noqa: ASYNC110 (the cluster sends no event when it is ready)
                await asyncio.sleep(AGAIN_S)
            self.topics.append(name)
            for consumer in self.consumers:
                _spawn(consumer.process, consumer.read(name))
            await asyncio.sleep(NEW_TOPIC_S * self._random.random())

    async def _made(self, name: str) -> bool:
        try:
            async with self._asking(self._admin) as admin:
                await admin.create_topic(name, self._options.queues)
        except TopicExistsError:
            return True
        except LedgerError:
            return False
        return True

    async def _read(self) -> None:
        """Make linearizable reads of the end offsets of queues. The same client makes several reads, so that it
        uses the leaders that it has learned before."""
        while True:
            with contextlib.suppress(LedgerError):
                async with self._asking(self._reader) as admin:
                    for _ in range(READS_OF_ONE):
                        await asyncio.sleep(self._random.expovariate(self._reads_per_second))
                        if self.topics:
                            await self._read_ends(admin, self._random.choice(self.topics))
            await asyncio.sleep(AGAIN_S)

    @property
    def _reads_per_second(self) -> float:
        return HURRIED_READS_PER_SECOND if self._reader.life.time() < self._hurried_until else READS_PER_SECOND

    async def _read_ends(self, admin: AsyncAdmin, topic: str) -> None:
        floors = self._history.ends()
        description = await admin.describe_topic(topic)
        for queue in description.offsets:
            self._history.read(topic, queue.queue, floors.get((topic, queue.queue), 0), queue.end_offset)

    def _asking(self, process: ClientProcess) -> AsyncAdmin:
        return within(process.environment, AsyncAdmin)(self.bootstrap, request_timeout_ms=5_000, rng=self._random)


def most_of(count: int) -> int:
    """Return the largest size of a value in a call with so many messages. The messages of two calls fit in a batch, and
    the batch in the smallest segment."""
    return VALUE_BYTES[-1] if count <= 10 else VALUE_BYTES[-2]


class LoadProducer:
    """Runs a program with an AsyncProducer, or several with equal settings, from the creation of the first topic to the
    end of the load."""

    def __init__(self, load: Workload, process: ClientProcess, random: Random, routing: Random) -> None:
        """`routing` is the random stream for the producer's queue selector and its number of attempts."""
        # True when every send has a result and the producer is closed.
        self.done = False
        self.process = process
        self._load = load
        self._random = random
        self._routing = routing
        self._tagging = load.options.chance(f"tags {process.number}")
        # Whether the messages of a send_many have tags, so that a batch has wanted and other messages.
        self._tags_many = self._tagging.random() < TAGGING_PRODUCERS
        self._look_ups = load.options.chance(f"look-up keys {process.number}")
        self._has_look_up_keys = self._look_ups.random() < LOOK_UP_PRODUCERS
        # Whether messages that are sent alone have ids, and are sometimes sent again by another producer.
        self._ids = load.options.chance(f"message ids {process.number}")
        kinds = {kind for kind, _ in load.options.strengths}
        self._has_ids = self._ids.random() < load.options.named_share and kinds.isdisjoint(FORGETTING)
        self._named = NamedSends(
            process.number, load.options.queues, self._ids, load.history, self._started, surely_failed
        )
        self._calls = 0
        # Number of messages without a result.
        self._open = 0
        # How many producers the program has, and which one sends.
        self._shares = load.options.chance(f"producers {process.number}")
        self._producers = PRODUCERS_OF_MANY if self._shares.random() < PROGRAMS_OF_MANY else 1
        # How many messages are sent at once.
        self._bursts = load.options.chance(f"bursts {process.number}")
        # For delivery times and cancels.
        self._timed = load.options.chance(f"timed {process.number}")

    @property
    def has_sent(self) -> bool:
        return self._calls > 0

    async def run(self) -> None:
        while not self._load.topics:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        producers = await self._all_started()
        options, random, sends = self._load.options, self._random, list[asyncio.Task[None]]()
        rate = options.sends_per_second / options.producers
        while self._load.busy:
            count = random.randint(2, options.largest_batch + 1) if random.random() < 0.1 else 1
            sends = [task for task in sends if not task.done()]
            place = self._shares.randrange(self._producers)
            producer = producers[place]
            if self._open >= MOST_OPEN:
                pass
            elif self._has_ids and count == 1:
                sends.append(self.process.life.create_task(self._send_named(producer)))
            elif self._is_timed():
                sends.append(self.process.life.create_task(self._send_timed(producer, count)))
            else:
                sends += [
                    self.process.life.create_task(self._send(producer, place, count))
                    for _ in range(self._sends_at_once(count))
                ]
            await asyncio.sleep(random.expovariate(rate))
        if self._producers > 1:  # this producer stops while the other producers of the program send
            await producers[self._shares.randrange(self._producers)].stop()
        await asyncio.gather(*sends)
        for producer in producers:
            await producer.stop()
        self.done = True

    async def _all_started(self) -> list[AsyncProducer]:
        settings = self._settings()
        return [await self._started(settings) for _ in range(self._producers)]

    async def _started(self, settings: Mapping[str, Any] | None = None) -> AsyncProducer:
        while True:
            producer = within(self.process.environment, AsyncProducer)(
                self._load.bootstrap, **(settings or self._settings())
            )
            try:
                await producer.start()
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
            else:
                return producer

    def _settings(self) -> dict[str, Any]:
        """Draw the settings of a producer."""
        random = self._random
        return {
            "linger_ms": random.choice((0, 5, 50)),
            "batch_bytes": random.choice((1, 500, 4_000)),
            "buffer_bytes": random.choice((2_000, 1 << 20)),
            "compression": random.choice((None, None, "lz4", "zstd")),
            "delivery_timeout_ms": random.choice((2_000, 10_000, 40_000)),
            "request_timeout_ms": random.choice((1_000, 5_000)),
            "retries": self._routing.choice((None, None, 0, 5)),
            "queue_selector": self._routing.choice((None, None, by_length)),
            "latency_faults": self._routing.choice((False, True)),
            "rng": random,
        }

    async def _send(self, producer: AsyncProducer, place: int, count: int) -> None:
        """Send messages with the producer that has this place among those of the program."""
        random, history = self._random, self._load.history
        topic = random.choice(self._load.topics)
        key = b"%d" % random.randrange(8) if random.random() < 0.5 else None
        self._calls += 1
        self._open += count
        line = self._line(key, place, count)
        messages = [history.send(self.process.number, topic, line) for _ in range(count)]
        values = [sent.name + b":" + bytes(min(random.choice(VALUE_BYTES), most_of(count))) for sent in messages]
        places: list[MessagePlace] = []
        error: LedgerError | None = None
        try:
            if count == 1:
                receipt = await producer.send(
                    topic, values[0], key=key, tag=random.choice((None, "tag")), look_up_keys=self._look_up_keys()
                )
                places = [MessagePlace(topic, receipt.queue, receipt.offset)]
            else:
                ranges = await producer.send_many(
                    topic, self._tagged(values), key=key, look_up_keys=self._look_up_keys()
                )
                places = _places(topic, ranges)
        except LedgerError as failed:
            error = failed
        self._settle(messages, places, error)

    async def _send_named(self, producer: AsyncProducer) -> None:
        self._calls += 1
        self._open += 1
        await self._named.send(producer, self._ids.choice(self._load.topics))
        self._open -= 1

    def _sends_at_once(self, count: int) -> int:
        """Draw how many calls with `count` messages begin in one turn of the event loop."""
        return self._bursts.choice(BURSTS) if count == 1 and self._bursts.random() < BURST_SHARE else 1

    def _tagged(self, values: list[bytes]) -> list[bytes] | list[OutgoingMessage[bytes]]:
        """Return the values, or, for a producer that tags the messages of a send_many, messages with these values."""
        if not self._tags_many:
            return values
        return [
            OutgoingMessage(value, tag=self._tagging.choice(TAGS), look_up_keys=self._look_up_keys())
            for value in values
        ]

    def _look_up_keys(self) -> list[bytes] | None:
        """Draw the look-up keys of a message or of a call, for a producer that gives messages such keys."""
        if not self._has_look_up_keys:
            return None
        return [b"look-up %d" % self._look_ups.randrange(LOOK_UP_KEYS) for _ in range(self._look_ups.choice((0, 1, 5)))]

    def _is_timed(self) -> bool:
        share = self._load.options.timed_share
        return share > 0 and self._timed.random() < share

    async def _send_timed(self, producer: AsyncProducer, count: int) -> None:
        """Send messages with delivery times, and cancel some of them."""
        random, history, truth = self._timed, self._load.history, self._load.timed
        topic, deliver_at = random.choice(self._load.topics), self._delivery_time()
        key = b"%d" % random.randrange(8) if random.random() < 0.5 else None
        self._calls += 1
        self._open += count
        messages = [history.send(self.process.number, topic, NO_ORDER) for _ in range(count)]
        values = [sent.name + b":" + bytes(min(random.choice(VALUE_BYTES), most_of(count))) for sent in messages]
        handles: list[str] = []
        error: LedgerError | None = None
        try:
            if count == 1:
                receipt = await producer.send(
                    topic, values[0], key=key, deliver_at=deliver_at, look_up_keys=self._look_up_keys()
                )
                handles = [receipt.handle]
            else:
                ranges = await producer.send_many(
                    topic, values, key=key, deliver_at=deliver_at, look_up_keys=self._look_up_keys()
                )
                handles = _handles(ranges, count)
        except LedgerError as failed:
            error = failed
        self._open -= count
        if error is None:
            for sent, handle in zip(messages, handles, strict=True):
                history.scheduled(sent)
                truth.acknowledged(sent.name, handle)
            if random.random() < CANCELS:
                await self._cancel(producer, handles[: random.randint(1, count)], deliver_at)
            return
        surely = count == 1 and surely_failed(error)
        for sent in messages:
            if surely:
                history.failed(sent)
                truth.failed(sent.name)
            else:
                history.unknown(sent)

    async def _cancel(self, producer: AsyncProducer, handles: Sequence[str], deliver_at: datetime) -> None:
        """Cancel these messages at some time before or shortly after their delivery."""
        random, environment = self._timed, self.process.environment
        ahead_s = max(0.0, deliver_at.timestamp() - environment.now_ms() / 1000)
        await asyncio.sleep(random.choice((0.0, min(ahead_s, 10.0) * random.uniform(0, 1.2))))
        for handle in handles:
            with contextlib.suppress(LedgerError):
                self._load.timed.cancelled(handle, is_cancelled=await producer.cancel(handle))

    def _delivery_time(self) -> datetime:
        """Draw a delivery time: past, in the next 20 s, at a full second, or far beyond the end of the run."""
        random, now = self._timed, moment(self.process.environment.now_ms())
        match random.randrange(8):
            case 0:
                return now - timedelta(seconds=random.uniform(0, 5))
            case 1:
                return now + timedelta(days=random.uniform(0.1, 39))
            case 2 | 3:
                return now.replace(microsecond=0) + timedelta(seconds=random.randint(1, 10))
            case 4 | 5:
                return now + timedelta(seconds=random.uniform(0, 2))
        return now + timedelta(seconds=random.uniform(0, 20))

    def _line(self, key: bytes | None, place: int, count: int) -> int:
        """Return the number of the line to which the messages of a send belong. `place` is that of the producer. The
        messages of one line must stay in order in each queue. If the cluster has several shards, a message without key
        has no promised order. A message without key can move to a queue of another shard
        (ledger/client/producer/queue_sequencer.py)."""
        if key is None and self._load.options.shards > 1:
            return NO_ORDER
        if count > 1:
            return self._calls
        return NO_ORDER - place if place else 0

    def _settle(self, messages: list[SentMessage], places: list[MessagePlace], error: LedgerError | None) -> None:
        history = self._load.history
        self._open -= len(messages)
        if error is None:
            for sent, place in zip(messages, places, strict=True):
                history.acknowledged(sent, place)
            return
        # If a send_many failed in part, its places do not tell which messages they belong to.
        surely = len(messages) == 1 and surely_failed(error)
        for sent in messages:
            (history.failed if surely else history.unknown)(sent)


def by_length(message: UnplacedMessage, queues: int) -> int | None:
    """Choose the queue of a message without key by the length of the message's value. The producers of some runs
    use this function as their queue selector."""
    return len(message.value) % queues if message.key is None else None


def surely_failed(error: LedgerError) -> bool:
    """Return True if the error proves that the message is in no log now and will be in no log later."""
    if isinstance(error, DeliveryTimeoutError):
        return not error.maybe_committed
    return isinstance(error, ClosedError) or not leaves_doubt(error)


def _places(topic: str, ranges: list[RecordRange]) -> list[MessagePlace]:
    return [
        MessagePlace(topic, each.queue, offset)
        for each in ranges
        for offset in range(each.first_offset, each.first_offset + each.count)
    ]


def _handles(ranges: list[RecordRange], count: int) -> list[str]:
    """Return the handles of the messages of one send, in the order of the messages."""
    handles = [""] * count
    for each in ranges:
        for place, handle in zip(each.indexes, each.handles, strict=True):
            handles[place] = handle
    return handles


class LoadConsumer:
    """Reads each topic with one AsyncConsumer. While the node `node` is a member, the consumer reads from this
    node. If `node` is None or is no member, the consumer reads from leaders."""

    def __init__(
        self,
        load: Workload,
        process: ClientProcess,
        node: int | None,
        random: Random,
        max_bytes: tuple[int, ...] = (2_000, 1 << 20),
    ) -> None:
        """`max_bytes` has the sizes in bytes from which the consumer draws the maximum size of its fetches."""
        self.process = process
        self._load = load
        self._node = node
        self._random = random
        self._max_bytes = max_bytes

    async def read(self, topic: str) -> None:
        """Read the messages of a topic until the process of the consumer ends. If a consumer fails, a new consumer
        continues at the same position."""
        while True:
            node = self._node if self._node is not None and self._load.takes_part(self._node) else None
            consumer = within(self.process.environment, AsyncConsumer)(
                topic,
                bootstrap_servers=self._load.bootstrap,
                node=node,
                max_wait_ms=self._random.choice((200, 1_000, 2_000)),
                max_bytes=self._random.choice(self._max_bytes),
                request_timeout_ms=5_000,
                rng=self._random,
            )
            try:
                await self._read_on(consumer, node)
            except LedgerError:
                await asyncio.sleep(AGAIN_S)

    async def _read_on(self, consumer: AsyncConsumer, node: int | None) -> None:
        """Read messages until an error happens, or until the node is no longer a member. A consumer can discover a
        queue after its start, because a lagging node did not know the queue at first. In a queue that it discovers
        later, the consumer seeks to the position that the history has for the queue."""
        history, number = self._load.history, self.process.number
        placed: dict[tuple[str, int], None] = {}
        await consumer.start()
        try:
            for (topic, queue), first in (await consumer.beginning_offsets()).items():
                if first > history.position(number, topic, queue):
                    history.skip(number, topic, queue, first)
                await consumer.seek(topic, queue, history.position(number, topic, queue))
                placed[topic, queue] = None
            while node is None or self._load.takes_part(node):
                unplaced: dict[tuple[str, int], None] = {}
                for message in await consumer.getmany(timeout_ms=None if node is None else LOOK_MS):
                    if (message.topic, message.queue) in placed:
                        place = MessagePlace(message.topic, message.queue, message.offset)
                        history.deliver(number, place, message.value)
                    else:
                        unplaced[message.topic, message.queue] = None
                for topic, queue in unplaced:
                    await consumer.seek(topic, queue, history.position(number, topic, queue))
                placed |= unplaced
        finally:
            await consumer.stop()


def _spawn(process: ProgramProcess, work: Coroutine[Any, Any, None]) -> None:
    process.life.deliver(process.life.create_task, work)
