"""The peer etcd: Debian's etcd-server with the Python client aetcd. etcd has no queues, so each topic is a range of
numbered keys.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from itertools import count as numbers_from
from itertools import islice
from pathlib import Path
from typing import ClassVar

from bench.peers.installed import Installed
from bench.peers.peer import Description, How, PeerError
from bench.peers.processes import Processes
from cluster.load.in_flight import keep_in_flight

# The largest number of operations that etcd accepts in one transaction (its default).
_TRANSACTION = 128
_TRANSACTIONS_IN_FLIGHT = 16
_PAGE = 1_000
_QUOTA_BYTES = 8 << 30


class EtcdServers:
    """Runs the three members of one etcd cluster."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._processes = Processes()

    def install(self) -> None:
        self._program()

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        clients, peers = ([f"http://127.0.0.1:{port}" for port in some] for some in (ports[:3], ports[3:6]))
        members = ",".join(f"node-{node}={peers[node]}" for node in range(3))
        for node in range(3):
            command: list[str | Path] = [self._program(), "--name", f"node-{node}"]
            command += ["--data-dir", directory / f"node-{node}", "--log-level", "warn"]
            command += ["--listen-client-urls", clients[node], "--advertise-client-urls", clients[node]]
            command += ["--listen-peer-urls", peers[node], "--initial-advertise-peer-urls", peers[node]]
            command += ["--initial-cluster", members, "--quota-backend-bytes", str(_QUOTA_BYTES)]
            self._processes.spawn(directory, f"node-{node}", command)
        self._processes.wait_open(ports[:3])
        return f"127.0.0.1:{ports[0]}"

    def stop(self) -> None:
        self._processes.stop()

    @property
    def pids(self) -> Sequence[int]:
        return self._processes.pids

    def describe(self) -> Description:
        done = subprocess.run([self._program(), "--version"], capture_output=True, text=True, check=True)
        return Description(
            version=done.stdout.splitlines()[0],
            replication="one Raft group of 3, acknowledged by a majority and applied",
            flush="its log, by every member before that counts; its B+ tree every 100 ms",
            flushes_first=True,
        )

    def _program(self) -> Path:
        return self._installed.program("etcd-server", "etcd")


class EtcdClient:
    """Drives etcd through the Python client aetcd. An additional key stores how many keys a topic has; the client
    writes this key when it is closed."""

    how: ClassVar[How] = How(
        each="`put` of a key of its own, awaited by as many tasks as are in flight",
        bulk=f"`transaction` of {_TRANSACTION} puts, {_TRANSACTIONS_IN_FLIGHT} in flight",
        consume=f"`get_range` of {_PAGE:,} keys after the other",
    )

    most_waiting_clients: ClassVar[int] = 1_000

    async def open(self, address: str, topic: str) -> None:
        import aetcd

        host, _, port = address.partition(":")
        self._client = aetcd.Client(host, int(port), timeout=60)
        self._topic = topic
        self._end_key = f"ends/{topic}".encode()
        end = await self._client.get(self._end_key)
        self._first = int(end.value) if end else 0
        self._numbers = numbers_from(self._first)

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        async def send(value: bytes) -> None:
            await self._client.put(self._key(next(self._numbers)), value)

        await keep_in_flight(send, values, in_flight)

    async def send_one(self, value: bytes) -> None:
        # Clients of several processes write to the same range, so a number would not make a new key.
        await self._client.put(b"topics/%s/%s" % (self._topic.encode(), value[:16]), value)

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        put = self._client.transactions.put

        async def send(some: list[bytes]) -> None:
            puts = [put(self._key(next(self._numbers)), value) for value in some]
            done, _ = await self._client.transaction(compare=[], success=puts, failure=[])
            if not done:
                raise PeerError("etcd rejected a transaction without conditions")

        await keep_in_flight(send, _transactions(values), _TRANSACTIONS_IN_FLIGHT)

    async def consume(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        for first in range(0, count, _PAGE):
            page = await self._client.get_range(self._key(first), self._key(min(first + _PAGE, count)))
            found += [pair.value for pair in page]
        return found

    async def close(self) -> None:
        end = next(self._numbers)
        if end > self._first:
            await self._client.put(self._end_key, str(end).encode())
        await self._client.close()

    def _key(self, number: int) -> bytes:
        return b"topics/%s/%012d" % (self._topic.encode(), number)


def _transactions(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    left = iter(values)
    while some := list(islice(left, _TRANSACTION)):
        yield some
