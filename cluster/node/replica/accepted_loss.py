"""Lets a suspect replica count again, because an operator accepts the loss of the entries that the replica may lack.

    flush the log ──> no leader: remove the suspect mark ──> the replica votes again, and its acknowledgements count
                 └──> a leader: refuse, and keep the mark, because the leader sends the missing entries

The disk may need longer than the operator waits. The steps are therefore callbacks of the disk threads: after a
cancellation of the request they still go on to the end, so that the disk and the Raft core agree.
"""

from __future__ import annotations

import asyncio
import logging

from cluster.node.replica.disk_threads import DiskThreads
from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import RecoveryRefusedError

log = logging.getLogger("ledgermq.node.shard")

ACCEPTED = "an operator accepted the loss of the entries that this replica may have lost, so it is no suspect any more"


async def accept_loss(replica: BrokerReplica, threads: DiskThreads) -> None:
    """Remove the suspect mark durably, then let the replica vote and count again. Raise RecoveryRefusedError, and keep
    the mark, if the shard has a leader when the log is flushed, or if the disk has failed so that this node must
    restart."""
    if replica.driver.needs_restart:
        raise RecoveryRefusedError(
            f"node {replica.driver.raft.node} cannot flush the log, because its disk has failed: "
            f"{replica.driver.failure} Then accept the loss again."
        )
    raft, over = replica.driver.raft, asyncio.get_running_loop().create_future()

    def flushed() -> None:
        if not raft.is_suspect:
            end()  # it has caught up, or an earlier request was accepted
        elif raft.leader:
            end(
                RecoveryRefusedError(
                    f"node {raft.node} follows node {raft.leader} now, which sends it the missing entries: wait until "
                    "it has caught up, and nothing is lost"
                )
            )
        else:
            threads.remove_suspect_mark(ACCEPTED, accepted)

    def accepted() -> None:
        log.error("shard %d: an operator accepted the loss of the entries that this node may have lost", replica.shard)
        replica.driver.accept_loss()
        end()

    def end(refusal: RecoveryRefusedError | None = None) -> None:
        if over.done():
            return  # the request was cancelled
        if refusal is None:
            over.set_result(None)
        else:
            over.set_exception(refusal)

    threads.flush(flushed)
    await over
