"""The transactions of a shard: the half batches that wait, the commits that are being carried out, and the outcomes.

    half batch ──> waiting ──decided batch──────────────────────────> settled
                      │                                                  ^
                      ├──CommitTransaction──> committed ──decided batch──┤
                      └──RollBackHalves──────────────────────────────────┘

A transaction is *open* from its first half batch until its decision, which is an entry of its decision shard. A half
batch waits until it is settled, which takes an entry of its own: after the decision, and perhaps in another shard than
the decision. A settled half batch is forgotten. The outcome of its transaction is known in the decision shard for a
time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ledger.errors import BusyError, InternalError, InvalidArgumentError
from ledger.transactions import MAX_HALVES, MAX_OUTCOMES, MAX_WAITING_HALVES, OUTCOME_MS, TransactionOutcome

# Stands for the shard of the table, in place of its number.
HERE = 0xFFFF_FFFF


class HalfName(NamedTuple):
    """A half batch of a transaction: its shard, and its number there. `shard` is HERE in the table."""

    shard: int
    number: int


@dataclass(frozen=True, slots=True)
class HalfBatch:
    """A half batch that waits in this shard.

    Fields:

        number       its number: the offset in the shard's queue of `%HALF` at which its producer put it
        place        the offset of its newest copy, or `number`
        shard        the decision shard of its transaction; HERE: this shard
        transaction  the number of its transaction there
        topic_id     the topic id of its target queue
        queue        its target queue
        group        the producer group
        count        its messages
        size         its bytes
        since_ms     its append time, in ms since 1970
        unknowns     how many producers answered that they do not know the outcome of the transaction it begins
    """

    number: int
    place: int
    shard: int
    transaction: int
    topic_id: int
    queue: int
    group: str
    count: int
    size: int
    since_ms: int
    unknowns: int = 0

    @property
    def begins(self) -> bool:
        """True if the transaction begins with this half batch."""
        return self.shard == HERE and self.transaction == self.number


class EndedTransaction(NamedTuple):
    """The outcome of a transaction, and the append time of its decision, in ms since 1970."""

    outcome: TransactionOutcome
    at_ms: int


class TransactionTable:
    """The transactions of one shard."""

    def __init__(self) -> None:
        # By number, in rising order. At most MAX_WAITING_HALVES, because the leader refuses more.
        self.waiting: dict[int, HalfBatch] = {}
        # The half batches of `waiting` that do not begin a transaction (a dict, because a set has no order).
        self.joined: dict[int, None] = {}
        # (decision shard, transaction) -> the half batches of `joined` that name it. Never empty.
        self._of_transaction: dict[tuple[int, int], dict[int, None]] = {}
        # Transaction -> those of its half batches that are not carried out yet. Never empty.
        self.committed: dict[int, dict[HalfName, None]] = {}
        # The names of `committed` by shard, each with its transaction. Never empty. The order is no part of the state.
        self.names_in: dict[int, dict[tuple[int, int], None]] = {}
        # Transaction -> its outcome, in the order of the decisions.
        self.outcomes: OrderedDict[int, EndedTransaction] = OrderedDict()
        # The bytes of `waiting`, and by topic id how many half batches it has. Never 0.
        self.waiting_bytes = 0
        self._of_topic = Counter[int]()

    def is_open(self, transaction: int) -> bool:
        """Return True if the transaction of this shard has begun and is not decided."""
        half = self.waiting.get(transaction)
        return half is not None and half.begins and transaction not in self.committed

    def names(self, transaction: int, half: HalfName) -> bool:
        """Return True if the transaction is committed, and this half batch of it is not carried out yet."""
        return half in self.committed.get(transaction, ())

    @property
    def names_count(self) -> int:
        """The number of half batches of commits that are being carried out."""
        return sum(map(len, self.names_in.values()))

    def waiting_of(self, topic_id: int) -> int:
        """Return how many half batches for this topic wait."""
        return self._of_topic[topic_id]

    def count_of(self, transaction: int, shard: int = HERE) -> int:
        """Return how many half batches wait here for this transaction of `shard`."""
        first = self.waiting.get(transaction) if shard == HERE else None
        begins = first is not None and first.begins
        return begins + len(self._of_transaction.get((shard, transaction), ()))

    def halves_of(self, transaction: int, shard: int = HERE) -> list[HalfBatch]:
        """Return the half batches that wait here for this transaction of `shard`, in the order of their numbers."""
        numbers = [*self._of_transaction.get((shard, transaction), ())]
        first = self.waiting.get(transaction) if shard == HERE else None
        begins = [first] if first is not None and first.begins else []
        return [*begins, *(self.waiting[number] for number in numbers)]

    # -- half batches

    def put(self, half: HalfBatch) -> None:
        """Add a half batch. Raises InternalError if its number is not new."""
        if half.number in self.waiting:
            raise InternalError(f"The half batch {half.number} waits already.")
        self.waiting[half.number] = half
        if not half.begins:
            self.joined[half.number] = None
            self._of_transaction.setdefault((half.shard, half.transaction), {})[half.number] = None
        self.waiting_bytes += half.size
        self._of_topic[half.topic_id] += 1

    def move(self, number: int, place: int) -> None:
        """Note the place of a copy. A half batch that does not wait any more stays settled."""
        half = self.waiting.get(number)
        if half is not None:
            self.waiting[number] = replace(half, place=place)

    def count_unknown(self, numbers: Iterable[int]) -> int:
        """Count that a producer does not know the outcome of these transactions. Return how many are open."""
        known = [number for number in numbers if self.is_open(number)]
        for number in known:
            half = self.waiting[number]
            self.waiting[number] = replace(half, unknowns=half.unknowns + 1)
        return len(known)

    # -- decisions and what carries them out

    def check_settlement(self, number: int, transaction: int, shard: int, *, decides: bool) -> HalfBatch:
        """Return the half batch that a committed decided batch settles. Raise InternalError if the batch cannot settle
        it: the leader checked the batch before the append, so the leader or this replica is faulty."""
        half = self.waiting.get(number)
        if half is None or (half.shard, half.transaction) != (shard, transaction):
            raise InternalError(f"A decided batch names the half batch {number}, which does not wait.")
        if decides and not (half.begins and self.is_open(number)):
            raise InternalError(f"A decided batch ends the transaction {number}, which is not open.")
        if not decides and shard == HERE and not self._is_decided_here(half):
            raise InternalError(f"A decided batch settles the half batch {number}, whose transaction is open.")
        return half

    def _is_decided_here(self, half: HalfBatch) -> bool:
        if half.transaction in self.committed:
            return self.names(half.transaction, HalfName(HERE, half.number))
        ended = self.outcomes.get(half.transaction)
        return ended is not None and ended.outcome is TransactionOutcome.DEAD_LETTERS

    def settle(self, number: int, *, ended: TransactionOutcome | None, now_ms: int) -> None:
        """Forget a half batch that a decided batch settles. With `ended`, the batch is the decision too. The caller
        has called `check_settlement`."""
        half = self._drop(number)
        if ended is not None:
            self._end(number, ended, now_ms)
        elif half.shard == HERE:
            self._carried_out(half.transaction, HalfName(HERE, number))

    def roll_back(self, numbers: Sequence[int], now_ms: int) -> tuple[bool, ...]:
        """Roll back half batches. The first half batch of an open transaction ends the transaction. Return for each
        number whether it was rolled back now. A half batch that a commit names stays."""
        return tuple(self._roll_back(number, now_ms) for number in numbers)

    def _roll_back(self, number: int, now_ms: int) -> bool:
        half = self.waiting.get(number)
        if half is None:
            return False
        if half.begins:
            if number in self.committed:
                return False
            self._end(number, TransactionOutcome.ROLLED_BACK, now_ms)
        elif half.shard == HERE and (
            self.is_open(half.transaction) or self.names(half.transaction, HalfName(HERE, number))
        ):
            return False
        self._drop(number)
        return True

    def commit(self, transaction: int, halves: Sequence[HalfName], now_ms: int) -> bool:
        """Commit a transaction of several half batches. Return False if it is not open. Raises InvalidArgumentError if
        the half batches are not those of the transaction, and BusyError if too many commits are being carried out."""
        if not self.is_open(transaction):
            return False
        if HalfName(HERE, transaction) not in halves or len(set(halves)) != len(halves):
            raise InvalidArgumentError(
                f"A commit of the transaction {transaction} must name each of its half batches once, and the first."
            )
        if len(self.committed) >= MAX_WAITING_HALVES:
            raise BusyError(f"{len(self.committed)} commits of this shard are being carried out: try again shortly.")
        for name in halves:
            half = self.waiting.get(name.number) if name.shard == HERE else None
            if name.shard == HERE and (half is None or (half.shard, half.transaction) != (HERE, transaction)):
                raise InvalidArgumentError(
                    f"The half batch {name.number} does not wait for the transaction {transaction}: its topic may be "
                    "deleted."
                )
        self.put_committed(transaction, halves)
        self._end(transaction, TransactionOutcome.COMMITTED, now_ms)
        return True

    def confirm(self, transaction: int, halves: Iterable[HalfName]) -> None:
        """Note that half batches in other shards are carried out, or that their topics are deleted."""
        for half in halves:
            if half.shard != HERE:
                self._carried_out(transaction, half)

    def forget_topic(self, topic_id: int, now_ms: int) -> None:
        """Settle the half batches of a deleted topic. A transaction that begins with one of them is rolled back, if it
        is open."""
        if not self._of_topic[topic_id]:
            return
        for half in [half for half in self.waiting.values() if half.topic_id == topic_id]:
            if self.is_open(half.number):
                self._end(half.number, TransactionOutcome.ROLLED_BACK, now_ms)
            self._drop(half.number)
            if half.shard == HERE:
                self._carried_out(half.transaction, HalfName(HERE, half.number))

    def expire(self, now_ms: int) -> None:
        """Forget outcomes that are older than 24 hours, and the oldest of more than MAX_OUTCOMES."""
        while self.outcomes:
            oldest = next(iter(self.outcomes.values()))
            if now_ms - oldest.at_ms < OUTCOME_MS and len(self.outcomes) <= MAX_OUTCOMES:
                return
            self.outcomes.popitem(last=False)

    # -- for the decoder

    def put_committed(self, transaction: int, halves: Iterable[HalfName]) -> None:
        """Add a commit that is being carried out."""
        names = self.committed[transaction] = dict.fromkeys(halves)
        for shard, number in names:
            self.names_in.setdefault(shard, {})[transaction, number] = None

    def put_outcome(self, transaction: int, ended: EndedTransaction) -> None:
        """Add an outcome that is newer than all others."""
        self.outcomes[transaction] = ended

    def _end(self, transaction: int, outcome: TransactionOutcome, now_ms: int) -> None:
        self.outcomes[transaction] = EndedTransaction(outcome, now_ms)
        self.expire(now_ms)

    def _drop(self, number: int) -> HalfBatch:
        half = self.waiting.pop(number)
        if not half.begins:
            self._leave(half)
        self.waiting_bytes -= half.size
        self._of_topic[half.topic_id] -= 1
        if not self._of_topic[half.topic_id]:
            del self._of_topic[half.topic_id]
        return half

    def _leave(self, half: HalfBatch) -> None:
        del self.joined[half.number]
        key = (half.shard, half.transaction)
        del self._of_transaction[key][half.number]
        if not self._of_transaction[key]:
            del self._of_transaction[key]

    def _carried_out(self, transaction: int, half: HalfName) -> None:
        halves = self.committed.get(transaction)
        if halves is None or half not in halves:
            return
        del halves[half]
        if not halves:
            del self.committed[transaction]
        names = self.names_in[half.shard]
        del names[transaction, half.number]
        if not names:
            del self.names_in[half.shard]


def check_halves(halves: Sequence[HalfName]) -> None:
    """Raise InvalidArgumentError if a commit cannot name so many half batches."""
    if not 1 <= len(halves) <= MAX_HALVES:
        raise InvalidArgumentError(
            f"A transaction can have 1 to {MAX_HALVES} half batches, and not {len(halves)}: send fewer messages in one "
            "transaction."
        )
