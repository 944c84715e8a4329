"""The settling of half batches whose transactions are decided: one that fails holds up no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ledger.broker.transactions.settling import TRY_AGAIN_S, HalfSettling
from ledger.errors import StorageFailedError
from ledger.state.transaction_table import HERE, HalfBatch, HalfName, TransactionTable


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Settling(HalfSettling):
    """Carries half batches out without a log. Those in `unreadable` fail."""

    def __init__(self, table: TransactionTable, clock: Clock, unreadable: set[int]) -> None:
        replica = SimpleNamespace(
            shard=0,
            state=SimpleNamespace(transactions=table),
            driver=SimpleNamespace(now_ms=lambda: 0),
            check_leads=lambda more: SimpleNamespace(transactions=table),
        )
        super().__init__(cast(Any, replica), cast(Any, None), clock)
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
