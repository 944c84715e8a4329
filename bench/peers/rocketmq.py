"""The peer RocketMQ 5 in DLedger mode. Maven downloads the RocketMQ servers. The Python client uses gRPC through
RocketMQ's proxy."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.installed import Installed
from bench.peers.peer import Description, How, PeerError
from bench.peers.processes import Processes, free_ports

_QUEUES = 4
_BROKER_HEAP, _PROXY_HEAP, _NAMES_HEAP = "1g", "1g", "256m"
_JAVA = ["-XX:+UseG1GC", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"]
_JAVA += [f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in ("sun.nio.ch", "sun.security.action")]
_JAVA += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "java.util")]
_START_S = 300.0
_TIMEOUT_S = 60.0
_CONSUME_S = 300.0
_BULK_IN_FLIGHT = 1_000
_MAKE_TOPIC, _CLUSTER = 17, 106

_BROKER = """
brokerClusterName=DefaultCluster
brokerName=peers
brokerIP1=127.0.0.1
listenPort={port}
haListenPort={ha_port}
namesrvAddr=127.0.0.1:{names}
storePathRootDir={directory}
storePathCommitLog={directory}/commitlog
enableDLegerCommitLog=true
dLegerGroup=peers
dLegerPeers={members}
dLegerSelfId=n{node}
waitTimeMillsInSendQueue=10000
enablePropertyFilter=true
recallMessageEnable=true
"""


class RocketmqServers:
    """Runs a name server, three brokers that form one DLedger group, and a proxy."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._processes = Processes()

    def install(self) -> None:
        self._jars()

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        directory.mkdir(parents=True, exist_ok=True)
        names, proxy, remoting = ports[:3]
        members, copies = ports[3:6], ports[6:9]
        brokers = _broker_ports(ports)
        (directory / "names.conf").write_text(f"listenPort={names}\n")
        self._spawn(directory, "names", _NAMES_HEAP, "namesrv.NamesrvStartup", "-c", "names.conf")
        self._processes.wait_open([names], _START_S)
        for node in range(3):
            text = _BROKER.format(
                node=node,
                port=brokers[node],
                ha_port=copies[node],
                names=names,
                directory=directory / f"node-{node}",
                members=";".join(f"n{place}-127.0.0.1:{port}" for place, port in enumerate(members)),
            )
            (directory / f"node-{node}.conf").write_text(text)
            self._spawn(directory, f"node-{node}", _BROKER_HEAP, "broker.BrokerStartup", "-c", f"node-{node}.conf")
        self._processes.wait_open(brokers, _START_S)
        self._wait_for_leader(f"127.0.0.1:{names}")
        settings = {"rocketMQClusterName": "DefaultCluster", "grpcServerPort": proxy, "remotingListenPort": remoting}
        (directory / "proxy.json").write_text(json.dumps(settings))
        options = ["-n", f"127.0.0.1:{names}", "-pm", "cluster", "-pc", "proxy.json"]
        self._spawn(directory, "proxy", _PROXY_HEAP, "proxy.ProxyStartup", *options)
        self._processes.wait_open([proxy], _START_S)
        return ",".join(f"127.0.0.1:{port}" for port in (proxy, *brokers))

    def _wait_for_leader(self, names: str) -> None:
        """Wait until the brokers have a leader, because the proxy fails to start without a leader."""
        deadline = time.monotonic() + _START_S
        while not _knows_leader(names):
            self._processes.check()
            if time.monotonic() > deadline:
                raise PeerError(f"RocketMQ's brokers have no leader within {_START_S:g} s")
            time.sleep(0.2)

    def stop(self) -> None:
        self._processes.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of all servers that run."""
        return self._processes.pids

    def describe(self) -> Description:
        jar = next(self._jars().glob("rocketmq-broker-*.jar"))
        return Description(
            version=f"RocketMQ {jar.stem.rpartition('-')[2]}, DLedger, heaps {_BROKER_HEAP}, proxy {_PROXY_HEAP}",
            replication=f"a topic of {_QUEUES} queues in one DLedger group of 3, acknowledged by a majority; "
            "`waitTimeMillsInSendQueue=10000`, since by default it refuses some of 1,000 messages in flight",
            flush="in the background (`flushDiskType=ASYNC_FLUSH`, its default)",
            flushes_first=False,
        )

    def _spawn(self, directory: Path, name: str, heap: str, start: str, *options: str) -> None:
        own = f"-Duser.home={directory / name}"  # the directory of its logs
        command = ["java", f"-Xms{heap}", f"-Xmx{heap}", *_JAVA, own, "-cp", f"{self._jars()}/*"]
        environment = {"ROCKETMQ_HOME": str(directory / name)}
        self._processes.spawn(directory, name, [*command, f"org.apache.rocketmq.{start}", *options], environment)

    def _jars(self) -> Path:
        return self._installed.jars("rocketmq")


class RocketmqClient:
    """Drives RocketMQ through the Python client rocketmq-python-client. The client's list of addresses has the address
    of the proxy first, and then the addresses of the brokers, because only the brokers create topics.
    """

    how: ClassVar[How] = How(
        each="`send_async`, the next one when one is acknowledged",
        bulk="the same: it has no batches",
        consume="`PushConsumer` with its default settings, which acknowledges each message",
    )

    most_waiting_clients: ClassVar[int] = 0

    async def open(self, address: str, topic: str) -> None:
        from rocketmq import ClientConfiguration, Credentials

        proxy, *brokers = address.split(",")
        self._topic = topic
        for broker in brokers:
            await _until(partial(_make_topic, topic, broker))
        self._settings = ClientConfiguration(proxy, Credentials(), request_timeout=int(_TIMEOUT_S))
        await _until(self._start_producer)

    def _start_producer(self) -> None:
        from rocketmq import Producer

        self._producer = Producer(self._settings, [self._topic])
        self._producer.startup()

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        from rocketmq import Message

        room, failures = threading.Semaphore(in_flight), []

        def done(sent: Any) -> None:
            if error := sent.exception():
                failures.append(error)
            room.release()

        for value in values:
            message = Message()
            message.topic, message.body = self._topic, value
            room.acquire()
            self._producer.send_async(message).add_done_callback(done)
        for _ in range(in_flight):
            room.acquire()
        if failures:
            raise PeerError(f"RocketMQ did not take {len(failures)} messages: {failures[0]}")

    async def send_one(self, value: bytes) -> None:
        raise NotImplementedError("each client has threads of its own")

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        await self.produce_each(values, _BULK_IN_FLIGHT)

    async def consume(self, count: int) -> list[bytes]:
        from rocketmq import ConsumeResult, FilterExpression, Message, MessageListener, PushConsumer

        found: list[bytes] = []
        all_there = threading.Event()

        class Listener(MessageListener):  # type: ignore[misc]
            def consume(self, message: Message) -> ConsumeResult:
                found.append(message.body)
                if len(found) >= count:
                    all_there.set()
                return ConsumeResult.SUCCESS

        subscription = {self._topic: FilterExpression()}
        consumer = PushConsumer(self._settings, f"readers-of-{self._topic}", Listener(), subscription)
        consumer.startup()
        if not await asyncio.to_thread(all_there.wait, _CONSUME_S):
            raise PeerError(f"RocketMQ gave {len(found)} of {count} messages within {_CONSUME_S:g} s")
        consumer.shutdown()
        return found

    async def close(self) -> None:
        self._producer.shutdown()


async def _until(attempt: Callable[[], None]) -> None:
    """Call `attempt` again and again until it raises no error. The proxy learns of a new topic only after a delay."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return attempt()
        except Exception as error:  # the client raises errors of its own types
            if time.monotonic() > deadline:
                raise PeerError(f"RocketMQ: {error}") from error
        await asyncio.sleep(0.3)


def _make_topic(topic: str, broker: str) -> None:
    """Send the request of `mqadmin updateTopic` directly, which saves the seconds that a Java virtual machine needs
    to start."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": _QUEUES, "writeQueueNums": _QUEUES}
    ask(broker, _MAKE_TOPIC, fields | {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"})


def _broker_ports(taken: Sequence[int]) -> list[int]:
    """Choose three free ports for the brokers. For each port p, port p - 2 is free too, because a broker also
    listens there."""
    from cluster.local.ports import port_is_free  # the client's environment does not have this package

    ports: list[int] = []
    used = set(taken)
    while len(ports) < 3:
        (port,) = free_ports(1)
        if not {port, port - 2} & used and port_is_free(port - 2):
            ports.append(port)
            used |= {port, port - 2}
    return ports


def _knows_leader(names: str) -> bool:
    """Return True if the name server knows a leader. The name server lists a leading broker under the number 0."""
    return b'{0:"' in ask(names, _CLUSTER, {}).replace(b'{"0":"', b'{0:"')


def ask(server: str, code: int, fields: Mapping[str, object], body: bytes = b"") -> bytes:
    """Send a request to a RocketMQ server and return the body of the response. Raise PeerError if the server refuses
    the request.

    A message consists of the number of bytes that follow (u32), the length of the header (u32), the header as JSON,
    and the body.
    """
    told = {"code": code, "language": "PYTHON", "version": 0, "opaque": 1, "flag": 0}
    header = json.dumps(told | {"extFields": {name: str(value) for name, value in fields.items()}}).encode()
    host, _, port = server.partition(":")
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
        answers = connection.makefile("rb")
        total, size = struct.unpack(">II", answers.read(8))
        size &= 0xFFFFFF
        answer = json.loads(answers.read(size))
        told_body = answers.read(total - 4 - size)
    if answer["code"] != 0:
        raise PeerError(f"RocketMQ's {server} refuses request {code}: {answer.get('remark')}")
    return told_body
