"""Tells whether a replica knows what its shard has decided until now."""

from __future__ import annotations

from ledger.broker.broker_replica import BrokerReplica


def is_up_to_date(replica: BrokerReplica) -> bool:
    """Return True if this replica leads, or follows a leader of which it has applied an entry. Then it has applied all
    entries of earlier leaders too. A replica that was just started must also have applied what the leader had committed
    meanwhile. A replica whose disk fails, or that cannot apply an entry, learns nothing new."""
    if replica.knows_the_end:
        return True
    driver = replica.driver
    if not driver.raft.leader or driver.failure is not None or driver.cannot_apply is not None:
        return False
    heard = driver.raft.first_heard_commit
    if heard is None or driver.applied < heard:
        return False
    return replica.log.term(driver.applied) == driver.raft.term
