"""The simulator's invariants of transactions: each notices a violation and accepts what is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.stack.transaction_truth import TransactionTruth
from ledger.batch import BatchHeader, DecidedColumn, HalfColumn, copied_half, decided_batch, encode
from ledger.state.transaction_table import HERE
from ledger.v1 import command_pb2
from store import EntryKind, Header

HALF_ID, ORDERS = 1, 2


class Logs:
    """The committed entries of shards, and the violations that were found."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.truth = TransactionTruth(lambda invariant, _: self.wrong.append(invariant))
        self._ends: dict[int, int] = {}
        self._bodies: dict[tuple[int, int], bytes] = {}
        self._index = 0

    def half(
        self,
        name: bytes,
        program: int,
        transaction: tuple[int, int] | None = None,
        *,
        shard: int = 0,
        acked: bool = True,
    ) -> int:
        """Append a half batch, and return its number."""
        self.truth.sends(name, program)
        number = self._ends.get(shard, 0)
        self._ends[shard] = number + 1
        of, first = (shard, None) if transaction is None else transaction
        body = encode(
            [name + b":body"], topic_id=HALF_ID, queue=0, producer_id=7, epoch=0, first_sequence=number,
            base_timestamp_ms=0, half=HalfColumn(ORDERS, 0, of, "programs", first),
        )  # fmt: skip
        self._bodies[shard, number] = body
        self._entry(shard, EntryKind.BATCH, body, number)
        if acked:
            self.truth.acknowledged(name)
        return number

    def settle(self, number: int, transaction: int, *, shard: int = 0, body: int | None = None, **changes: Any) -> None:
        """Append the batch that settles a half batch, with the messages of the half batch `body`."""
        queue = changes.pop("queue", 0)
        column = DecidedColumn(number, transaction, 0, **changes)
        half = self._bodies[shard, number if body is None else body]
        decided = decided_batch(half, column, topic_id=ORDERS, queue=queue, first_sequence=0)
        self._entry(shard, EntryKind.BATCH, decided, 0)

    def copy(self, number: int, body: int | None = None) -> None:
        half = self._bodies[0, number if body is None else body]
        self._entry(0, EntryKind.BATCH, copied_half(half, number, 99), 99)

    def roll_back(self, *numbers: int, shard: int = 0) -> None:
        self._command(shard, roll_back_halves=command_pb2.RollBackHalves(numbers=numbers))

    def commit(self, transaction: int, *halves: tuple[int, int]) -> None:
        names = [command_pb2.HalfName(shard=shard, number=number) for shard, number in halves]
        self._command(0, commit_transaction=command_pb2.CommitTransaction(transaction=transaction, halves=names))

    def _command(self, shard: int, **command: Any) -> None:
        self._entry(shard, EntryKind.COMMAND, command_pb2.Command(**command).SerializeToString(), 0)

    def _entry(self, shard: int, kind: EntryKind, body: bytes, offset: int) -> None:
        self._index += 1
        batch = BatchHeader.parse(body) if kind is EntryKind.BATCH else SimpleNamespace(topic_id=0, queue=0, count=0)
        header = SimpleNamespace(kind=kind, topic_id=batch.topic_id, queue=batch.queue, base_offset=offset,
                                 count=batch.count, index=self._index)  # fmt: skip
        self.truth.committed(shard, cast(Header, header), body)


@pytest.fixture
def logs() -> Logs:
    return Logs()


def test_transactions_that_end_as_they_should(logs: Logs) -> None:
    one, two = logs.half(b"7.1", 1), logs.half(b"7.2", 2)
    several = logs.half(b"7.3", 3)
    more, elsewhere = logs.half(b"7.4", 3, (0, several)), logs.half(b"7.5", 3, (0, several), shard=1)
    logs.copy(several)
    for program, commit in ((1, True), (2, False), (3, True)):
        assert logs.truth.decide(program, commit=commit) is commit
    logs.settle(one, one, decides=True)
    logs.roll_back(two)
    logs.commit(several, (HERE, several), (HERE, more), (1, elsewhere))
    logs.truth.told(3, commit=True)
    logs.roll_back(more, several)  # refused
    logs.settle(several, several)
    logs.settle(more, several)
    assert list(logs.truth.unsettled()) == ["shard 1 has 1 half batches that wait"]
    logs.settle(elsewhere, several, shard=1)
    for program, commit in ((1, True), (2, False), (3, True)):
        logs.truth.told(program, commit=commit)
    assert logs.wrong == []
    assert list(logs.truth.unsettled()) == []


def test_a_program_that_did_not_commit(logs: Logs) -> None:
    one, two = logs.half(b"7.1", 1), logs.half(b"7.2", 2)
    logs.settle(one, one, decides=True)
    logs.truth.decide(2, commit=False)
    logs.commit(two, (HERE, two))
    assert logs.wrong == ["committed only as its program decided"] * 2


def test_a_program_that_committed_and_is_rolled_back(logs: Logs) -> None:
    one = logs.half(b"7.1", 1)
    logs.truth.decide(1, commit=True)
    logs.roll_back(one)
    logs.truth.told(1, commit=True)
    logs.truth.refused(1, commit=True)
    assert logs.wrong == [
        "committed only as its program decided",
        "an end that was told is so",
        "the decision of a program counts",
    ]


def test_a_half_message_that_ends_twice_or_waits_twice(logs: Logs) -> None:
    one = logs.half(b"7.1", 1)
    logs.truth.decide(1, commit=True)
    logs.settle(one, one, decides=True)
    logs.settle(one, one, decides=True)
    logs.half(b"7.1", 1)
    assert logs.wrong == ["a half message ends once", "a half message waits once"]


def test_a_batch_that_differs_from_its_half_batch(logs: Logs) -> None:
    one, two = logs.half(b"7.1", 1), logs.half(b"7.2", 1)
    logs.truth.decide(1, commit=True)
    logs.settle(one, one, decides=True, body=two)
    logs.settle(two, two, decides=True, queue=1)
    logs.copy(one, body=two)
    assert logs.wrong == ["committed as it was sent", "committed as it was sent", "a copy is equal"]


def test_a_commit_that_leaves_a_message_out(logs: Logs) -> None:
    one = logs.half(b"7.1", 1)
    logs.half(b"7.2", 1, (0, one))
    logs.half(b"7.3", 1, (0, one), acked=False)
    logs.truth.decide(1, commit=True)
    logs.commit(one, (HERE, one))
    assert logs.wrong == ["a commit has all messages"]


def test_a_part_that_is_carried_out_before_the_decision(logs: Logs) -> None:
    one = logs.half(b"7.1", 1)
    two = logs.half(b"7.2", 1, (0, one))
    logs.truth.decide(1, commit=True)
    logs.settle(two, one)
    assert logs.wrong == ["the decision comes first"]


def test_a_dead_letter_of_a_decided_transaction(logs: Logs) -> None:
    one, two = logs.half(b"7.1", 1), logs.half(b"7.2", 2)
    logs.settle(two, two, decides=True, dead=True)
    logs.truth.decide(1, commit=False)
    logs.settle(one, one, decides=True, dead=True)
    assert logs.wrong == ["what is decided is no dead letter"]


def test_an_acknowledged_send_that_is_in_no_log(logs: Logs) -> None:
    logs.truth.sends(b"7.1", 1)
    logs.truth.acknowledged(b"7.1")
    assert logs.wrong == ["acknowledged is committed"]


@pytest.mark.long
def test_a_leader_dies_in_a_transaction() -> None:
    """The fault kind has an effect, and the run is right: other leaders end the transactions."""
    found = run(11, Wishes(world="stack", minutes=0.4, faults=("leader_ends_in_transaction",)))
    assert found.reason == ""
