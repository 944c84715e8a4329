"""Lets a suspect replica count again, because an operator accepts the loss of the entries that the replica may lack.

    flush the log ──> no leader: remove the suspect mark ──> the replica votes again, and its acknowledgements count
                 └──> a leader: refuse, and keep the mark, because the leader sends the missing entries

The disk may need longer than the operator waits. The steps are therefore callbacks of the disk threads: after a
cancellation of the request they still go on to the end, so that the disk and the Raft core agree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.node.replica.disk_threads import DiskThreads
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.members import not_lost
from ledger.errors import RecoveryRefusedError
from store import StoreError

log = logging.getLogger("ledgermq.node.shard")

ACCEPTED = "an operator accepted the loss of the entries that this replica may have lost, so it is no suspect any more"


async def accept_loss(replica: BrokerReplica, threads: DiskThreads) -> None:
    """Remove the suspect mark durably, then let the replica vote and count again. Raise RecoveryRefusedError, and keep
    the mark, if the shard has a leader when the log is flushed, or if the disk fails so that this node must restart. If
    the disk refuses to remove the mark, the error is the same, and the replica remains a suspect."""
    raft, over = replica.driver.raft, asyncio.get_running_loop().create_future()
    if replica.driver.needs_restart:
        raise _disk_failed(raft.node, "flush the log", replica.driver.failure)

    def flushed() -> None:
        if not raft.is_suspect:
            end()  # it has caught up, or an earlier request was accepted
        elif raft.leader:
            end(not_lost(raft.node, raft.leader))
        else:
            threads.remove_suspect_mark(ACCEPTED, accepted, failed("remove its suspect mark"))

    def accepted() -> None:
        log.error("shard %d: an operator accepted the loss of the entries that this node may have lost", replica.shard)
        replica.driver.accept_loss()
        end()

    def failed(what: str) -> Callable[[StoreError], None]:
        return lambda failure: end(_disk_failed(raft.node, what, failure))

    def end(refusal: RecoveryRefusedError | None = None) -> None:
        if over.done():
            return  # the request was cancelled
        if refusal is None:
            over.set_result(None)
        else:
            over.set_exception(refusal)

    threads.flush(flushed, failed("flush the log"))
    await over


def _disk_failed(node: int, what: str, failure: StoreError | None) -> RecoveryRefusedError:
    return RecoveryRefusedError(
        f"node {node} cannot {what}, because its disk has failed: {failure} Then accept the loss again."
    )
