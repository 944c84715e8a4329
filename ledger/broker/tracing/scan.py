"""Reads a part of the log for the history of a message, in small steps, so that other requests get their turns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.tracing.history import MessageHistory
from ledger.errors import InvalidArgumentError

# Entries and bytes that one request reads at most. The answer says where the next request continues.
MAX_SCANNED_ENTRIES = 20_000
MAX_SCANNED_BYTES = 16 << 20
# Events of one answer.
MAX_EVENTS = 1_000
# Entries and bytes between two turns of the event loop.
STEP_ENTRIES = 64
STEP_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan has read: the entries up to `through`. The replica has applied the entries up to `applied`."""

    through: int
    applied: int


async def scan(replica: BrokerReplica, history: MessageHistory, first_index: int) -> Scanned:
    """Give the applied entries from `first_index` on to `history`, up to the limits of one request. Raises
    InvalidArgumentError if the log no longer has this entry, and StoreError."""
    index, entries, size = first_index, 0, 0
    while True:
        log, applied = replica.log, replica.driver.applied
        if index < log.first_index:
            raise InvalidArgumentError(
                f"entry {index} is no longer in the log of shard {replica.shard}, which begins with entry "
                f"{log.first_index}"
            )
        step_entries, step_bytes = 0, 0
        while index <= applied and step_entries < STEP_ENTRIES and step_bytes < STEP_BYTES:
            header = log.reading.header(index)
            if history.wants_body(header):
                header, body = log.entry(index)
                history.look_at(header, body)
                step_bytes += header.size
                del body  # a view keeps the mapping of a segment alive
            index += 1
            step_entries += 1
        entries, size = entries + step_entries, size + step_bytes
        is_full = entries >= MAX_SCANNED_ENTRIES or size >= MAX_SCANNED_BYTES or len(history.events) >= MAX_EVENTS
        if index > applied or is_full:
            return Scanned(index - 1, applied)
        await asyncio.sleep(0)
