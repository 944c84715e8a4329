"""The ends of transactions on a leader: each is one entry, and a second end is judged by the first."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock

import pytest

from ledger.batch import Batch, BatchHeader, encode
from ledger.batch.header import HEADER_BYTES, seal
from ledger.broker.produce.proposals import Committed
from ledger.broker.transactions.copying import HalfCopies
from ledger.broker.transactions.ends import MAX_ENDS, TransactionEnd, TransactionEnds
from ledger.broker.transactions.listing import show
from ledger.broker.transactions.settling import HalfSettling
from ledger.errors import BusyError, InvalidArgumentError, LedgerError, TransactionEndedError, UnknownTransactionError
from ledger.retries import FROM, ORIGIN, dead_letter_topic
from ledger.state import HalfName
from ledger.state.commands import AddShard, ConfirmHalves, CreateTopic, DeleteTopic, RollBackHalves, SettledHalf
from ledger.state.transaction_table import HERE
from ledger.transactions import TransactionOutcome
from store import EntryDraft, EntryKind
from store.directory.vote_file import INCARNATION_BYTES
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS
from tests.ledger.broker.transactions.half_leader import COLUMN, HALF_ID, NO_OTHER_SHARDS, HalfLeader, half_batch


def commit(number: int, *halves: int) -> TransactionEnd:
    return TransactionEnd(number, ORDERS, commit=True, halves=tuple(HalfName(0, half) for half in halves))


def rollback(number: int) -> TransactionEnd:
    return TransactionEnd(number, ORDERS, commit=False)


async def test_one_entry_commits_a_transaction_of_one_half_batch() -> None:
    leader = HalfLeader()
    number, ends = leader.half(b"paid"), TransactionEnds(leader.replica)
    before = leader.log.last_index
    committed = await leader.carry_out(ends.end(commit(number)))
    assert isinstance(committed, Committed)
    assert leader.log.last_index == before + 1
    (header,) = leader.values()
    assert Batch(bytes(leader.log.entry(header.index)[1])).values() == [b"paid"]
    assert leader.table.waiting == {}
    assert await leader.carry_out(ends.end(commit(number))) is None, "it is idempotent"
    with pytest.raises(TransactionEndedError, match="was committed before"):
        await leader.carry_out(ends.end(rollback(number)))
    assert ends.ended[TransactionOutcome.COMMITTED] == 1


async def test_two_ends_at_the_same_time_append_one_entry() -> None:
    leader = HalfLeader()
    number, ends = leader.half(), TransactionEnds(leader.replica)
    before = leader.log.last_index
    work = asyncio.ensure_future(ends.end_all([commit(number), rollback(number), commit(number)]))
    for _ in range(20):
        await asyncio.sleep(0)
        leader.commit()
    first, second, third = await work
    assert isinstance(first, Committed)
    assert isinstance(second, TransactionEndedError)
    assert third is None
    assert leader.log.last_index == before + 1


async def test_several_half_batches_are_committed_by_one_entry_and_then_carried_out() -> None:
    leader = HalfLeader()
    first = leader.half(b"a")
    second, left_out = leader.half(b"b", first, queue=1), leader.half(b"c", first)
    ends, settling = TransactionEnds(leader.replica), HalfSettling(leader.replica, NO_OTHER_SHARDS, lambda: 1.0)
    assert await leader.carry_out(ends.end(commit(first, first, second))) is None
    assert (len(leader.values()), len(leader.values(queue=1))) == (0, 0)
    await leader.carry_out(settling._look())
    assert (len(leader.values()), len(leader.values(queue=1))) == (1, 1)
    await leader.carry_out(settling._look())
    assert (left_out in leader.table.waiting, leader.table.committed) == (False, {})


@pytest.mark.parametrize("halves", [(1,), (0, 0), (0, 7)])
async def test_a_commit_names_what_waits(halves: tuple[int, ...]) -> None:
    leader = HalfLeader()
    number = leader.half()
    leader.half(transaction=number)
    with pytest.raises(InvalidArgumentError, match="must name each half batch"):
        await leader.carry_out(TransactionEnds(leader.replica).end(commit(number, *halves)))
    assert leader.table.is_open(number)


@pytest.mark.parametrize(("shard", "error"), [(3, BusyError), (64, InvalidArgumentError), (HERE, InvalidArgumentError)])
async def test_a_commit_names_shards_that_exist(shard: int, error: type[LedgerError]) -> None:
    leader = HalfLeader()
    number = leader.half()
    end = TransactionEnd(number, ORDERS, commit=True, halves=(HalfName(0, number), HalfName(shard, 1)))
    with pytest.raises(error, match=f"shard {shard}"):
        await leader.carry_out(TransactionEnds(leader.replica).end(end))
    assert leader.table.is_open(number)


async def test_a_rollback_ends_all_half_batches_of_this_shard() -> None:
    leader = HalfLeader()
    number = leader.half()
    leader.half(transaction=number)
    await leader.carry_out(TransactionEnds(leader.replica).end(rollback(number)))
    assert leader.table.waiting == {}


async def test_the_half_batches_of_commits_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.broker.transactions.ends.MAX_COMMITTED_HALVES", 5)
    leader = HalfLeader()
    leader.append(AddShard(1, (2,), (bytes(INCARNATION_BYTES),)))
    numbers, ends = [leader.half() for _ in range(4)], TransactionEnds(leader.replica)

    def wide(number: int) -> TransactionEnd:
        return TransactionEnd(number, ORDERS, commit=True, halves=(HalfName(0, number), HalfName(1, 7)))

    results = await leader.carry_out(ends.end_all([wide(number) for number in numbers]))
    assert [type(result) for result in results] == [type(None), type(None), BusyError, BusyError]
    assert ends._naming == 0
    with pytest.raises(BusyError, match="4 half batches are being carried out"):
        await leader.carry_out(ends.end(wide(numbers[2])))
    leader.append(ConfirmHalves((SettledHalf(numbers[0], HalfName(1, 7)),)))
    await leader.carry_out(ends.end(wide(numbers[2])))
    assert leader.table.names_count == 5


async def test_a_rollback_of_too_many_half_batches_is_more_than_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ends", "settling"):
        monkeypatch.setattr(f"ledger.broker.transactions.{module}.MAX_HALF_ITEMS", 2)
    leader = HalfLeader()
    number = leader.half()
    for _ in range(4):
        leader.half(transaction=number)
    await leader.carry_out(TransactionEnds(leader.replica).end(rollback(number)))
    assert len(leader.table.waiting) == 3
    settling = HalfSettling(leader.replica, NO_OTHER_SHARDS, lambda: 1.0)
    for left in (1, 0):
        await leader.carry_out(settling._look())
        assert len(leader.table.waiting) == left


async def test_ends_of_other_transactions_are_refused() -> None:
    leader = HalfLeader()
    number, ends = leader.half(), TransactionEnds(leader.replica)
    with pytest.raises(UnknownTransactionError):
        await leader.carry_out(ends.end(TransactionEnd(number, 999, commit=True)))
    with pytest.raises(InvalidArgumentError, match="1 to 1000"):
        await ends.end_all([rollback(number)] * (MAX_ENDS + 1))
    assert leader.table.is_open(number)


async def test_ends_without_an_outcome_are_judged_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = HalfLeader()
    number, ends = leader.half(), TransactionEnds(leader.replica)
    leader.append(RollBackHalves((number,)))
    leader.table.outcomes.clear()

    async def confirmed() -> None:
        """The node leads."""

    monkeypatch.setattr(leader.replica, "confirm_still_leading", confirmed)
    with pytest.raises(TransactionEndedError, match="no longer known"):
        await leader.carry_out(ends.end(commit(number)))
    with pytest.raises(UnknownTransactionError):
        await leader.carry_out(ends.end(commit(number + 1)))


async def test_a_commit_into_a_deleted_topic_is_refused() -> None:
    leader = HalfLeader()
    number = leader.half()
    leader.append(DeleteTopic(ORDERS))
    with pytest.raises(TransactionEndedError, match="was rolled back"):
        await leader.carry_out(TransactionEnds(leader.replica).end(commit(number)))


async def test_a_new_leader_reads_a_copy() -> None:
    leader = HalfLeader()
    number = leader.half(b"copied")
    position = leader.log.end
    copies = HalfCopies(leader.replica)
    assert not copies.is_clear(position)
    await leader.carry_out(copies.make(position))
    assert copies.is_clear(position)
    leader.fail_over()
    assert leader.table.waiting[number].place == number + 1
    await leader.carry_out(TransactionEnds(leader.replica).end(commit(number)))
    (header,) = leader.values()
    assert Batch(bytes(leader.log.entry(header.index)[1])).values() == [b"copied"]
    assert len(leader.values(HALF_ID)) == 2


async def test_dead_letters_with_a_header_name_that_is_not_utf8_are_applied() -> None:
    leader = HalfLeader()
    leader.append(CreateTopic(dead_letter_topic("checkout"), 1))
    data = half_batch(b"value", COLUMN, headers=[[("name", b"v")]])
    header = BatchHeader.parse(data)
    payload = data[header.payload_position :].replace(b"name", b"\xffame")
    body = seal(header.pack(), data[HEADER_BYTES : header.payload_position], payload)
    leader.append(EntryDraft(EntryKind.BATCH, body, HALF_ID, 0, 0, 1))
    settling = HalfSettling(leader.replica, NO_OTHER_SHARDS, lambda: 1.0)
    assert await leader.carry_out(settling.bury(0, decides=True))
    assert leader.table.waiting == {}
    topic = leader.replica.state.topics.named(dead_letter_topic("checkout"))
    assert topic is not None
    assert leader.replica.state.next_offset(topic.topic_id, 0) == 1


@pytest.mark.parametrize(("limit", "names"), [(1 << 20, 3), (100_000, 1), (20_000, 0)])
async def test_dead_letters_that_are_too_large_for_an_entry_have_fewer_headers(limit: int, names: int) -> None:
    leader = HalfLeader()
    leader.append(CreateTopic(dead_letter_topic("checkout"), 1))
    body = encode(
        [b""] * 1_000, topic_id=HALF_ID, queue=0, producer_id=8, epoch=0, first_sequence=0, base_timestamp_ms=NOW_MS,
        half=COLUMN, headers=[[(FROM, b"1:0:0")]] * 1_000 if limit < 100_000 else None,
    )  # fmt: skip
    leader.append(EntryDraft(EntryKind.BATCH, body, HALF_ID, 0, 0, 1_000))
    leader.replica.max_entry_bytes = limit
    settling = HalfSettling(leader.replica, NO_OTHER_SHARDS, lambda: 1.0)
    assert await leader.carry_out(settling.bury(0, decides=True))
    header, dead = leader.log.entry(leader.log.last_index)
    assert header.size <= limit
    headers = Batch(bytes(dead)).headers()
    assert [len(own) for own in headers] == [names] * 1_000
    assert FROM not in dict(headers[0])
    assert names in (0, 3) or headers[0][0][0] == ORIGIN


async def test_an_error_of_one_end_is_not_that_of_another() -> None:
    leader = HalfLeader()
    good, bad, ends = leader.half(), leader.half(), TransactionEnds(leader.replica)
    results = await leader.carry_out(ends.end_all([rollback(good), TransactionEnd(bad, 999, commit=True)]))
    assert results[0] is None
    assert isinstance(results[1], LedgerError)


async def test_the_bytes_of_a_large_transaction_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = HalfLeader()
    number = leader.half(b"x" * 600)
    for _ in range(3):
        leader.half(b"x" * 600, transaction=number)
    monkeypatch.setattr(leader.replica, "confirm_leadership", AsyncMock())
    size = leader.table.waiting[number].size
    for room, count in ((4 * size, 4), (3 * size - 1, 2), (10, 1)):
        monkeypatch.setattr("ledger.broker.transactions.listing.MAX_BODY_BYTES", room)
        found = await show(leader.replica, number, lambda _: True, sees_all=False)
        assert found is not None
        assert (len(found.halves), len(found.bodies)) == (4, count)
