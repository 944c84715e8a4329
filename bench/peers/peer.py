"""The interface of a peer: servers that are started for a measurement, and clients that load them."""

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
    """A peer failed. The message says which peer, what it did not do, and what it reported."""


class PeerUnavailableError(PeerError):
    """This machine cannot provide what a peer needs. The message says what is missing, and what to do."""


@dataclass(frozen=True, slots=True)
class Description:
    """Describes the measured configuration in words, for the page."""

    version: str
    # States what an acknowledgement waits for.
    replication: str
    # States what is synced to the disk in this configuration, and when.
    flush: str
    # Whether a majority has synced a message before it is acknowledged. ledgermq is then measured with `flush = sync`.
    flushes_first: bool


class Servers(Protocol):
    """The interface to the servers of a peer: three replicas on this machine."""

    def install(self) -> None:
        """Install what is missing. Raises PeerUnavailableError."""
        ...

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        """Start the servers with all their data below `directory`. Returns the address for clients. Raises
        PeerError.
        """
        ...

    def stop(self) -> None:
        """Stop what was started, also if `start` failed."""
        ...

    def describe(self) -> Description: ...


@dataclass(frozen=True, slots=True)
class How:
    """Names, for the page, the calls that a client uses for each way of sending and consuming."""

    each: str
    bulk: str
    consume: str


class PeerClient(Protocol):
    """The interface to a peer's usual Python client. `open` imports its library, because only load processes have
    it.
    """

    how: ClassVar[How]

    async def open(self, address: str, topic: str) -> None:
        """Connect, and create the topic if it does not exist."""
        ...

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        """Send one message at a time with at most `in_flight` unacknowledged messages. Returns when all are
        acknowledged.
        """
        ...

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        """Send with the batching that the client recommends. Returns when all messages are acknowledged."""
        ...

    async def consume(self, count: int) -> list[bytes]:
        """Return the first `count` messages of the topic."""
        ...

    async def close(self) -> None: ...
