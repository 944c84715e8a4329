"""The peer RabbitMQ with quorum queues: Debian's rabbitmq-server with the Python client aio-pika."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.installed import Installed
from bench.peers.peer import Description, How, PeerError, PeerUnavailableError
from bench.peers.processes import Processes
from cluster.load.in_flight import keep_in_flight

_PACKAGE = "rabbitmq-server"
_BULK_IN_FLIGHT = 4_000
_PREFETCH = 2_000
_ACKNOWLEDGED_AT_ONCE = 500
_NODES = [f"node-{node}@localhost" for node in range(3)]
_START_S = 180.0

_CONFIG = """
listeners.tcp.1 = 127.0.0.1:{port}
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = {nodes[0]}
cluster_formation.classic_config.nodes.2 = {nodes[1]}
cluster_formation.classic_config.nodes.3 = {nodes[2]}
"""
# A start script for Erlang. Erlang's own script works only in /usr/lib/erlang.
_ERL = """#!/bin/sh
export ROOTDIR={erlang} BINDIR={machine}/bin EMU=beam PROGNAME=erl
exec "$BINDIR/erlexec" "$@"
"""


class RabbitmqServers:
    """Runs three RabbitMQ nodes of one cluster, and a separate epmd (Erlang's port mapper), through which the nodes
    find each other."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._processes = Processes()

    def install(self) -> None:
        self._scripts()
        self._virtual_machine()

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        names, clients, between = ports[0], ports[1:4], ports[4:7]
        self._write_erl(directory)
        self._processes.spawn(
            directory, "epmd", [self._virtual_machine() / "bin" / "epmd", "-address", "127.0.0.1", "-port", str(names)]
        )
        self._processes.wait_open([names])
        for node in range(3):  # one after another: the first node forms the cluster
            environment = self._environment(directory, node) | {
                "ERL_EPMD_PORT": str(names),
                "RABBITMQ_DIST_PORT": str(between[node]),
            }
            config = directory / f"node-{node}" / "rabbitmq.conf"
            config.write_text(_CONFIG.format(port=clients[node], nodes=_NODES))
            self._processes.spawn(directory, f"node-{node}", [self._scripts() / "rabbitmq-server"], environment)
            self._processes.wait_open([clients[node]], _START_S)
        self._wait_joined(directory)
        return ",".join(f"amqp://guest:guest@127.0.0.1:{port}/" for port in clients)

    def _wait_joined(self, directory: Path) -> None:
        """Wait until the nodes form a cluster; raise PeerError if they do not. In an incomplete cluster, a quorum
        queue would have only one member and would be faster.
        """
        log, deadline = directory / "node-0" / f"{_NODES[0]}.log", time.monotonic() + _START_S
        while lonely := [node for node in _NODES[1:] if f"rabbit on node '{node}' up" not in log.read_text()]:
            if time.monotonic() > deadline:
                raise PeerError(f"RabbitMQ: {', '.join(lonely)} did not join {_NODES[0]} within {_START_S:g} s")
            time.sleep(0.2)

    def stop(self) -> None:
        self._processes.stop()

    @property
    def pids(self) -> Sequence[int]:
        return self._processes.pids

    def describe(self) -> Description:
        return Description(
            version=f"RabbitMQ {self._scripts().parent.name.rpartition('-')[2]}",
            replication="a quorum queue with 3 members, confirmed by a majority (Raft)",
            flush="its write-ahead log, by every member before that counts",
            flushes_first=True,
        )

    def _environment(self, directory: Path, node: int) -> dict[str, str]:
        own = directory / f"node-{node}"
        own.mkdir(parents=True)
        (own / "enabled_plugins").write_text("[].\n")
        libraries = self._installed.debian(_PACKAGE) / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
        return {
            "HOME": str(directory),  # contains the cookie, which the first node creates
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(libraries),
            "RABBITMQ_CONF_ENV_FILE": str(own / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(own / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(own / "enabled_plugins"),
            "RABBITMQ_LOG_BASE": str(own),
            "RABBITMQ_MNESIA_BASE": str(own),
            "RABBITMQ_NODENAME": _NODES[node],
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _write_erl(self, directory: Path) -> None:
        machine, script = self._virtual_machine(), directory / "bin" / "erl"
        script.parent.mkdir(parents=True)
        script.write_text(_ERL.format(erlang=machine.parent, machine=machine))
        script.chmod(0o755)

    def _scripts(self) -> Path:
        return self._only("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")

    def _virtual_machine(self) -> Path:
        return self._only("usr/lib/erlang/erts-*")

    def _only(self, pattern: str) -> Path:
        """Return the path that matches `pattern`, in the unpacked package or, if the package is installed there, in
        the system."""
        for root in (self._installed.debian(_PACKAGE), Path("/")):
            if found := next(root.glob(pattern), None):
                return found
        raise PeerUnavailableError(f"Debian's {_PACKAGE} has no /{pattern}: this Debian release may be unsupported")


class RabbitmqClient:
    """Drives RabbitMQ through the Python client aio-pika. Each topic is one queue."""

    how: ClassVar[How] = How(
        each="`publish` of a persistent message, whose confirmation as many tasks as are in flight await",
        bulk=f"the same with {_BULK_IN_FLIGHT:,} in flight: it has no batches",
        consume=f"`consume` with a prefetch of {_PREFETCH:,}, acknowledged {_ACKNOWLEDGED_AT_ONCE} at once",
    )

    most_waiting_clients: ClassVar[int] = 1_000

    async def open(self, address: str, topic: str) -> None:
        import aio_pika

        self._kinds = aio_pika
        self._connection = await aio_pika.connect(address.split(",")[0])
        self._channel = await self._connection.channel()
        await self._channel.set_qos(prefetch_count=_PREFETCH)
        arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3}
        self._queue = await self._channel.declare_queue(topic, durable=True, arguments=arguments)

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        exchange, name = self._channel.default_exchange, self._queue.name
        message, persistent = self._kinds.Message, self._kinds.DeliveryMode.PERSISTENT

        async def send(value: bytes) -> None:
            await exchange.publish(message(value, delivery_mode=persistent), name)

        await keep_in_flight(send, values, in_flight)

    async def send_one(self, value: bytes) -> None:
        message = self._kinds.Message(value, delivery_mode=self._kinds.DeliveryMode.PERSISTENT)
        await self._channel.default_exchange.publish(message, self._queue.name)

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        await self.produce_each(values, _BULK_IN_FLIGHT)

    async def consume(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        done = asyncio.Event()

        async def take(message: Any) -> None:
            found.append(message.body)
            if len(found) % _ACKNOWLEDGED_AT_ONCE == 0 or len(found) == count:
                await message.ack(multiple=True)
            if len(found) == count:
                done.set()

        await self._queue.consume(take)
        await done.wait()
        return found

    async def close(self) -> None:
        await self._connection.close()
