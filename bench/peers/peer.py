"""What a peer is: servers that are started for a measurement, and clients that put load on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeVar

T = TypeVar("T")
Way = Literal["each", "bulk", "consume"]
WAYS: tuple[Way, ...] = ("each", "bulk", "consume")
# So many free ports of the loopback interface `Servers.start` is given.
PORTS = 12


class PeerError(Exception):
    """A peer did not do what it was told; the message says which one, what, and what it said itself."""


class UnavailableError(PeerError):
    """What a peer needs cannot be had on this machine; the message says what, and the way out where there is one."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is measured, in words for the page."""

    version: str
    # What an acknowledgement waits for.
    replication: str
    # What is fsynced, and when, as configured here.
    flush: str
    # Whether a majority has fsynced what is acknowledged. ledgermq is then measured with `flush = sync`.
    flushes_first: bool


class Servers(Protocol):
    """The three replicas of a peer, on this machine."""

    def install(self) -> None:
        """What is missing. Raises UnavailableError."""
        ...

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        """Starts them with all their data below `directory`; gives the address for clients. Raises PeerError."""
        ...

    def stop(self) -> None:
        """Ends what was started, whether or not `start` came to its end."""
        ...

    def describe(self) -> Description: ...


@dataclass(frozen=True, slots=True)
class How:
    """By what calls a client does each way, in words for the page."""

    each: str
    bulk: str
    consume: str


class Client(Protocol):
    """A peer's usual Python client. Its library is imported by `open`, since only load processes have it."""

    how: ClassVar[How]

    async def open(self, address: str, topic: str) -> None:
        """Connects, and makes the topic where it is not there yet."""
        ...

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        """One send for each message, at most so many not acknowledged; returns when all are acknowledged."""
        ...

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        """With the batching that the client recommends; returns when all are acknowledged."""
        ...

    async def consume(self, count: int) -> list[bytes]:
        """The first `count` messages of the topic."""
        ...

    async def close(self) -> None: ...


async def keep_in_flight(send: Callable[[T], Awaitable[object]], values: Iterable[T], in_flight: int) -> None:
    """Awaits `send` for every value, so many at a time: each is a turn of one of that many tasks."""
    left = iter(values)

    async def turns() -> None:
        for value in left:
            await send(value)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(turns())
