"""The interfaces through which the transactions of one shard use other shards."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol


class HalfOfTransaction(NamedTuple):
    """A half batch, and its transaction in the decision shard."""

    transaction: int
    number: int


class DecisionVerdict(IntEnum):
    """What the decision shard says about a half batch."""

    UNDECIDED = 0
    COMMIT = 1
    ROLL_BACK = 2
    DEAD_LETTERS = 3


class OtherShards(Protocol):
    """Calls the leader of a shard, also after the leadership has moved. Every method can raise LedgerError."""

    async def settle_halves(self, shard: int, decision_shard: int, halves: Sequence[HalfOfTransaction]) -> list[bool]:
        """Ask the leader of `shard` to carry out commits of `decision_shard`. Return for each half batch whether it is
        settled."""

    async def judge_halves(
        self, shard: int, asking_shard: int, halves: Sequence[HalfOfTransaction]
    ) -> list[DecisionVerdict]:
        """Ask the leader of the decision shard `shard` about half batches that wait in `asking_shard`."""

    async def find_halves(self, shard: int, decision_shard: int, transaction: int) -> list[int]:
        """Return the numbers of the half batches of a transaction of `decision_shard` that wait in `shard`."""

    async def prepare_transactions(self, producer_group: str) -> None:
        """Ask the leader of shard 0 for the topics of a producer group's transactions."""
