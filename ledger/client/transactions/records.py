"""The values that programs meet when they use transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.batch import Batch
from ledger.client.records import TopicQueue

# How a transaction ended, or shall end, or "unknown" if a checker cannot tell yet.
CheckResult = Literal["commit", "rollback", "unknown"]


@dataclass(frozen=True, slots=True)
class PreparedMessage:
    """A message of a transaction that waits for its end. `timestamp_ms` is the time that the producer gave to it, in ms
    since 1970."""

    topic: str
    queue: int
    value: bytes
    key: bytes | None
    tag: str | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int
    look_up_keys: tuple[bytes, ...] = ()


def prepared_messages(topic: str, queue: int, body: bytes) -> tuple[PreparedMessage, ...]:
    """Return the messages of a half batch for this queue. Raises CorruptBatchError."""
    batch = Batch(body)
    columns = zip(
        batch.values(),
        batch.keys(),
        batch.tags(),
        batch.headers(),
        batch.timestamps_ms(),
        batch.look_up_keys(),
        strict=True,
    )
    return tuple(PreparedMessage(topic, queue, *message) for message in columns)


@dataclass(frozen=True, slots=True)
class CheckedTransaction:
    """A transaction whose outcome a node asks for. `messages` has the message of its first send. `checks` is how often
    a producer of the group has answered "unknown" before."""

    id: str
    group: str
    since: datetime
    checks: int
    messages: tuple[PreparedMessage, ...]


TransactionChecker = Callable[[CheckedTransaction], CheckResult | Awaitable[CheckResult]]


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transaction, as the leader of its decision shard knows it.

    `state` is "open", "committed", "rolled back" or "dead letters". `since` is the time of its first message, and
    `ended` that of its end; both are in UTC. `unknowns` is how often a producer answered that it does not know the
    outcome. `queues`, `message_count` and `size` (bytes) are those of the batches that wait in the decision shard: a
    transaction over several shards has more. `messages` has the first of these messages, 2 MiB at most, and none in
    lists.
    """

    id: str
    state: str
    group: str
    since: datetime
    ended: datetime | None
    unknowns: int
    queues: tuple[TopicQueue, ...]
    message_count: int
    size: int
    messages: tuple[PreparedMessage, ...] = ()
