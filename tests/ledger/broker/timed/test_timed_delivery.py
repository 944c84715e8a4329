"""The leader delivers waiting messages: in the order of their delivery times, each once, over failovers too."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from ledger.batch import Batch
from ledger.broker.timed import delivery as module
from ledger.broker.timed import turn, waiting_batches
from ledger.broker.timed.delivery import TimedDelivery
from ledger.codec import Codec
from ledger.state import projected_timed
from ledger.state.commands import CancelTimed, DeleteTopic
from ledger.state.timed_table import TimedMessage
from ledger.timed import DELIVER_AT
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS, Leader


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def delivery(leader: Leader) -> TimedDelivery:
    return TimedDelivery(leader.replica, lambda: 0.0)


async def test_messages_are_delivered_when_their_time_has_passed(leader: Leader, delivery: TimedDelivery) -> None:
    leader.send([NOW_MS + 30, NOW_MS + 10, NOW_MS + 20])
    await leader.turns(delivery, NOW_MS + 9)
    assert leader.delivered() == []
    await leader.turns(delivery, NOW_MS + 20)
    assert leader.delivered() == [b"1", b"2"]
    await leader.turns(delivery, NOW_MS + 30)
    assert leader.delivered() == [b"1", b"2", b"0"]
    assert await leader.turns(delivery, NOW_MS + 1000) == 0, "a leader without work appends nothing"


async def test_each_target_queue_gets_one_batch(leader: Leader, delivery: TimedDelivery) -> None:
    for queue in (0, 1, 0, 1):
        leader.send([NOW_MS, NOW_MS + 1], queue)
    before = leader.log.last_index
    assert await leader.turns(delivery, NOW_MS + 5) == 1
    assert leader.log.last_index - before == 3, "two batches, and the entry that moves the cursor"
    assert leader.delivered(0) == [b"0", b"4", b"1", b"5"]
    assert leader.delivered(1) == [b"2", b"6", b"3", b"7"]


async def test_messages_that_are_too_many_for_one_entry_are_delivered_by_several(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS] * 40, values=[b"%d" % number + bytes(500) for number in range(40)])
    leader.replica.max_entry_bytes = 8_000
    before = leader.log.last_index
    assert await leader.turns(delivery, NOW_MS + 1) == 1
    sizes = [leader.log.entry(index)[0].size for index in range(before + 1, leader.log.last_index + 1)]
    assert len(sizes) == 5, "four batches, and the entry that moves the cursor"
    assert max(sizes) <= 8_000
    assert leader.delivered() == [b"%d" % number + bytes(500) for number in range(40)]


async def test_a_message_that_is_too_large_for_an_entry_holds_up_no_other(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS] * 3, values=[b"a", bytes(9_000), b"b"])
    leader.replica.max_entry_bytes = 8_000
    await leader.turns(delivery, NOW_MS + 1)  # finds it
    await leader.turns(delivery, NOW_MS + 1)
    assert leader.delivered() == [b"a", b"b"]


async def test_a_message_that_fits_only_compressed_is_delivered_with_others_that_are_not_compressed(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS], values=[b"a"])
    leader.send([NOW_MS], values=[bytes(9_000)], codec=Codec.ZSTD)
    leader.replica.max_entry_bytes = 8_000
    await leader.turns(delivery, NOW_MS + 1)
    assert leader.delivered() == [b"a", bytes(9_000)]


async def test_a_leader_that_does_not_know_the_time_waits(leader: Leader, delivery: TimedDelivery) -> None:
    leader.send([NOW_MS])
    leader.driver.now = None
    assert await delivery._look() == module.PAUSE_S
    assert leader.driver.proposed == []


async def test_the_next_look_is_at_the_next_delivery_time(leader: Leader, delivery: TimedDelivery) -> None:
    assert await delivery._look() is None
    leader.send([NOW_MS + 3000])
    assert await delivery._look() == 3.0


async def test_a_new_leader_finishes_the_turn_of_the_last_one(leader: Leader, delivery: TimedDelivery) -> None:
    for queue in (0, 1):
        leader.send([NOW_MS, NOW_MS + 1], queue)
    leader.driver.now = NOW_MS + 5
    work = asyncio.ensure_future(delivery._look())
    await asyncio.sleep(0)
    leader.commit(1)  # the batch of queue 0; the others are lost
    work.cancel()
    lost = leader.driver.proposed[0][1].index
    leader.log.truncate(lost - 1)
    leader.driver.proposed.clear()
    leader.fail_over()
    await leader.turns(TimedDelivery(leader.replica, lambda: 0.0), NOW_MS + 5)
    assert (leader.delivered(0), leader.delivered(1)) == ([b"0", b"1"], [b"2", b"3"])
    assert leader.replica.state.timed.open == {}


async def test_late_messages_are_delivered_though_more_come_than_fit_into_a_turn(
    leader: Leader, delivery: TimedDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "MOST_MESSAGES", 4)
    monkeypatch.setattr(projected_timed, "MAX_OPEN", 8)
    leader.send([NOW_MS + 100])
    await leader.turns(delivery, NOW_MS + 100)
    random = Random(7)
    times = [NOW_MS - random.randrange(1000) for _ in range(40)]
    for begin in range(0, 40, 5):
        leader.send([*times[begin : begin + 5], NOW_MS + 10_000])
    await leader.turns(delivery, NOW_MS + 101)
    assert len(leader.delivered()) == 41
    assert leader.replica.state.timed.open == {}
    await leader.turns(delivery, NOW_MS + 10_000)
    assert Counter(Counter(leader.delivered()).values()) == {1: 49}


async def test_late_messages_are_delivered_though_they_have_more_bytes_than_fit_into_a_turn(
    leader: Leader, delivery: TimedDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.send([NOW_MS + 100])
    await leader.turns(delivery, NOW_MS + 100)
    for number in range(6):
        leader.send([NOW_MS + 50 - number], values=[b"%d" % number + bytes(1000)])
    monkeypatch.setattr(waiting_batches, "MOST_BYTES", 2500)
    await leader.turns(delivery, NOW_MS + 101)
    assert Counter(value[:1] for value in leader.delivered()) == Counter([b"0", *(b"%d" % each for each in range(6))])
    assert leader.replica.state.timed.open == {}


async def test_late_messages_that_are_not_due_wait_if_the_time_goes_back(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS + 100])
    await leader.turns(delivery, NOW_MS + 100)
    leader.send([NOW_MS + 95, NOW_MS + 80, NOW_MS + 95, NOW_MS + 105])  # the clocks have passed 90
    await leader.turns(delivery, NOW_MS + 90)
    assert leader.delivered() == [b"0", b"2"]
    assert await delivery._look() == pytest.approx(module.PAUSE_S)
    await leader.turns(delivery, NOW_MS + 94)
    assert leader.delivered() == [b"0", b"2"]
    await leader.turns(delivery, NOW_MS + 95)
    assert leader.delivered() == [b"0", b"2", b"1", b"3"]
    await leader.turns(delivery, NOW_MS + 105)
    assert leader.delivered() == [b"0", b"2", b"1", b"3", b"4"]
    assert leader.replica.state.timed.open == {}


async def test_a_message_that_is_not_due_after_a_leap_of_the_clocks_can_be_cancelled(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS + 3_600_000])
    await leader.turns(delivery, NOW_MS + 3_600_000)
    leader.send([NOW_MS + 600_000, NOW_MS])
    await leader.turns(delivery, NOW_MS + 10)
    answer = leader.replica.cancel(CancelTimed((TimedMessage(1, NOW_MS + 600_000),)))
    leader.commit()
    assert await answer == (True,)
    await leader.turns(delivery, NOW_MS + 700_000)
    assert leader.delivered() == [b"0", b"2"]


async def test_late_messages_that_are_not_due_do_not_stop_the_delivery_of_many_others(
    leader: Leader, delivery: TimedDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "MAX_OPEN", 16)
    monkeypatch.setattr(projected_timed, "MAX_OPEN", 16)
    leader.send([NOW_MS + 3_600_000])
    await leader.turns(delivery, NOW_MS + 3_600_000)
    leader.send([NOW_MS + 600_000])
    for number in range(7):
        leader.send([NOW_MS + number])
    await leader.turns(delivery, NOW_MS + 10)
    assert leader.delivered() == [b"0", *(b"%d" % each for each in range(2, 9))], "the first one is not due"
    for number in range(40):
        leader.send([NOW_MS + 20 + number])
    await leader.turns(delivery, NOW_MS + 100)
    assert Counter(leader.delivered()) == Counter(b"%d" % each for each in range(49)), "the room was used up"
    assert leader.replica.state.timed.open == {}


async def test_messages_that_arrive_during_a_turn_are_late_and_are_delivered(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS, NOW_MS + 10])
    leader.driver.now = NOW_MS + 10
    work = asyncio.ensure_future(delivery._look())
    await asyncio.sleep(0)
    proposed, leader.driver.proposed = leader.driver.proposed, []
    leader.send([NOW_MS + 5])  # appended behind the turn, with a time before its cursor
    for proposal, _ in proposed:
        proposal.settled(True)
    await work
    await leader.turns(delivery, NOW_MS + 10)
    assert leader.delivered() == [b"0", b"1", b"2"]


async def test_cancelled_messages_are_not_delivered(leader: Leader, delivery: TimedDelivery) -> None:
    leader.send([NOW_MS + 1, NOW_MS + 2, NOW_MS + 3])
    command = CancelTimed((TimedMessage(1, NOW_MS + 2), TimedMessage(1, NOW_MS + 2), TimedMessage(7, NOW_MS)))
    answer = leader.replica.cancel(command)
    leader.commit()
    assert await answer == (True, False, False)
    await leader.turns(delivery, NOW_MS + 3)
    assert leader.delivered() == [b"0", b"2"]
    answer = leader.replica.cancel(CancelTimed((TimedMessage(0, NOW_MS + 1),)))
    leader.commit()
    assert await answer == (False,)


async def test_a_message_whose_cancelling_is_on_its_way_is_not_delivered(
    leader: Leader, delivery: TimedDelivery
) -> None:
    leader.send([NOW_MS, NOW_MS])
    answer = leader.replica.cancel(CancelTimed((TimedMessage(0, NOW_MS),)))
    await leader.turns(delivery, NOW_MS)
    assert await answer == (True,)
    assert leader.delivered() == [b"1"]


async def test_messages_of_a_deleted_topic_are_dropped(leader: Leader, delivery: TimedDelivery) -> None:
    leader.send([NOW_MS])
    leader.append(DeleteTopic(ORDERS))
    await leader.turns(delivery, NOW_MS)
    assert delivery.dropped == 1
    assert await leader.turns(delivery, NOW_MS + 1) == 0


async def test_unreadable_messages_hold_up_nothing_else(leader: Leader, delivery: TimedDelivery) -> None:
    damaged = leader.send([NOW_MS + 1])
    leader.send([NOW_MS, NOW_MS + 2])
    leader.flip(damaged.end - 1)
    assert await leader.turns(delivery, NOW_MS + 2) == 0, "the leader has found the damage"
    await leader.turns(delivery, NOW_MS + 2)
    assert leader.delivered() == [b"1", b"2"]
    assert delivery.unreadable == 1
    assert leader.replica.state.timed.waits(NOW_MS + 1, 0), "the cursor does not settle it"
    leader.flip(damaged.end - 1)  # a scrub has repaired the log
    again = TimedDelivery(leader.replica, lambda: 0.0)
    await leader.turns(again, NOW_MS + 2)
    assert leader.delivered() == [b"1", b"2", b"0"]


async def test_an_unreadable_message_holds_others_up_only_when_too_many_are_open(
    leader: Leader, delivery: TimedDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "MAX_OPEN", 8)
    monkeypatch.setattr(projected_timed, "MAX_OPEN", 8)
    damaged = leader.send([NOW_MS])
    leader.send([NOW_MS + number for number in range(1, 12)])
    leader.flip(damaged.end - 1)
    for _ in range(4):
        await leader.turns(delivery, NOW_MS + 20)
    assert leader.delivered() == [b"1", b"2", b"3", b"4"], "half of the room stays free"
    leader.flip(damaged.end - 1)  # a scrub has repaired the log
    await leader.turns(TimedDelivery(leader.replica, lambda: 0.0), NOW_MS + 20)
    assert Counter(leader.delivered()) == Counter(b"%d" % number for number in range(12))
    assert leader.replica.state.timed.open == {}


async def test_delivered_messages_have_the_header_with_their_time(leader: Leader, delivery: TimedDelivery) -> None:
    leader.send([NOW_MS + 7])
    await leader.turns(delivery, NOW_MS + 7)
    _, body = leader.log.reading.entry(leader.log.last_index - 1)
    assert Batch(body).headers() == [((DELIVER_AT, b"%d" % (NOW_MS + 7)),)]
