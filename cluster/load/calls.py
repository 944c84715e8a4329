"""Makes calls of a producer (`send`, `send_nowait` or `send_many`) at a given rate or as fast as possible.

    source ── next call, when it is due ──> one of N turns ── call ──> producer
                                                 └── result ──> recorder

The number of tasks of a load is the largest number of calls that are allowed in flight. Each task takes a call, makes
it, waits for its result, and takes the next call. In a closed loop, a task makes its call immediately; in an open
loop, it waits until the call is due (pace.py). The recorder learns the result of every call. The recorder of a
measurement counts results and collects latencies, and the recorder of a test keeps a list. In a chaos run, the
producer itself writes the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
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
    """A call of a producer that a load makes. `values` has more than one value only for `send_many`.

    `number` is the number of the first value. The values of the whole load are numbered from 0. `due_ns` is the time
    at which the call was due, on the clock of `time.perf_counter_ns`. In a closed loop, `due_ns` is the time at which
    the call began.
    """

    way: Way
    topic: str
    values: Sequence[bytes]
    key: bytes | None = None
    tag: str | None = None
    queue: int | None = None
    number: int = 0
    due_ns: int = 0
    # Only of calls with one message. A `timestamp_ms` of None means the present time.
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    # The delivery time of all messages; not of calls of `send`.
    deliver_at: datetime | None = None
    delay: timedelta | None = None
    # The look-up keys of all messages; not of calls of `send`.
    look_up_keys: tuple[bytes, ...] = ()
    # Only of calls of `send_nowait`.
    message_id: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """True if the messages have neither a delivery time nor look-up keys nor an id."""
        return self.deliver_at is None and self.delay is None and not self.look_up_keys and self.message_id is None


class CallRecorder(Protocol):
    """The interface of a recorder, which learns the result of every call of a load."""

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        """Record that all messages of the call are committed."""

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        """Record that the call failed. `error.acknowledged` has those messages of the call that were acknowledged.
        `is_unknown` says whether other messages of the call were possibly committed. The recorder ends the load by
        raising an error from this method."""


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
    """Make calls until `source` has no more calls. All producers together have at most `in_flight` calls under way.

    The function returns when every call has a result. An error that the recorder raises ends the load and is raised
    again.
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
    """Make one call, and report its result to the recorder."""
    try:
        receipt = await _begun(producer, call)
    except LedgerError as error:
        recorder.record_failed(call, error)
    else:
        recorder.record_acknowledged(call, receipt)


def start_call(producer: AsyncProducer, call: ProducerCall) -> asyncio.Future[RecordMetadata]:
    """Start a call of `send_nowait` and return its future. Raises an error if the producer refuses the message."""
    if call.headers or call.timestamp_ms is not None or not call.is_plain:
        return producer.send_nowait(
            call.topic,
            call.values[0],
            key=call.key,
            tag=call.tag,
            headers=call.headers,
            timestamp_ms=call.timestamp_ms,
            queue=call.queue,
            deliver_at=call.deliver_at,
            delay=call.delay,
            look_up_keys=call.look_up_keys,
            message_id=call.message_id,
        )
    return producer.send_nowait(call.topic, call.values[0], key=call.key, tag=call.tag, queue=call.queue)


def _begun(producer: AsyncProducer, call: ProducerCall) -> Awaitable[Receipt]:
    if call.way == "send":
        return producer.send(call.topic, call.values[0], key=call.key, tag=call.tag, queue=call.queue)
    if call.way == "send-many":
        if not call.is_plain:
            return producer.send_many(
                call.topic,
                call.values,
                key=call.key,
                tag=call.tag,
                queue=call.queue,
                deliver_at=call.deliver_at,
                delay=call.delay,
                look_up_keys=call.look_up_keys,
            )
        return producer.send_many(call.topic, call.values, key=call.key, tag=call.tag, queue=call.queue)
    return start_call(producer, call)


def is_unknown(error: LedgerError) -> bool:
    """Return True if the call failed, but its messages may nevertheless be committed."""
    return isinstance(error, DeliveryTimeoutError) and error.maybe_committed
