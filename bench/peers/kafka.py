"""The peer Kafka 4 in KRaft mode (without ZooKeeper). Maven downloads the Kafka servers. The Python clients are
confluent-kafka and aiokafka."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.installed import Installed
from bench.peers.peer import Description, How, PeerError
from bench.peers.processes import Processes
from cluster.load.in_flight import keep_in_flight

_PARTITIONS = 4
# Heap of each broker. Heap and garbage collector have the settings of Kafka's own start script.
_HEAP = "1g"
_JAVA = ["java", f"-Xms{_HEAP}", f"-Xmx{_HEAP}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
_JAVA += ["-XX:InitiatingHeapOccupancyPercent=35", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
# The number of messages that may wait in librdkafka, whose default limit is 100,000.
_WAITING = 90_000
_CALL = 10_000
_AIO_BATCH_BYTES = 256 << 10
_TIMEOUT_S = 60.0
# The limit for the start, in seconds. It is high, because three Java virtual machines start on a loaded machine.
_START_S = 300.0

_PROPERTIES = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={directory}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
auto.create.topics.enable=false
"""
# The brokers' default for the setting `flush.messages` of their topics.
_FLUSH_EACH = "log.flush.interval.messages=1\n"


class KafkaServers:
    """Runs three Kafka processes; each process is a broker and a controller."""

    def __init__(self, installed: Installed, *, flushes_each: bool = False) -> None:
        """`flushes_each`: the topics have `flush.messages=1`, so every replica fsyncs what it appends at once."""
        self._installed = installed
        self._flushes_each = flushes_each
        self._processes = Processes()

    def install(self) -> None:
        self._jars()

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        directory.mkdir(parents=True, exist_ok=True)
        brokers, controllers = ports[:3], ports[3:6]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
        java = [*_JAVA, "-cp", f"{self._jars()}/*"]
        for node in range(3):
            properties = directory / f"node-{node}.properties"
            properties.write_text(
                _PROPERTIES.format(
                    node=node,
                    voters=",".join(f"{place}@127.0.0.1:{port}" for place, port in enumerate(controllers)),
                    port=brokers[node],
                    controller=controllers[node],
                    directory=directory / f"node-{node}",
                )
                + (_FLUSH_EACH if self._flushes_each else "")
            )
            _format(["java", *java[1:], "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)])
            self._processes.spawn(directory, f"node-{node}", [*java, "kafka.Kafka", properties])
        self._processes.wait_open(brokers, _START_S)
        return ",".join(f"127.0.0.1:{port}" for port in brokers)

    def stop(self) -> None:
        self._processes.stop()

    @property
    def pids(self) -> Sequence[int]:
        return self._processes.pids

    def describe(self) -> Description:
        jar = next(self._jars().glob("kafka-server-[0-9]*.jar"))
        return Description(
            version=f"Kafka {jar.stem.rpartition('-')[2]}, KRaft, heap {_HEAP}",
            replication=f"a topic of {_PARTITIONS} partitions, 3 replicas, `acks=all` (all in sync, at least 2)",
            flush="`flush.messages=1`: by all replicas in sync before it acknowledges"
            if self._flushes_each
            else "nothing of the messages before it acknowledges; that is left to the system (its default)",
            flushes_first=self._flushes_each,
        )

    def _jars(self) -> Path:
        return self._installed.jars("kafka")


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise PeerError(f"Kafka's StorageTool: {(done.stdout + done.stderr).strip()[-500:]}")


async def _until_made(has_topic: Callable[[], Awaitable[str | None]]) -> None:
    """Call `has_topic` again and again until it returns None. The creation of a topic can take some time, because
    brokers have just started or do not know the leaders yet."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (reason := await has_topic()) is not None:
        if time.monotonic() > deadline:
            raise PeerError(f"Kafka has no topic within {_TIMEOUT_S:g} s: {reason}")
        await asyncio.sleep(0.2)


class ConfluentClient:
    """The Python client confluent-kafka, which uses librdkafka."""

    how: ClassVar[How] = How(
        each="`produce` with a callback for each message, `poll` when so many are in flight",
        bulk=f"`produce_batch` of {_CALL:,} messages to one partition after the other, {_WAITING:,} waiting at most",
        consume=f"`assign`, then `consume({_CALL})`",
    )

    most_waiting_clients: ClassVar[int] = 0

    async def open(self, address: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._address, self._topic = address, topic
        self._producer = Producer({"bootstrap.servers": address, "acks": "all"})
        self._waiting = 0
        self._error: Any = None
        await _until_made(self._has_topic)

    async def _has_topic(self) -> str | None:
        """Create the topic if it does not exist. Return None if the topic is usable, otherwise the reason why not."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(
            {"bootstrap.servers": self._address}
        )  # the futures of a client that was garbage-collected never complete
        made = admin.create_topics([NewTopic(self._topic, _PARTITIONS, 3)])
        try:
            made[self._topic].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                return str(error)
        found = self._producer.list_topics(self._topic, _TIMEOUT_S).topics[self._topic]
        leads = found.error is None and all(one.leader >= 0 for one in found.partitions.values())
        return None if leads else "its partitions have no leaders"

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        for value in values:
            self._wait_until_below(in_flight)
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
            self._waiting += 1
            self._producer.poll(0)
        self._wait_until_below(1)

    async def send_one(self, value: bytes) -> None:
        raise NotImplementedError("each client has threads of its own: asyncio programs use aiokafka")

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        # The partition is given: if librdkafka chooses it for each message, sending takes ten times as long.
        size = min(_CALL, -(-len(values) // _PARTITIONS))  # a short warm-up also reaches all leaders
        for at, partition in zip(range(0, len(values), size), cycle(range(_PARTITIONS)), strict=False):
            batch: list[dict[str, Any]] = [{"value": value} for value in values[at : at + size]]
            self._wait_until_below(_WAITING - _CALL)
            self._waiting += self._producer.produce_batch(self._topic, batch, partition, on_delivery=self._delivered)
            self._producer.poll(0)
            if failed := next((each["_error"] for each in batch if "_error" in each), None):
                raise PeerError(f"Kafka refused a message: {failed}")
        self._wait_until_below(1)

    async def consume(self, count: int) -> list[bytes]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"bootstrap.servers": self._address, "group.id": "bench", "enable.auto.commit": False}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self._topic, place, OFFSET_BEGINNING) for place in range(_PARTITIONS)])
        found: list[bytes] = []
        while len(found) < count:
            for message in consumer.consume(min(_CALL, count - len(found)), timeout=1.0):
                if message.error():
                    raise PeerError(f"Kafka: {message.error()!r}")
                found.append(message.value())
        consumer.close()
        return found

    async def close(self) -> None:
        self._producer.flush(_TIMEOUT_S)

    def _wait_until_below(self, most: int) -> None:
        while self._waiting >= most:
            self._producer.poll(1.0)
        if self._error is not None:
            raise PeerError(f"Kafka did not take a message: {self._error}")

    def _delivered(self, error: Any, message: Any) -> None:
        self._waiting -= 1
        self._error = self._error or error


class AiokafkaClient:
    """Drives Kafka through the Python client aiokafka."""

    how: ClassVar[How] = How(
        each="`send_and_wait`, by as many tasks as are in flight",
        bulk=f"`create_batch` and `send_batch`, {_AIO_BATCH_BYTES >> 10} KiB, round the partitions",
        consume=f"`assign`, then `getmany(max_records={_CALL})`",
    )

    most_waiting_clients: ClassVar[int] = 100

    async def open(self, address: str, topic: str) -> None:
        from aiokafka import AIOKafkaProducer

        self._address, self._topic = address, topic
        await _until_made(self._has_topic)
        self._producer = AIOKafkaProducer(bootstrap_servers=address, acks="all", max_batch_size=_AIO_BATCH_BYTES)
        await self._producer.start()

    async def _has_topic(self) -> str | None:
        """Create the topic if it does not exist. Return None if the topic is usable, otherwise the reason why not."""
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic
        from aiokafka.errors import NoError, TopicAlreadyExistsError

        admin = AIOKafkaAdminClient(bootstrap_servers=self._address)
        await admin.start()
        answer = await admin.create_topics([NewTopic(self._topic, _PARTITIONS, 3)])
        await admin.close()
        code, *words = answer.topic_errors[0][1:]
        return None if code in (NoError.errno, TopicAlreadyExistsError.errno) else f"error {code} {words}"

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        async def send(value: bytes) -> None:
            await self._producer.send_and_wait(self._topic, value)

        await keep_in_flight(send, values, in_flight)

    async def send_one(self, value: bytes) -> None:
        await self._producer.send_and_wait(self._topic, value)

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        sent: list[asyncio.Future[Any]] = []
        for partition, batch in zip(cycle(range(_PARTITIONS)), self._batches(values), strict=False):
            sent.append(await self._producer.send_batch(batch, self._topic, partition=partition))
        await asyncio.gather(*sent)

    def _batches(self, values: Sequence[bytes]) -> Iterator[Any]:
        batch = self._producer.create_batch()
        for value in values:
            if batch.append(key=None, value=value, timestamp=None) is None:
                yield batch
                batch = self._producer.create_batch()
                batch.append(key=None, value=value, timestamp=None)
        yield batch

    async def consume(self, count: int) -> list[bytes]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        partitions = [TopicPartition(self._topic, place) for place in range(_PARTITIONS)]
        consumer = AIOKafkaConsumer(bootstrap_servers=self._address, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        found: list[bytes] = []
        while len(found) < count:
            for messages in (await consumer.getmany(timeout_ms=1000, max_records=_CALL)).values():
                found += [message.value for message in messages]
        await consumer.stop()
        return found

    async def close(self) -> None:
        await self._producer.stop()
