"""Lists open transactions, on the leader of their decision shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.transactions.halves import read_half, topic_of_half
from ledger.broker.turn_budget import TurnBudget
from ledger.state import HalfBatch
from ledger.transactions import TransactionOutcome

# Transactions of one answer.
MAX_LISTED = 1_000
# Bytes of the half batches of one answer; an answer has one half batch at least.
MAX_BODY_BYTES = 2 << 20
# Half batches that are looked at for one answer, which takes a few milliseconds.
_MAX_LOOKED = 4_000

_STATES = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ROLLED_BACK: "rolled back",
    TransactionOutcome.DEAD_LETTERS: "dead letters",
}


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transaction of a shard. `first` is None if it has ended. `bodies` are the bytes of its first half batches of
    this shard, if they were asked for. `decided_ms` is in ms since 1970, and 0 if the transaction is open."""

    transaction: int
    state: str
    halves: tuple[HalfBatch, ...] = ()
    bodies: tuple[bytes, ...] = ()
    decided_ms: int = 0

    @property
    def first(self) -> HalfBatch | None:
        return self.halves[0] if self.halves else None


@dataclass(frozen=True, slots=True)
class TransactionList:
    """Open transactions, in the order of their beginnings. `next` is the number after which the list continues, or None
    if it is complete."""

    transactions: list[ListedTransaction]
    next: int | None = None


async def list_open(
    replica: BrokerReplica,
    group: str,
    after: int | None,
    limit: int,
    may_see: Callable[[int], bool],
    turns: TurnBudget,
) -> TransactionList:
    """Return open transactions of this producer group (empty: of all groups) whose number is larger than `after`.
    `may_see(topic_id)` says whether the caller may see transactions that begin in this topic, and half batches for it.
    All callers together have the budget `turns`, of one step for each call: every user may ask. Raises LedgerError."""
    await replica.confirm_still_leading()
    await turns.spend(1)
    table = replica.state.transactions
    most = min(limit or MAX_LISTED, MAX_LISTED)
    found: list[ListedTransaction] = []
    looked = 0
    for number, half in table.waiting.items():
        if after is not None and number <= after:
            continue
        looked += 1
        if len(found) >= most or looked > _MAX_LOOKED:
            return TransactionList(found, number - 1)
        if not table.is_open(number) or (group and half.group != group) or not may_see(half.topic_id):
            continue
        found.append(ListedTransaction(number, "open", _visible(table.halves_of(number), may_see)))
    return TransactionList(found)


async def show(
    replica: BrokerReplica, transaction: int, may_see: Callable[[int], bool], *, sees_all: bool
) -> ListedTransaction | None:
    """Return one transaction. If it is open, it has the bytes of its first half batches of this shard, up to
    MAX_BODY_BYTES. Return None if it is unknown, or if the caller may not see it. Raises LedgerError.

    An outcome names no topic, so the topic is read from the log. If the log does not have it any more, only a caller
    that `sees_all` learns of the transaction."""
    await replica.confirm_still_leading()
    table = replica.state.transactions
    if table.is_open(transaction):
        halves = _visible(table.halves_of(transaction), may_see)
        if not halves or halves[0].number != transaction:
            return None
        return ListedTransaction(transaction, "open", halves, tuple(_bodies(replica, halves)))
    ended = table.outcomes.get(transaction)
    if ended is None or not (sees_all or _may_see_half(replica, transaction, may_see)):
        return None
    return ListedTransaction(transaction, _STATES[ended.outcome], decided_ms=ended.at_ms)


def _may_see_half(replica: BrokerReplica, number: int, may_see: Callable[[int], bool]) -> bool:
    topic_id = topic_of_half(replica, number)
    return topic_id is not None and may_see(topic_id)


def _visible(halves: Sequence[HalfBatch], may_see: Callable[[int], bool]) -> tuple[HalfBatch, ...]:
    """Return the half batches of topics that the caller may see."""
    return tuple(half for half in halves if may_see(half.topic_id))


def _bodies(replica: BrokerReplica, halves: Sequence[HalfBatch]) -> Iterator[bytes]:
    room = MAX_BODY_BYTES
    for place, half in enumerate(halves):
        room -= half.size
        if room < 0 and place:
            return
        yield read_half(replica, half)
