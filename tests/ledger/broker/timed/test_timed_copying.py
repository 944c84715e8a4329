"""Waiting messages outlive the entries that brought them: they are copied before the log start moves."""

from __future__ import annotations

import asyncio

import pytest

from ledger.batch import BatchHeader
from ledger.broker.retention.log_trim import LogTrim
from ledger.broker.retention.retention import TrimPoint
from ledger.broker.timed import copying
from ledger.broker.timed.copying import WaitingCopies
from ledger.broker.timed.delivery import TimedDelivery
from ledger.codec import Codec
from ledger.errors import BusyError, StorageFailedError
from ledger.state.commands import CancelTimed
from ledger.state.timed_table import TimedMessage
from tests.ledger.broker.timed.leader import NOW_MS, WAITING, Leader

LATER = NOW_MS + 100_000


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def delivery(leader: Leader) -> TimedDelivery:
    return TimedDelivery(leader.replica, lambda: 0.0)


@pytest.fixture
def copies(leader: Leader) -> WaitingCopies:
    return WaitingCopies(leader.replica)


async def test_what_waits_is_copied_and_delivered_once(
    leader: Leader, delivery: TimedDelivery, copies: WaitingCopies
) -> None:
    leader.send([NOW_MS, LATER, LATER + 1])
    leader.send([LATER + 2], queue=1)
    leader.send([LATER + 3])
    await leader.turns(delivery, NOW_MS)
    answer = leader.replica.cancel(CancelTimed((TimedMessage(4, LATER + 3),)))
    leader.commit()
    assert await answer == (True,)
    position = leader.log.end
    await leader.carry_out(copies.make(position))
    assert copies.is_clear(position)
    copied = leader.replica.state.next_offset(WAITING, 0) - 5
    assert copied == 3, "neither the delivered message nor the cancelled one"
    assert not copies.is_clear(leader.log.end), "the copies wait"
    await leader.turns(delivery, LATER + 10)
    assert (leader.delivered(0), leader.delivered(1)) == ([b"0", b"1", b"2"], [b"3"])


async def test_copies_that_are_too_many_for_one_entry_are_several(
    leader: Leader, delivery: TimedDelivery, copies: WaitingCopies
) -> None:
    values = [b"%d" % number + bytes(500) for number in range(40)]
    leader.send([LATER] * 40, values=values)
    leader.replica.max_entry_bytes = 8_000
    position, before = leader.log.end, leader.log.last_index
    await leader.carry_out(copies.make(position))
    assert max(leader.log.entry(index)[0].size for index in range(before + 1, leader.log.last_index + 1)) <= 8_000
    assert copies.is_clear(position)
    await leader.turns(delivery, LATER)
    assert leader.delivered() == values


async def test_a_message_that_fits_only_compressed_is_copied_with_others_that_are_not_compressed(
    leader: Leader, delivery: TimedDelivery, copies: WaitingCopies
) -> None:
    leader.send([LATER], values=[b"a"])
    leader.send([LATER], values=[bytes(9_000)], codec=Codec.ZSTD)
    leader.replica.max_entry_bytes = 8_000
    position = leader.log.end
    await leader.carry_out(copies.make(position))
    assert copies.is_clear(position)
    await leader.turns(delivery, LATER)
    assert leader.delivered() == [b"a", bytes(9_000)]


async def test_copies_are_copied_again(leader: Leader, delivery: TimedDelivery, copies: WaitingCopies) -> None:
    leader.send([LATER])
    for _ in range(3):
        await leader.carry_out(copies.make(leader.log.end))
    await leader.turns(delivery, LATER)
    assert leader.delivered() == [b"0"]


async def test_a_copy_can_be_cancelled(leader: Leader, delivery: TimedDelivery, copies: WaitingCopies) -> None:
    leader.send([LATER])
    await leader.carry_out(copies.make(leader.log.end))
    answer = leader.replica.cancel(CancelTimed((TimedMessage(0, LATER),)))
    leader.commit()
    assert await answer == (True,)
    await leader.turns(delivery, LATER)
    assert leader.delivered() == []


async def test_an_index_that_is_built_from_the_copies_alone_finds_the_messages(
    leader: Leader, delivery: TimedDelivery, copies: WaitingCopies
) -> None:
    leader.send([LATER, LATER + 1])
    position, first = leader.log.end, leader.log.last_index + 1
    await leader.carry_out(copies.make(position))
    leader.index.wipe()
    for index in range(first, leader.log.last_index + 1):
        header, body = leader.log.reading.entry(index)
        if header.topic_id == WAITING:
            leader.replica.timed.put(header, BatchHeader.parse(body), body)
    await leader.turns(delivery, LATER + 1)
    assert leader.delivered() == [b"0", b"1"]


async def test_the_log_start_does_not_move_past_a_waiting_message(leader: Leader) -> None:
    leader.send([LATER])
    with pytest.raises(BusyError, match="not copied yet"):
        LogTrim(leader.replica).move(TrimPoint(leader.log.last_index, leader.log.end))


async def test_a_message_on_its_way_to_be_cancelled_is_not_copied(
    leader: Leader, copies: WaitingCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_WAIT_S", 0)
    leader.send([LATER])
    answer = leader.replica.cancel(CancelTimed((TimedMessage(0, LATER),)))
    work = asyncio.ensure_future(copies.make(leader.log.start + 1 << 20))
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(leader.driver.proposed) == 1
    leader.commit()
    await leader.carry_out(asyncio.wait_for(work, None))
    assert await answer == (True,)
    assert leader.replica.state.next_offset(WAITING, 0) == 1


async def test_a_message_that_cannot_be_read_keeps_the_log_start(leader: Leader, copies: WaitingCopies) -> None:
    damaged = leader.send([LATER])
    leader.flip(damaged.end - 1)
    with pytest.raises(StorageFailedError, match="1 waiting messages"):
        await leader.carry_out(copies.make(leader.log.end))
