"""Sends are refused while the disk does not keep up, and accepted again afterwards."""

from __future__ import annotations

import asyncio

import pytest

from cluster.node.replica.stall import Stall
from ledger.errors import BusyError
from tests.cluster.failing_disk import FailingDisk
from tests.cluster.fleet import MakeFleet, error_of, sample_batch
from tests.cluster.gated_disk import GatedDisk
from tests.cluster.waiter import eventually


class Clock:
    now_ms = 5_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_quick_appends_and_flushes_are_no_stall(clock: Clock) -> None:
    stall = Stall(100, clock)
    stall.appended(0.099)
    assert stall.reason(flushing_ms=99) == ""


def test_a_slow_append_refuses_others_for_as_long_as_it_took(clock: Clock) -> None:
    stall = Stall(100, clock)
    stall.appended(0.250)
    assert "the last append to the log took 250 ms" in stall.reason(0)
    clock.now_ms += 249
    assert stall.reason(0)
    clock.now_ms += 1
    assert not stall.reason(0), "one more is tried"
    stall.appended(0.001)
    assert not stall.reason(0)


def test_however_slow_it_was_another_one_is_tried_some_time(clock: Clock) -> None:
    stall = Stall(100, clock)
    stall.appended(3600)
    clock.now_ms += 1_000
    assert not stall.reason(0)


def test_a_flush_counts_while_it_lasts(clock: Clock) -> None:
    stall = Stall(100, clock)
    assert "a flush of the log has taken 100 ms so far" in stall.reason(flushing_ms=100)
    assert not stall.reason(flushing_ms=0)


def test_it_can_be_switched_off(clock: Clock) -> None:
    stall = Stall(0, clock)
    stall.appended(9)
    assert stall.reason(flushing_ms=9_000) == ""


@pytest.mark.real
async def test_a_node_whose_appends_are_slow_refuses_the_next_one_at_once(make_fleet: MakeFleet) -> None:
    disk = FailingDisk()
    fleet = make_fleet(1, disks={1: disk}, busy_ms=300)
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    disk.write_delay_s = 0.2  # two writes for one append
    first = await fleet.produce(1, sample_batch(topic))
    assert error_of(first) is None, "only when it is over it shows that it was slow"
    disk.write_delay_s = 0.0
    second = error_of(await fleet.produce(1, sample_batch(topic, first_sequence=2)))
    assert isinstance(second, BusyError)
    assert second.retriable
    assert "the last append to the log took" in str(second)

    async def taken() -> bool:
        return error_of(await fleet.produce(1, sample_batch(topic, first_sequence=2))) is None

    await eventually(taken, "appends are quick again, and sends are taken")


@pytest.mark.real
async def test_sends_that_would_wait_for_a_flush_that_hangs_are_refused(make_fleet: MakeFleet) -> None:
    disk = GatedDisk()
    fleet = make_fleet(1, disks={1: disk}, flush="sync", busy_ms=100)
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    disk.hold()
    waiting = asyncio.create_task(fleet.produce(1, sample_batch(topic)))

    async def refused() -> bool:
        stream = fleet.stream(1)
        await stream.send(sample_batch(topic, producer_id=8))
        try:
            async with asyncio.timeout(0.3):  # one that is taken is not answered
                (result,) = await stream.answer()
        except TimeoutError:
            return False
        finally:
            stream.drop()
        error = error_of(result)
        return isinstance(error, BusyError) and "a flush of the log has taken" in str(error)

    await eventually(refused, "sends are refused at once")
    assert not waiting.done()
    disk.release()
    assert error_of(await waiting) is None, "what was taken is acknowledged late, and not lost"

    async def taken() -> bool:
        return error_of(await fleet.produce(1, sample_batch(topic, producer_id=9))) is None

    await eventually(taken, "sends are taken again")
