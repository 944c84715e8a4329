"""Says when this replica had an entry, as far as its driver remembers it."""

from __future__ import annotations

from datetime import UTC, datetime

from ledger.broker.broker_replica import BrokerReplica
from ledger.message_trace import ReplicaTimes
from raft.entry_times import EntryTimes
from raft.index_times import IndexTimes


def replica_times(replica: BrokerReplica, index: int) -> ReplicaTimes:
    """Return when this node had the entry with this index."""
    driver = replica.driver
    times = driver.times

    def wall(step: IndexTimes) -> int | None:
        at = step.time_of(index)
        return None if at is None else times.wall_ms(at)

    acknowledged = ((node, wall(step)) for node, step in sorted(times.acknowledged.items()))
    return ReplicaTimes(
        replica.node,
        wall(times.written),
        wall(times.held),
        wall(times.committed),
        wall(times.applied),
        tuple((node, at) for node, at in acknowledged if at is not None) if driver.leads else (),
        driver.leads,
        _note(times, index, replica.log.last_index),
    )


def _note(times: EntryTimes, index: int, last_index: int) -> str:
    """Return why the time of the group write is not known, or "" if it is."""
    if index > last_index:
        return "the replica does not have the entry yet"
    if times.written.time_of(index) is not None:
        return ""
    if len(times.written) < times.remembered:
        started = datetime.fromtimestamp(times.started_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"not remembered: the replica started at {started.replace('+00:00', 'Z')}, and had the entry then"
    return f"not remembered: the replica remembers its last {times.remembered:,} group writes"
