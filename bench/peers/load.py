"""A load process: one client, one way, one measurement. Run as `python -m bench.peers.load JSON`, it answers in JSON.

Payloads follow from a seed, so the process that consumes makes anew what others have sent, and compares. It must not
know which peer it has, beyond the name of its client's class.
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

from bench.peers.peer import Client, Way

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Sent:
    """`count` messages of some size that follow from `seed`."""

    seed: str
    count: int


@dataclass(frozen=True, slots=True)
class Order:
    """What a load process is to do. To produce: `sent` is one, of which the first `warm` go before the clock starts.
    To consume: all of `sent`, in any order."""

    # module:class
    client: str
    address: str
    topic: str
    way: Way
    size: int
    sent: list[Sent]
    warm: int = 0
    in_flight: int = 1000

    @classmethod
    def of(cls, text: str) -> Order:
        raw = json.loads(text)
        return cls(**raw | {"sent": [Sent(**each) for each in raw["sent"]]})


@dataclass(frozen=True, slots=True)
class Compared:
    """What was consumed, against what was sent."""

    missing: int
    strange: int
    twice: int

    @property
    def alike(self) -> bool:
        return not (self.missing or self.strange or self.twice)


@dataclass(frozen=True, slots=True)
class Answer:
    """`messages` were acknowledged, or consumed, within `seconds`."""

    messages: int
    seconds: float
    compared: Compared | None = None

    @classmethod
    def of(cls, text: str) -> Answer:
        raw = json.loads(text)
        compared = raw["compared"]
        return cls(raw["messages"], raw["seconds"], Compared(**compared) if compared else None)


def payloads(sent: Sent, size: int) -> list[bytes]:
    """Random bytes: all different, and nothing compresses them."""
    source, block = random.Random(sent.seed), max(1, _BLOCK_BYTES // size)
    found: list[bytes] = []
    while len(found) < sent.count:
        data = source.randbytes(size * min(block, sent.count - len(found)))
        found += [data[at : at + size] for at in range(0, len(data), size)]
    return found


def compare(wanted: Sequence[bytes], got: Sequence[bytes]) -> Compared:
    """As multisets: the order of several queues is nobody's promise."""
    expected, found = set(wanted), set(got)
    return Compared(len(expected - found), len(found - expected), len(got) - len(found))


async def run(order: Order, client: Client) -> Answer:
    """Does it, from the client's opening to its end."""
    values = [value for sent in order.sent for value in payloads(sent, order.size)]
    await client.open(order.address, order.topic)
    try:
        if order.way == "consume":
            return await _consume(client, values)
        return await _produce(order, client, values)
    finally:
        await client.close()


async def _consume(client: Client, values: list[bytes]) -> Answer:
    gc.collect()
    started = time.perf_counter()
    got = await client.consume(len(values))
    seconds = time.perf_counter() - started
    return Answer(len(got), seconds, compare(values, got))


async def _produce(order: Order, client: Client, values: list[bytes]) -> Answer:
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
    return Answer(len(measured), time.perf_counter() - started)


def client_named(name: str) -> Client:
    """By `module:class`."""
    module, _, kind = name.partition(":")
    return cast(Client, getattr(importlib.import_module(module), kind)())


def _loop(work: Any) -> Any:
    """On uvloop, all clients alike."""
    import uvloop

    return uvloop.run(work)


def main() -> int:
    """The answer goes to standard output; what went wrong, as one sentence, to standard error."""
    order = Order.of(sys.argv[1])
    try:
        answer = _loop(run(order, client_named(order.client)))
    except Exception as error:
        first = _first(error)
        print(f"{type(first).__name__}: {first}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(answer)))
    return 0


def _first(error: BaseException) -> BaseException:
    """Of several tasks that failed, most likely for the same reason."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


if __name__ == "__main__":
    raise SystemExit(main())
