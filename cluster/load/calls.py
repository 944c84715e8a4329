"""Calls of a producer: `send`, `send_nowait` or `send_many`, at a rate or as fast as possible.

    source ── next call, when it is due ──> one of N turns ── call ──> producer
                                                 └── result ──> recorder

A turn takes a call, makes it, waits for its result, and takes the next one. So at most N calls are in flight. A closed
loop takes calls at once; an open loop waits until a call is due (pace.py). The recorder learns the result of every
call: a measurement counts and notes latencies, a test keeps a list, and a chaos run leaves the record to the producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.load.in_flight import all_of
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import RecordMetadata, RecordRange
from ledger.errors import DeliveryTimeoutError, LedgerError

Way = Literal["send", "send-nowait", "send-many"]
# Where the messages of an acknowledged call lie: metadata of the one message, or the ranges of `send_many`.
Receipt = RecordMetadata | list[RecordRange]


# Not frozen: a load may make 100,000 calls a second, and a frozen dataclass takes three times as long to create.
@dataclass(slots=True)
class ProducerCall:
    """One call of a producer. Only `send_many` has more than one value.

    `number` is the number of the first value within the load. `due_ns` is when the call was due, on the clock of
    `time.perf_counter_ns`; a closed loop sets it to the beginning of the call.
    """

    way: Way
    topic: str
    values: Sequence[bytes]
    key: bytes | None = None
    tag: str | None = None
    queue: int | None = None
    number: int = 0
    due_ns: int = 0


class CallRecorder(Protocol):
    """Learns the result of every call."""

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        """All messages of the call are committed."""

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        """The call failed, perhaps in part: see `is_unknown` and `error.acknowledged`. Raises to end the load."""


# Returns the next call when it is due; None when the load ends.
CallSource = Callable[[], Awaitable[ProducerCall | None]]


async def make_calls(
    producers: Sequence[AsyncProducer],
    source: CallSource,
    recorder: CallRecorder,
    in_flight: int,
    *,
    pause_after_failure_s: float = 0.0,
) -> None:
    """Make the calls of `source` until it ends. At most `in_flight` calls are under way, shared by the producers.

    Returns when every call has a result. Raises what the recorder raises.
    """

    async def turns(producer: AsyncProducer) -> None:
        # The same steps as make_call, without its coroutine: a load may make 100,000 calls a second.
        while (call := await source()) is not None:
            try:
                receipt = await _begun(producer, call)
            except LedgerError as error:
                recorder.record_failed(call, error)
                if pause_after_failure_s:
                    await asyncio.sleep(pause_after_failure_s)
            else:
                recorder.record_acknowledged(call, receipt)

    await all_of(turns(producers[turn % len(producers)]) for turn in range(in_flight))


async def make_call(producer: AsyncProducer, call: ProducerCall, recorder: CallRecorder) -> None:
    """Make one call, and tell the recorder its result."""
    try:
        receipt = await _begun(producer, call)
    except LedgerError as error:
        recorder.record_failed(call, error)
    else:
        recorder.record_acknowledged(call, receipt)


def start_call(producer: AsyncProducer, call: ProducerCall) -> asyncio.Future[RecordMetadata]:
    """Begin a `send_nowait` and return its future. Raises an error if the producer does not take the message."""
    return producer.send_nowait(call.topic, call.values[0], key=call.key, tag=call.tag, queue=call.queue)


def _begun(producer: AsyncProducer, call: ProducerCall) -> Awaitable[Receipt]:
    if call.way == "send":
        return producer.send(call.topic, call.values[0], key=call.key, tag=call.tag, queue=call.queue)
    if call.way == "send-many":
        return producer.send_many(call.topic, call.values, key=call.key, tag=call.tag, queue=call.queue)
    return start_call(producer, call)


def is_unknown(error: LedgerError) -> bool:
    """Whether the messages of a failed call may be committed all the same."""
    return isinstance(error, DeliveryTimeoutError) and error.maybe_committed
