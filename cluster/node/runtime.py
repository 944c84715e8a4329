"""What a shard takes from the world around it, besides its disk: peers, time, chance, clients, and workers beside the
loop.

All of it comes from outside, in one frozen object, so the very same node runs over gRPC, clocks and threads, and in a
simulation over none of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cluster.node.file_limit import file_limit
from cluster.node.formation.first_start import GrpcIntroductions, Introductions
from cluster.node.repair.entry_source import EntrySource, GrpcEntrySource
from cluster.node.vital import Vital
from cluster.node.workers import ThreadWorker, Worker
from ledger.client.connection.environment import PROCESS, Environment
from raft.interfaces import Transport
from raft.transport.grpc_transport import Identity, Receiver
from store import read_boot_id

Addresses = Mapping[int, str]


class PeerTransport(Transport, Protocol):
    """To the peers of one shard, from `start` to `stop`."""

    @property
    def disowned(self) -> str:
        """Why no peer lets this node take part; empty while there is no such reason."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...


class MakeTransport(Protocol):
    def __call__(self, me: Identity, peers: Addresses, receiver: Receiver, /) -> PeerTransport:
        """`receiver` is not called before the transport is started."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> float:
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True)
class Runtime:
    """By default those of a process of its own. All is called in the loop's thread."""

    make_transport: MakeTransport
    introductions: Callable[[Addresses], Introductions] = GrpcIntroductions
    entry_source: Callable[[Addresses], EntrySource] = GrpcEntrySource
    """From which a damaged log is repaired."""
    worker: Callable[[str], Worker] = ThreadWorker
    """Makes a worker of that name."""
    now_ms: Callable[[], int] = now_ms
    """Since 1970; may jump."""
    chance: random.Random = field(default_factory=random.SystemRandom)
    """Of election timeouts and incarnations: no two nodes may have the same."""
    monotonic_ms: Callable[[], float] = monotonic_ms
    """Never goes back, and goes on while the process is stopped."""
    boot_id: Callable[[], str] = read_boot_id
    """Of this run of the machine; what was written in it and not flushed is there until it ends."""
    client: Environment = PROCESS
    """Of the client by which a node asks the others."""
    file_limit: Callable[[], int] = file_limit
    """How many files the process may have open."""
    vital: Vital = field(default_factory=Vital)
