"""Reads messages from a consumer, as objects or as arrays, until the consumer reaches given offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cluster.load.failure import LoadError
from cluster.load.stamped_payloads import rows_of, rows_of_values
from ledger.batch import Batch
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.records import TopicQueue

Shape = Literal["arrays", "objects"]
_AT_ONCE = 20_000
_WAIT_MS = 500.0


@dataclass(frozen=True, slots=True)
class TakenMessages:
    """The values of `Message` objects that a consumer has returned."""

    values: list[bytes]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        return sum(map(len, self.values))

    def rows(self) -> Iterable[NDArray[np.uint8]]:
        """Return two-dimensional arrays in which each row is one value, with one array for each length of values.
        Raises LoadError if a value is too short for a stamp.
        """
        return rows_of_values(self.values)


@dataclass(frozen=True, slots=True)
class TakenBatches:
    """The arrays of messages (one `Batch` for each fetched batch) that a consumer has returned."""

    batches: list[Batch]

    @property
    def count(self) -> int:
        return sum(map(len, self.batches))

    @property
    def size(self) -> int:
        return sum(len(batch.bodies) for batch in self.batches)

    def rows(self) -> Iterable[NDArray[np.uint8]]:
        """Return two-dimensional arrays in which each row is one value, with one array for each batch. Raises
        LoadError if a value is too short for a stamp.
        """
        return (rows_of(batch.bodies, len(batch)) for batch in self.batches)


async def take(consumer: AsyncConsumer | AsyncGroupConsumer, shape: Shape) -> TakenMessages | TakenBatches:
    """Wait at most half a second for messages, and return all messages that the consumer has ready. Only
    `AsyncConsumer` can return arrays."""
    if shape == "objects":
        return TakenMessages([message.value for message in await consumer.getmany(_AT_ONCE, _WAIT_MS)])
    assert isinstance(consumer, AsyncConsumer)
    return TakenBatches([batch for _, _, batch in await consumer.getbatches(_WAIT_MS)])


async def read_to_the_ends(
    consumer: AsyncConsumer,
    ends: Mapping[TopicQueue, int],
    poll: Callable[[], Awaitable[int]],
    *,
    silence_s: float = float("inf"),
    stop: asyncio.Event | None = None,
) -> None:
    """Call `poll` again and again until the consumer has reached all offsets in `ends`, or until `stop` is set.

    `poll` polls the consumer, processes the messages, and returns the number of messages. Raises LoadError if no
    message comes for `silence_s` seconds.
    """
    heard = time.monotonic()
    while left := {place: end for place, end in ends.items() if consumer.position(*place) < end}:
        if stop is not None and stop.is_set():
            return
        if await poll():
            heard = time.monotonic()
        elif time.monotonic() - heard > silence_s:
            at = ", ".join(
                f"queue {queue}: {consumer.position(topic, queue)} of {end}" for (topic, queue), end in left.items()
            )
            raise LoadError(f"no message came for {silence_s:g} s before the end ({at})")
