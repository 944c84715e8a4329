"""The health of one replica: says whether clients should use the replica, and why not."""

from __future__ import annotations

from cluster.node.runtime import PeerTransport
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.membership import Membership, Standing
from ledger.topics import TOPICS_SHARD

# A replica with more committed entries that are not applied yet is catching up, so it is not ready.
BUSY_ENTRIES = 1024


def not_ready(replica: BrokerReplica, transport: PeerTransport, damage: str, settings: NodeSettings) -> str:
    """Return the reason why clients should not use a running replica, or "" if the replica is ready. `damage` is a
    sentence about damage that scrub repair is repairing, or ""."""
    number, driver = replica.shard, replica.driver
    has_begun = driver.raft.configuration_index > 0  # then a peer that disowns this node is wrong, not this node
    disowned = "" if has_begun else transport.disowned
    if number != TOPICS_SHARD:
        if disowned:
            return f"shard {number}: {disowned}, with `--shard {number}`"
        if replica.membership.standing in (Standing.REMOVED, Standing.JOINING):
            return ""  # this shard has its replicas on other nodes, so it does not make this node unready
    if reason := not_a_member(number, replica.membership, settings):
        return reason
    if disowned:
        return disowned
    if damage:
        return damage
    if driver.failure is not None:
        return f"the disk refuses writes: {driver.failure}"
    if driver.cannot_apply is not None:
        return f"shard {number} applies no more entries on this node: {driver.cannot_apply}"
    if replica.divergence:
        return replica.divergence
    if mute := replica.unacknowledged_by:
        nodes = ", ".join(str(node) for node in mute)
        return f"no write of shard {number} is committed: nodes {nodes} answer heartbeats and acknowledge no entries"
    if driver.raft.leader == 0:
        return f"no leader of shard {number} is known"
    if driver.raft.commit - driver.applied > BUSY_ENTRIES:
        return f"applied {driver.applied} of {driver.raft.commit} committed entries"
    return ""


def no_writes(replica: BrokerReplica) -> str:
    """Return the reason why this node would take no writes of clients if it led the shard, or "" if it would."""
    failure = replica.driver.failure
    if failure is not None:
        return f"the disk refuses writes: {failure}"
    return "" if replica.membership.is_removed else replica.no_room


def not_a_member(number: int, membership: Membership, settings: NodeSettings) -> str:
    """Return the reason why this node is no member of the shard or of the cluster. Return "" if this node is a
    member, or does not know whether it is a member."""
    node, standing = settings.node, membership.standing
    if number != TOPICS_SHARD:
        return f"node {node} was removed from shard {number}" if standing is Standing.REMOVED else ""
    if standing is Standing.REMOVED:
        return (
            f"node {node} was removed from cluster {settings.cluster!r}, so it no longer votes or serves clients: stop "
            f"it; to add it again, remove its data directory {settings.data} and start it with `join = true`"
        )
    if standing is Standing.JOINING and settings.join:
        return (
            f"node {node} waits to be added to the cluster: run `ledgermq cluster add-node {node} --address HOST:PORT`"
        )
    return ""
