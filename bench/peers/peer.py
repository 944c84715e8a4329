"""Defines the interface of a peer. A peer has servers, which are started for a measurement, and clients, which put
load on the servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

Way = Literal["each", "bulk", "consume"]
WAYS: tuple[Way, ...] = ("each", "bulk", "consume")
# How many free ports of the loopback interface `Servers.start` receives.
PORTS = 12


class PeerError(Exception):
    """A server or client of a peer failed. The message names the peer, the step that failed, and the error that the
    peer reported."""


class PeerUnavailableError(PeerError):
    """This machine cannot run a peer. The message says what is missing and what the user can do."""


@dataclass(frozen=True, slots=True)
class Description:
    """Describes the measured configuration of a peer in words, for the page of results."""

    version: str
    # States what an acknowledgement waits for.
    replication: str
    # States what is synced to the disk in this configuration, and when.
    flush: str
    # Whether a majority has synced a message before it is acknowledged. ledgermq is then measured with `flush = sync`.
    flushes_first: bool


class Servers(Protocol):
    """The interface to the servers of a peer, which run as three replicas on this machine."""

    def install(self) -> None:
        """Install the missing programs and libraries. Raises PeerUnavailableError."""
        ...

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        """Start the servers with all their data below `directory`. Return the address for clients. Raises PeerError."""
        ...

    def stop(self) -> None:
        """Stop all processes that were started, also if `start` failed."""
        ...

    def describe(self) -> Description: ...

    @property
    def pids(self) -> Sequence[int]:
        """The processes of the servers that run."""
        ...


@dataclass(frozen=True, slots=True)
class How:
    """Names the client's method for each way of sending and consuming, for the page of results."""

    each: str
    bulk: str
    consume: str


class PeerClient(Protocol):
    """The interface to the usual Python client of a peer. The client's library is imported in `open`, because it is
    installed only in the environment of load processes.
    """

    how: ClassVar[How]
    # How many clients of this kind can be measured in one process, each of which awaits its sends. 0: none.
    most_waiting_clients: ClassVar[int]

    async def open(self, address: str, topic: str) -> None:
        """Connect, and create the topic if it does not exist."""
        ...

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        """Send one message at a time with at most `in_flight` unacknowledged messages. Return when all messages are
        acknowledged.
        """
        ...

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        """Send the messages with the batching that the client's documentation recommends. Return when all messages
        are acknowledged."""
        ...

    async def send_one(self, value: bytes) -> None:
        """Send one message, and return when it is acknowledged."""
        ...

    async def consume(self, count: int) -> list[bytes]:
        """Return the first `count` messages of the topic."""
        ...

    async def close(self) -> None: ...
