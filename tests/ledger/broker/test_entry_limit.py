"""A leader proposes no entry that is larger than what its followers can receive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger.batch import encode
from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import InvalidArgumentError
from ledger.state import HalfName
from ledger.state.commands import CancelTimed, ClaimedQueue, ClaimQueues, CommitTransaction
from ledger.state.timed_table import TimedMessage
from store.log.entry import HEADER_SIZE
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS
from tests.ledger.broker.transactions.half_leader import HalfLeader

LIMIT = 1_000


def batch(size: int, first_sequence: int = 0) -> bytes:
    """Return a batch for the queue 0 of `orders` with one message of `size` bytes."""
    return encode(
        [bytes(size)], topic_id=ORDERS, queue=0, producer_id=9, epoch=0, first_sequence=first_sequence,
        base_timestamp_ms=NOW_MS,
    )  # fmt: skip


CLAIMS = ClaimQueues("work", tuple(ClaimedQueue(ORDERS, queue, 1, 0) for queue in range(200)))
ITEMS = tuple(TimedMessage(number, NOW_MS) for number in range(200))
HALVES = tuple(HalfName(0, number) for number in range(1, 400))

PROPOSALS: dict[str, Callable[[BrokerReplica], Any]] = {
    "produce": lambda replica: replica.produce(batch(LIMIT)),
    "append": lambda replica: replica.append(batch(LIMIT)),
    "copy": lambda replica: replica.copy(batch(LIMIT)),
    "deliver": lambda replica: replica.deliver(batch(LIMIT), [1]),
    "settle_half": lambda replica: replica.settle_half(batch(LIMIT), 0),
    "command": lambda replica: replica.command(CLAIMS),
    "propose_checked": lambda replica: replica.propose_checked(CLAIMS),
    "propose_command": lambda replica: replica.propose_command(CLAIMS),
    "cancel": lambda replica: replica.cancel(CancelTimed(ITEMS)),
    "end_halves": lambda replica: replica.end_halves(CommitTransaction(0, HALVES), [0]),
}


@pytest.fixture
def leader() -> HalfLeader:
    leader = HalfLeader()
    leader.half()
    leader.replica.max_entry_bytes = LIMIT
    return leader


@pytest.mark.parametrize("name", PROPOSALS)
async def test_an_entry_that_followers_cannot_receive_is_refused_and_leaves_no_trace(
    leader: HalfLeader, name: str
) -> None:
    last, projected = leader.log.last_index, leader.replica.check_leads(0)
    with pytest.raises(InvalidArgumentError, match="over the limit of 1,000 bytes of this shard"):
        PROPOSALS[name](leader.replica)
    assert (leader.log.last_index, leader.driver.proposed) == (last, [])
    assert leader.replica.next_offset(ORDERS, 0) == 0
    assert projected.transactions.waits(0)
    assert leader.replica._pending_batches == {}


async def test_the_largest_entry_is_taken(leader: HalfLeader) -> None:
    size = LIMIT - HEADER_SIZE - len(batch(0))
    leader.replica.produce(batch(size))
    (header,) = [header for _, header in leader.driver.proposed]
    assert header.size == LIMIT
    with pytest.raises(InvalidArgumentError):
        leader.replica.produce(batch(size + 8, 1))
