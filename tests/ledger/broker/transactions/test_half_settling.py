"""The settling of half batches whose transactions are decided: one that fails holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.transactions.other_shards import DecisionVerdict, HalfOfTransaction
from ledger.broker.transactions.settling import ASK_AFTER_S, MAX_ASKED, TRY_AGAIN_S, HalfSettling
from ledger.errors import StorageFailedError
from ledger.state.shard_table import ShardTable
from ledger.state.transaction_table import HERE, HalfBatch, HalfName, TransactionTable


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class OneSilentShard:
    """Shard 1 has no leader, and calls of it do not end. Shard 2 commits everything."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def judge_halves(
        self, shard: int, asking_shard: int, halves: Sequence[HalfOfTransaction]
    ) -> list[DecisionVerdict]:
        self.asked.append(shard)
        if shard == 1:
            await asyncio.Event().wait()
        return [DecisionVerdict.COMMIT] * len(halves)

    async def settle_halves(self, shard: int, decision_shard: int, halves: Sequence[HalfOfTransaction]) -> list[bool]:
        self.asked.append(shard)
        if shard == 1:
            await asyncio.Event().wait()
        return [False] * len(halves)


class Settling(HalfSettling):
    """Carries half batches out without a log. Those in `unreadable` fail."""

    def __init__(
        self, table: TransactionTable, clock: Clock, unreadable: set[int], others: OneSilentShard | None = None
    ) -> None:
        replica = SimpleNamespace(
            shard=0,
            shards=ShardTable([(1, {}), (2, {})]),
            knows_the_end=True,
            state=SimpleNamespace(transactions=table),
            driver=SimpleNamespace(now_ms=lambda: 0),
            check_leads=lambda more: SimpleNamespace(transactions=table),
        )
        super().__init__(cast(Any, replica), cast(Any, others), clock)
        self.unreadable = unreadable
        self.tried: list[int] = []

    async def carry_out(self, number: int) -> None:
        self.tried.append(number)
        if number in self.unreadable:
            raise StorageFailedError("this node cannot read the half batch")


async def test_a_half_batch_that_cannot_be_read_holds_up_no_other() -> None:
    table, clock = TransactionTable(), Clock()
    for number in range(4):
        table.put(HalfBatch(number, number, HERE, number, 7, 0, "checkout", 1, 100, 0))
        table.commit(number, [HalfName(HERE, number)], 0)
    settling = Settling(table, clock, {0, 2})
    await settling._look()
    await settling._look()
    assert settling.tried == [0, 1, 2, 3, 1, 3]
    clock.now_s += TRY_AGAIN_S
    settling.tried.clear()
    await settling._look()
    assert settling.tried == [0, 1, 2, 3], "it is tried again later"


def test_a_look_reads_no_more_names_than_it_needs() -> None:
    table = TransactionTable()
    for number in range(3):
        table.put(HalfBatch(number, number, HERE, number, 7, 0, "checkout", 1, 100, 0))
        table.commit(number, [HalfName(HERE, number), *(HalfName(2, other) for other in range(999))], 0)
    settling = Settling(table, Clock(), set())
    table.committed = cast(Any, None)  # it is not scanned
    assert settling._committed_here() == [0, 1, 2]
    found = settling._elsewhere()
    assert [*found] == [2]
    assert (len(found[2]), found[2][0], found[2][-1]) == (MAX_ASKED, (0, 0), (1, 0))


async def test_a_shard_without_a_leader_delays_only_its_own_transactions() -> None:
    table, clock, others = TransactionTable(), Clock(), OneSilentShard()
    for number, shard in enumerate((1, 2, 7)):  # there is no shard 7
        table.put(HalfBatch(number, number, shard, 50, 7, 0, "checkout", 1, 100, 0))
    table.put(HalfBatch(3, 3, HERE, 3, 7, 0, "checkout", 1, 100, 0))
    table.commit(3, [HalfName(HERE, 3), HalfName(1, 8), HalfName(2, 8)], 0)
    settling = Settling(table, clock, set(), others)
    work = asyncio.ensure_future(settling.run())
    for _ in range(3):
        settling.look_soon()
        for _ in range(20):
            await asyncio.sleep(0)
        clock.now_s += ASK_AFTER_S
    work.cancel()
    await asyncio.wait([work])
    assert settling.tried == [3, 3, 1, 3, 1], "local commits in each look, and what shard 2 decided"
    assert others.asked.count(1) == 2, "one call of each kind"
    assert (others.asked.count(2), len(others.asked)) == (5, 7)
    await asyncio.sleep(0)
    assert settling._calls == {}


async def test_an_error_of_our_own_in_a_call_ends_the_settling() -> None:
    table, others = TransactionTable(), OneSilentShard()
    table.put(HalfBatch(0, 0, HERE, 0, 7, 0, "checkout", 1, 100, 0))
    table.commit(0, [HalfName(HERE, 0), HalfName(2, 8)], 0)
    others.asked = cast(Any, None)
    with pytest.raises(AttributeError):
        async with asyncio.timeout(5):
            await Settling(table, Clock(), set(), others).run()
