"""A load process, in which one client makes one measurement. The command `python -m bench.peers.load JSON` prints the
result of the measurement as JSON.

The payloads of messages are computed from a seed. A consuming process can therefore compute the payloads that another
process sent, and compare them with the payloads that it received. This module does not know which peer it measures; it
knows only the name of the client's class.
"""

from __future__ import annotations

import gc
import importlib
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from bench.peers.peer import PeerClient, Way
from cluster.load.seeded_payloads import same_size_payloads


@dataclass(frozen=True, slots=True)
class SeededMessages:
    """The description of `count` messages that are computed from `seed`."""

    seed: str
    count: int

    def payloads(self, size: int) -> list[bytes]:
        """Return the payloads of the messages, each of `size` bytes."""
        return same_size_payloads(random.Random(self.seed), self.count, size)


@dataclass(frozen=True, slots=True)
class PeerLoadOrder:
    """Tells one load process what to send or receive. If the process produces, `sent` has one element, and the first
    `warm` messages of this element are sent before the clock starts. If the process consumes, it reads all messages of
    `sent`, in any order.
    """

    # The client's class, as module:class.
    client: str
    address: str
    topic: str
    way: Way
    size: int
    sent: list[SeededMessages]
    warm: int = 0
    in_flight: int = 1000

    @classmethod
    def of(cls, text: str) -> PeerLoadOrder:
        raw = json.loads(text)
        return cls(**raw | {"sent": [SeededMessages(**each) for each in raw["sent"]]})


@dataclass(frozen=True, slots=True)
class MessageDifferences:
    """The differences between sent and consumed messages: how many messages are missing, how many were never sent,
    and how many came twice."""

    missing: int
    strange: int
    twice: int

    @property
    def alike(self) -> bool:
        return not (self.missing or self.strange or self.twice)


@dataclass(frozen=True, slots=True)
class PeerLoadResult:
    """The process sent (until acknowledged) or consumed `messages` messages within `seconds` seconds."""

    messages: int
    seconds: float
    compared: MessageDifferences | None = None

    @classmethod
    def of(cls, text: str) -> PeerLoadResult:
        raw = json.loads(text)
        compared = raw["compared"]
        return cls(raw["messages"], raw["seconds"], MessageDifferences(**compared) if compared else None)


def compare(wanted: Sequence[bytes], got: Sequence[bytes]) -> MessageDifferences:
    """Compare the sent and the consumed messages as multisets, because the order of messages of different queues is
    not promised."""
    expected, found = set(wanted), set(got)
    return MessageDifferences(len(expected - found), len(found - expected), len(got) - len(found))


async def run(order: PeerLoadOrder, client: PeerClient) -> PeerLoadResult:
    """Open the client, make the measurement, and close the client."""
    values = [
        value for sent in order.sent for value in same_size_payloads(random.Random(sent.seed), sent.count, order.size)
    ]
    await client.open(order.address, order.topic)
    try:
        if order.way == "consume":
            return await _consume(client, values)
        return await _produce(order, client, values)
    finally:
        await client.close()


async def _consume(client: PeerClient, values: list[bytes]) -> PeerLoadResult:
    gc.collect()
    started = time.perf_counter()
    got = await client.consume(len(values))
    seconds = time.perf_counter() - started
    return PeerLoadResult(len(got), seconds, compare(values, got))


async def _produce(order: PeerLoadOrder, client: PeerClient, values: list[bytes]) -> PeerLoadResult:
    async def produce(some: list[bytes]) -> None:
        if order.way == "each":
            await client.produce_each(some, order.in_flight)
        else:
            await client.produce_bulk(some)

    if order.warm:
        await produce(values[: order.warm])
    measured = values[order.warm :]
    gc.collect()
    started = time.perf_counter()
    await produce(measured)
    return PeerLoadResult(len(measured), time.perf_counter() - started)


def client_named(name: str) -> PeerClient:
    """Create an object of the client class with the name `module:class`."""
    module, _, kind = name.partition(":")
    return cast(PeerClient, getattr(importlib.import_module(module), kind)())


def _loop(work: Any) -> Any:
    """Run the coroutine on uvloop. All clients use uvloop, so that the comparison is fair."""
    import uvloop

    return uvloop.run(work)


def main() -> int:
    """Make the measurement and print the result to standard output. An error is printed as one sentence to standard
    error."""
    order = PeerLoadOrder.of(sys.argv[1])
    try:
        answer = _loop(run(order, client_named(order.client)))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(answer)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
