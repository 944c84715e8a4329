"""The leader cancels waiting messages: what True and False mean, and which messages a handle cannot name."""

from __future__ import annotations

import asyncio

import pytest

from ledger.broker.timed import targets
from ledger.broker.timed.cancelling import NamedMessage, cancel
from ledger.broker.timed.delivery import TimedDelivery
from ledger.errors import InvalidArgumentError, NoLeaderError, StorageFailedError
from ledger.state.command_checks import MAX_TIMED_ITEMS
from ledger.state.commands import CreateTopic, DeleteTopic
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS, WAITING, Leader

LATER = NOW_MS + 60_000


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    leader = Leader()

    async def confirmed() -> None:
        if not leader.driver.leads:
            raise NoLeaderError("somebody else leads")

    monkeypatch.setattr(leader.replica, "confirm_still_leading", confirmed)
    return leader


def named(*identities: int, topic_id: int = ORDERS, time_ms: int = LATER) -> list[NamedMessage]:
    return [NamedMessage(topic_id, identity, time_ms) for identity in identities]


async def cancelled(leader: Leader, messages: list[NamedMessage]) -> list[bool]:
    return await leader.carry_out(cancel(leader.replica, messages))


async def test_what_waits_is_cancelled_once_and_is_not_delivered(leader: Leader) -> None:
    leader.send([LATER] * 4)
    assert await cancelled(leader, named(2, 0, 2)) == [True, True, False]
    assert await cancelled(leader, named(0, 1)) == [False, True]
    await leader.turns(TimedDelivery(leader.replica, lambda: 0.0), LATER)
    assert leader.delivered() == [b"3"]
    assert await cancelled(leader, named(3)) == [False], "it was delivered"


async def test_what_is_unknown_costs_no_entry(leader: Leader) -> None:
    leader.send([LATER])
    last = leader.log.last_index
    wrong = [*named(1), *named(0, time_ms=LATER + 1), *named(0, topic_id=77), *named(0, topic_id=WAITING)]
    assert await cancelled(leader, wrong) == [False] * 4
    assert leader.log.last_index == last


async def test_a_handle_that_names_another_topic_cancels_nothing(leader: Leader) -> None:
    leader.append(CreateTopic("mine", 1))
    mine = leader.replica.state.topics.named("mine")
    assert mine is not None
    leader.send([LATER])
    assert await cancelled(leader, named(0, topic_id=mine.topic_id)) == [False]
    assert await cancelled(leader, named(0)) == [True]


async def test_a_message_of_a_deleted_topic_can_be_cancelled(leader: Leader) -> None:
    leader.send([LATER])
    leader.append(DeleteTopic(ORDERS))
    assert await cancelled(leader, named(0)) == [True]


async def test_a_handle_of_a_topic_without_queues_in_the_shard_is_refused(leader: Leader) -> None:
    leader.send([LATER])
    leader.replica.shard = 3
    with pytest.raises(InvalidArgumentError, match="topic 'orders' in shard 3, where the topic has no queue"):
        await cancelled(leader, named(0))


async def test_a_message_in_the_turn_in_flight_is_not_cancelled(leader: Leader) -> None:
    leader.send([LATER, LATER + 1])
    leader.driver.now = LATER
    turn = asyncio.ensure_future(TimedDelivery(leader.replica, lambda: 0.0)._look())
    await asyncio.sleep(0)
    assert leader.driver.proposed
    asked = asyncio.ensure_future(cancel(leader.replica, [*named(0), *named(1, time_ms=LATER + 1)]))
    await asyncio.sleep(0)
    leader.commit()
    await turn
    assert await asked == [False, True]
    assert leader.delivered() == [b"0"]


async def test_two_cancels_at_the_same_time_have_one_success(leader: Leader) -> None:
    leader.send([LATER])
    both = [asyncio.ensure_future(cancel(leader.replica, named(0))) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in both), "the first one is not committed, so the second one cannot know"
    leader.commit()
    assert await asyncio.gather(*both) == [[True], [False]]


async def test_a_leader_that_was_replaced_says_nothing(leader: Leader) -> None:
    leader.driver.leads = False
    with pytest.raises(NoLeaderError):
        await cancel(leader.replica, named(0))


@pytest.mark.parametrize("count", [0, MAX_TIMED_ITEMS + 1])
async def test_the_messages_of_a_request_are_counted(leader: Leader, count: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{count} waiting messages were given: cancel 1 to 4096"):
        await cancel(leader.replica, named(*range(count)))


async def test_a_batch_that_cannot_be_read_is_named(leader: Leader) -> None:
    header = leader.send([LATER])
    leader.flip(header.position)
    with pytest.raises(StorageFailedError, match="cannot read the batch of a waiting message"):
        await cancelled(leader, named(0))


async def test_a_full_request_lets_other_tasks_run(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_READS_AT_ONCE", 2)
    for _ in range(5):
        leader.send([LATER])
    asked = asyncio.ensure_future(cancel(leader.replica, named(*range(5))))
    turns = 0
    while not leader.driver.proposed:
        await asyncio.sleep(0)
        turns += 1
    assert turns == 3
    leader.commit()
    assert await asked == [True] * 5
