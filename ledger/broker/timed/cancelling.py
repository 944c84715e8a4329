"""Cancels waiting messages, on the leader of their shard.

    handles ──> units of the index ──> target topics of their batches ──> one entry `CancelTimed` ──> True or False

The entry decides, and not the leader's look at its index: all replicas apply the entry after the same deliveries and
cancels. The leader leaves out only messages that wait no more, and messages that a handle names wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.timed.targets import targets_of
from ledger.errors import InvalidArgumentError, StorageFailedError
from ledger.state.command_checks import MAX_TIMED_ITEMS
from ledger.state.commands import CancelTimed
from ledger.state.timed_table import TimedMessage
from store import TimedKey
from store.index.timed_unit import NO_UNITS, Units


class NamedMessage(NamedTuple):
    """A waiting message, as a handle names it. `topic_id` is the id of its target topic."""

    topic_id: int
    identity: int
    delivery_ms: int


async def cancel(replica: BrokerReplica, messages: Sequence[NamedMessage]) -> list[bool]:
    """Cancel 1 to MAX_TIMED_ITEMS messages. Return for each message True if it is cancelled now, and False if it was
    delivered or cancelled before, or is unknown, or if the batch of the message has another target topic than the
    handle. So a caller with the right to publish on the topics of the handles cancels no messages of other topics, and
    learns nothing about them.

    Raises InvalidArgumentError if there are more messages, or if a handle cannot be of this shard. Raises
    StorageFailedError if a batch cannot be read, or another LedgerError, if this node does not lead or stops leading.
    """
    if not 1 <= len(messages) <= MAX_TIMED_ITEMS:
        raise InvalidArgumentError(
            f"{len(messages)} waiting messages were given: cancel 1 to {MAX_TIMED_ITEMS} in one request."
        )
    replica.check_leads(0)
    _check_shard(replica, messages)
    units = _waiting_units(replica, messages)
    found = [unit for unit in units if unit is not None]
    targets = await targets_of(replica.log, np.concatenate(found) if found else NO_UNITS)
    if None in targets.values():
        raise StorageFailedError("this node cannot read the batch of a waiting message")
    asked = [
        number
        for number, (message, unit) in enumerate(zip(messages, units, strict=True))
        if unit is not None and targets[int(unit["position"][0])] == message.topic_id
    ]
    results = [False] * len(messages)
    if not asked:
        # Only a leader knows that there is nothing to cancel.
        await replica.confirm_still_leading()
        return results
    items = tuple(TimedMessage(messages[number].identity, messages[number].delivery_ms) for number in asked)
    for number, cancelled in zip(asked, await replica.cancel(CancelTimed(items)), strict=True):
        results[number] = cancelled
    return results


def _check_shard(replica: BrokerReplica, messages: Iterable[NamedMessage]) -> None:
    """Raise InvalidArgumentError if a target topic has no queue in this shard: messages wait in the shards of their
    target queues."""
    for topic_id in {message.topic_id for message in messages}:
        topic = replica.state.topics.get(topic_id)
        if topic is not None and replica.shard not in topic.shards:
            raise InvalidArgumentError(
                f"A handle names a message of topic {topic.name!r} in shard {replica.shard}, where the topic has no "
                "queue: the handle is of another cluster, or was changed."
            )


def _waiting_units(replica: BrokerReplica, messages: Sequence[NamedMessage]) -> list[Units | None]:
    """Return for each message its unit of the index, and None if it does not wait."""
    table = replica.state.timed
    found = replica.timed.index.find([TimedKey(message.delivery_ms, message.identity) for message in messages])
    return [
        unit if table.waits(message.delivery_ms, message.identity) else None
        for message, unit in zip(messages, found, strict=True)
    ]
