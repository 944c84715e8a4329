"""The measured load, with a producer that is slow on purpose: calls in flight, due times, and failures."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

import numpy as np
import pytest

from cluster.bench import producing
from cluster.bench.failover import Changes
from cluster.bench.latencies import Summary
from cluster.bench.producing import ProducerFigures, ProducerLoad, Producing
from cluster.load.calls import Way
from cluster.load.pace import Pace
from cluster.load.processes import open_gate
from ledger.errors import DeliveryTimeoutError, LedgerError, MessageTooLargeError

STALL_S = 0.3


class SlowProducer:
    """Acknowledges at once, except that the first send stalls. The state is in the class, because the load creates the
    producer.
    """

    stall_s = 0.0
    error: LedgerError | None = None
    in_flight = most_in_flight = sends = 0
    keys: ClassVar[set[bytes | None]] = set()

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        pass

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send(self, topic: str, value: bytes, *, key: bytes | None = None, **where: Any) -> None:
        await self.send_many(topic, [value], key=key)

    async def send_many(self, topic: str, values: list[bytes], *, key: bytes | None = None, **where: Any) -> None:
        kind = SlowProducer
        kind.sends += 1
        kind.in_flight += 1
        kind.most_in_flight = max(kind.most_in_flight, kind.in_flight)
        kind.keys.add(key)
        stall_s, kind.stall_s = kind.stall_s, 0.0
        try:
            await asyncio.sleep(stall_s)
            if kind.error is not None:
                raise kind.error
        finally:
            kind.in_flight -= 1


@pytest.fixture(autouse=True)
def slow_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = SlowProducer
    kind.stall_s, kind.error, kind.in_flight, kind.most_in_flight, kind.sends, kind.keys = 0.0, None, 0, 0, 0, set()
    monkeypatch.setattr(producing, "AsyncProducer", kind)


def load(**given: Any) -> ProducerLoad:
    return ProducerLoad(**{"bootstrap": "h:1", "topic": "t", "size": 32, "way": "send", "warm_up_s": 0, **given})


async def run(given: ProducerLoad) -> ProducerFigures:
    return await Producing(given).run(open_gate)


async def summary(given: ProducerLoad) -> Summary:
    SlowProducer.stall_s = STALL_S
    found = (await run(given)).latencies.summary()
    assert found is not None
    return found


@pytest.mark.parametrize("way", ["send", "send-many"])
async def test_an_open_loop_shows_all_that_a_stall_kept_waiting(way: Way) -> None:
    """Coordinated omission: one of 500 messages stalls, and the messages that were due meanwhile also waited."""
    found = await summary(load(way=way, rate=1000, count=500, in_flight=1))
    assert found.count == 500
    assert found.max_ms >= STALL_S * 1000
    assert found.p50_ms >= STALL_S * 1000 / 10, "half of the messages were due during the stall"


async def test_a_closed_loop_counts_from_when_a_send_began() -> None:
    found = await summary(load(count=500, in_flight=1))
    assert found.max_ms >= STALL_S * 1000
    assert found.percentiles_ms[1] < STALL_S * 1000 / 10


async def test_with_room_in_flight_a_stalled_send_holds_up_nobody() -> None:
    found = await summary(load(rate=200, count=100, in_flight=100))  # a rate that a busy machine keeps
    assert found.p50_ms < STALL_S * 1000 / 10


@pytest.mark.parametrize("given", [{"way": "send"}, {"way": "send-many"}, {"way": "send-many", "rate": 1e6}])
async def test_no_more_is_in_flight_than_was_said(given: dict[str, Any]) -> None:
    await run(load(**given, count=20_000, batch_bytes=1024, in_flight=3))
    assert SlowProducer.most_in_flight == 3


async def test_a_rate_is_kept() -> None:
    started = time.perf_counter()
    sent = await run(load(rate=2000, count=400, in_flight=10))
    assert sent.records == 400
    assert time.perf_counter() - started >= 399 / 2000


@pytest.mark.parametrize("way", ["send", "send-many"])
async def test_count_ends_it(way: Way) -> None:
    sent = await run(load(way=way, count=12_345, in_flight=7))
    assert (sent.records, sent.failed, sent.total) == (12_345, 0, 12_345)


@pytest.mark.parametrize("way", ["send", "send-many"])
async def test_seconds_end_it_and_the_warm_up_does_not_count(way: Way) -> None:
    sent = await run(load(way=way, seconds=0.1, warm_up_s=0.1, rate=10_000, in_flight=5))
    assert 500 <= sent.records <= 1_001
    assert sent.total >= sent.records + 100, "a busy machine makes fewer than the 1,000 of the warm-up"
    found = sent.latencies.summary()
    assert found is not None
    assert found.count == sent.records


async def test_keys_come_in_turn() -> None:
    await run(load(count=50, in_flight=1, keys=3))
    assert SlowProducer.keys == {b"key-0", b"key-1", b"key-2"}


async def test_what_is_not_acknowledged_is_counted_and_the_load_goes_on() -> None:
    SlowProducer.error = DeliveryTimeoutError("too late", maybe_committed=True)
    sent = await run(load(count=20, in_flight=2))
    assert (sent.records, sent.failed, sent.unknown, sent.errors) == (0, 20, 20, {"DeliveryTimeoutError": 20})
    assert SlowProducer.sends == 20


async def test_what_will_never_do_ends_it() -> None:
    SlowProducer.error = MessageTooLargeError("larger than 1 MiB")
    with pytest.raises(MessageTooLargeError, match="1 MiB"):
        await run(load(count=20, in_flight=2))


def test_messages_are_due_by_their_number() -> None:
    pace = Pace(4.0, 1_000)
    assert [pace.due_ns(number) for number in (0, 1, 8)] == [1_000, 250_001_000, 2_000_001_000]
    assert pace.all_due_ns(np.arange(3)).tolist() == [pace.due_ns(number) for number in range(3)]
    assert [pace.due_by(now) for now in (0, 1_000, 250_000_999, 250_001_000)] == [1, 1, 1, 2]


def test_a_change_of_leaders_costs_the_silence_before_the_first_write_of_the_new_term() -> None:
    changes = Changes()
    for term, ms in ((3, 0), (3, 400), (3, 410), (4, 1110), (4, 1111), (3, 1112), (6, 1150)):
        changes.acknowledged(term, ms * 1_000_000)
    told = [(change.term_before, change.term, round(change.no_write_s, 3)) for change in changes.found]
    assert told == [(3, 4, 0.7), (4, 6, 0.038)]
    assert changes.found[0].at_s == pytest.approx(1.11)
    assert changes.longest_silence_s == pytest.approx(0.7)
