"""Defines the runtime of a node: the transports, clocks, randomness, clients and worker threads that the node receives
when it is created.

A node has one `Runtime`, an immutable object. A real node gets gRPC, clocks and threads; the simulator gives the same
code its own implementations.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cluster.node.formation.first_start import GrpcIntroductions, Introductions
from cluster.node.process.file_limit import file_limit
from cluster.node.process.vital import Vital
from cluster.node.process.waits import shared_wait_s
from cluster.node.process.workers import ThreadWorker, Worker
from cluster.node.repair.entry_source import EntrySource, GrpcEntrySource
from ledger.client.connection.environment import PROCESS, Environment
from ledger.state.feature_levels import LATEST_LEVEL
from raft.interfaces import Transport
from raft.transport.grpc_transport import Identity, Receiver
from store import read_boot_id

Addresses = Mapping[int, str]


class PeerTransport(Transport, Protocol):
    """The transport to the peers of one shard, which runs from `start` to `stop`."""

    @property
    def disowned(self) -> str:
        """Return the reason why the peers refuse this node, or "" while they do not refuse it."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...


class MakeTransport(Protocol):
    def __call__(self, me: Identity, peers: Addresses, receiver: Receiver, /) -> PeerTransport:
        """Return a transport for the node `me`. The transport calls `receiver` only after `start` was called on the
        transport."""


def now_ms() -> int:
    """Return the time of day in ms since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> float:
    """Return the time in ms of a clock that never goes back."""
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True)
class Runtime:
    """The clock, the threads, the transport and other services that one node gets from its environment. The default
    values are what a real node process uses. The simulator gives other values. The node calls all members of a
    `Runtime` in the thread of the event loop."""

    # Creates the transport of one shard.
    make_transport: MakeTransport
    # Creates the connections over which a node asks other nodes for introductions.
    introductions: Callable[[Addresses], Introductions] = GrpcIntroductions
    # Creates the connections over which a node requests entries to repair a damaged log.
    entry_source: Callable[[Addresses], EntrySource] = GrpcEntrySource
    # Creates a worker with the given name.
    worker: Callable[[str], Worker] = ThreadWorker
    # The time of day in ms since 1970. It may jump.
    now_ms: Callable[[], int] = now_ms
    # The randomness of election timeouts and incarnations. Two nodes must not have the same random numbers.
    chance: random.Random = field(default_factory=random.SystemRandom)
    # Secrets: tokens, salts and the random numbers of proofs.
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
    # A clock in ms that never goes back and continues while the process is stopped.
    monotonic_ms: Callable[[], float] = monotonic_ms
    # Identifies this run of the machine. Unflushed writes survive a kill of the node, and are lost when the machine
    # restarts.
    boot_id: Callable[[], str] = read_boot_id
    # The environment of the clients by which a node calls other nodes.
    client: Environment = PROCESS
    # The highest feature level that this program knows. The simulator also plays older programs.
    latest_level: int = LATEST_LEVEL
    # The limit of open files of the process.
    file_limit: Callable[[], int] = file_limit
    # Returns a wait in seconds, at most as long as the given one, that ends together with other waits of the process.
    # Regular looks wait so, and the simulator leaves each wait as it is.
    shared_wait_s: Callable[[float], float] = shared_wait_s
    # Runs the work whose failure ends the node.
    vital: Vital = field(default_factory=Vital)

    def monotonic_s(self) -> float:
        """Return the time of `monotonic_ms` in seconds."""
        return self.monotonic_ms() / 1000
