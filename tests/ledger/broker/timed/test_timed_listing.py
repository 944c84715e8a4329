"""The leader lists waiting messages in the order of their delivery, in bounded answers."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from ledger.batch import TimedColumn, encode
from ledger.broker.timed import listing
from ledger.broker.timed.delivery import TimedDelivery
from ledger.broker.timed.listing import WaitingList, WaitingQuery, list_waiting
from ledger.errors import NoLeaderError
from ledger.state.commands import CancelTimed
from ledger.state.timed_table import TimedMessage
from store import EntryDraft, EntryKind, TimedKey
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS, WAITING, Leader


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    leader = Leader()

    async def confirmed() -> None:
        if not leader.driver.leads:
            raise NoLeaderError("somebody else leads")

    monkeypatch.setattr(leader.replica, "confirm_still_leading", confirmed)
    return leader


async def listed(leader: Leader, **query: Any) -> WaitingList:
    return await list_waiting(leader.replica, WaitingQuery(**query), lambda topic_id: topic_id == ORDERS)


def identities(found: WaitingList) -> list[int]:
    return [message.place.identity for message in found.messages]


def times(*after_now_ms: int) -> list[int]:
    return [NOW_MS + each for each in after_now_ms]


async def test_messages_are_listed_in_the_order_of_their_delivery(leader: Leader) -> None:
    leader.send(times(300, 100))
    leader.send(times(200), queue=1)
    found = await listed(leader)
    assert [(each.place.time_ms - NOW_MS, each.place.identity, each.queue) for each in found.messages] == [
        (100, 1, 0),
        (200, 2, 1),
        (300, 0, 0),
    ]
    assert found.next is None
    assert identities(await listed(leader, from_ms=NOW_MS + 200, to_ms=NOW_MS + 300)) == [2]
    assert (await listed(leader, from_ms=-5, to_ms=1 << 62)).messages == found.messages
    assert (await listed(leader, to_ms=-(1 << 62))).messages == []


async def test_what_waits_no_more_is_not_listed(leader: Leader) -> None:
    leader.send(times(0, 10, 20, 30))
    leader.append(CancelTimed((TimedMessage(2, NOW_MS + 20),)))
    delivery = TimedDelivery(leader.replica, lambda: 0.0)
    await leader.turns(delivery, NOW_MS)
    assert identities(await listed(leader)) == [1, 3]
    leader.driver.now = NOW_MS + 10
    turn = asyncio.ensure_future(delivery._look())
    await asyncio.sleep(0)
    leader.commit(1)
    assert identities(await listed(leader)) == [3], "a message in an open turn was delivered"
    leader.commit()
    await turn


async def test_a_list_has_keys_tags_and_sizes_and_values_if_asked(leader: Leader) -> None:
    body = encode(
        [b"value", b""], topic_id=WAITING, queue=0, producer_id=9, epoch=0, first_sequence=0, base_timestamp_ms=NOW_MS,
        keys=[b"k", None], tags=["t", None], headers=[[("trace", b"1")], []],
        look_up_keys=[[b"order-17"], []],
        timed=TimedColumn(ORDERS, 1, np.array(times(1, 2), np.int64)),
    )  # fmt: skip
    leader.append(EntryDraft(EntryKind.BATCH, body, WAITING, 0, 0, 2))
    first, second = (await listed(leader)).messages
    assert (first.key, first.tag, first.size, first.value, first.headers) == (b"k", "t", 5, b"", ())
    assert (second.key, second.tag, second.size, second.timestamp_ms) == (None, None, 0, NOW_MS)
    first, second = (await listed(leader, with_values=True)).messages
    assert (first.value, first.headers, second.headers) == (b"value", (("trace", b"1"),), ())
    assert (first.look_up_keys, second.look_up_keys) == ((b"order-17",), ())


async def test_topics_without_the_right_are_left_out(leader: Leader) -> None:
    leader.send(times(1))
    assert (await list_waiting(leader.replica, WaitingQuery(), lambda _: False)).messages == []
    assert identities(await listed(leader, topic_id=ORDERS)) == [0]
    assert identities(await listed(leader, topic_id=ORDERS + 7)) == []


@pytest.mark.parametrize("bound", ["limit", "bytes", "looked at"])
async def test_a_long_list_comes_in_pieces(leader: Leader, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    leader.send(times(*range(20, 0, -1)))
    leader.send(times(*range(5, 15)), queue=1)
    query: dict[str, Any] = {}
    match bound:
        case "limit":
            query["limit"] = 7
        case "bytes":
            monkeypatch.setattr(listing, "MAX_ANSWER_BYTES", 64 * 7)
        case _:
            monkeypatch.setattr(listing, "MOST_LOOKED_AT", 7)
    pieces = [await listed(leader, **query)]
    while pieces[-1].next is not None:
        pieces.append(await listed(leader, after=pieces[-1].next, **query))
    assert [len(piece.messages) for piece in pieces] == [7, 7, 7, 7, 2]
    all_of = [message.place for piece in pieces for message in piece.messages]
    assert all_of == sorted(all_of)
    assert len(set(all_of)) == 30


async def test_a_page_without_readable_messages_says_where_to_go_on(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 2)
    leader.send(times(1, 2, 3))
    found = await list_waiting(leader.replica, WaitingQuery(), lambda _: False)
    assert (found.messages, found.next) == ([], TimedKey(NOW_MS + 2, 1))


async def test_a_batch_that_cannot_be_read_is_left_out(leader: Leader) -> None:
    damaged = leader.send(times(1))
    leader.send(times(2))
    leader.flip(damaged.position)
    assert identities(await listed(leader)) == [1]


async def test_only_a_leader_lists(leader: Leader) -> None:
    leader.driver.leads = False
    with pytest.raises(NoLeaderError):
        await listed(leader)


async def test_the_totals_are_those_of_the_shard(leader: Leader) -> None:
    leader.send(times(0, 10, 20), values=[b"x" * 100] * 3)
    await leader.turns(TimedDelivery(leader.replica, lambda: 0.0), NOW_MS)
    waiting = leader.replica.timed.waiting(leader.replica.state)
    assert waiting.messages == 2
    assert 200 <= waiting.bytes < 600
