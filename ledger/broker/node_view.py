"""Answers requests for the routes of the cluster and for the status of this node. A node returns the routes that it
knows. The routes can be out of date if the caller has not made a read index first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.shard_consumption import COORDINATORS
from ledger.broker.members.membership import Standing
from ledger.broker.replicas import Replicas
from ledger.state import Topic
from ledger.topics import TOPICS_SHARD
from store import CommitLog


@dataclass(frozen=True, slots=True)
class RocketmqAddresses:
    """The addresses of a node for RocketMQ clients, in plaintext and with TLS; "" if it has none. `outside_host` is
    their host for clients outside the nodes' network, or ""."""

    plain: str = ""
    tls: str = ""
    outside_host: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts about a node in the node's own settings."""

    node: int
    cluster: str
    addresses: Mapping[int, str]
    http_address: str
    data_directory: str
    version: str
    # The node waits to be added to a cluster, unless it is a member already.
    joins: bool = False
    # The machine room of the node.
    room: str = ""
    # How many shards the cluster is configured to have.
    shards: int = 1
    # The outside addresses of nodes, as far as they are in the settings of this node.
    outside: Mapping[int, str] = field(default_factory=dict)
    # The addresses of this node for RocketMQ clients.
    rocketmq: RocketmqAddresses = RocketmqAddresses()


class LocalShard(Protocol):
    """The interface through which a `NodeView` reads one shard of this node. The shard can still be waiting for its
    start."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def is_closed(self) -> bool:
        """True if the shard's log is closed, because startup repair is replacing damaged bytes."""

    def not_ready(self) -> str:
        """The reason why the shard has not started, or "" if it has started."""


@dataclass(frozen=True, slots=True)
class NodeRoute:
    """The addresses at which clients reach a node. `room` is None if this node does not know the machine room."""

    node: int
    address: str
    room: str | None
    outside_address: str
    # Only the node itself tells them.
    rocketmq: RocketmqAddresses = RocketmqAddresses()


@dataclass(frozen=True, slots=True)
class NodeRoutes:
    """What a client learns about the cluster: the addresses of the nodes, and the limits. `node` is the node that
    answers, and `configuration_index` the index of shard 0's configuration."""

    node: int
    cluster: str
    max_message_bytes: int
    coordinators: int
    nodes: tuple[NodeRoute, ...]
    configuration_index: int


@dataclass(frozen=True, slots=True)
class ShardLeader:
    """The leader of a shard, and the leader's term. The leader and the term are 0 if this node does not know the
    leader."""

    shard: int
    term: int = 0
    leader: int = 0


@dataclass(frozen=True, slots=True)
class TopicRoutes:
    """The leader of each shard, and topics with at least one open queue. `topics_index` is the index of the last
    entry that changed topics."""

    shards: tuple[ShardLeader, ...] = ()
    topics_index: int = 0
    topics: tuple[Topic, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """What one replica of this node reports about itself. Before the shard has started on this node, only shard and
    role are known."""

    shard: int
    role: str
    term: int = 0
    leader: int = 0
    last_index: int = 0
    commit: int = 0
    applied: int = 0
    end_position: int = 0
    chain: int = 0
    suspect: bool = False
    # The feature level of the replicated state (ledger/state/feature_levels.py).
    feature_level: int = 0
    # Why the replica applies no more entries; empty while it applies entries.
    stopped: str = ""
    # How the logs of other members contradict this log; empty if none does.
    diverged: str = ""
    # On a leader that cannot commit: the followers that answer heartbeats and acknowledge no entries.
    unacknowledged_by: tuple[int, ...] = ()
    # Why the last start built state and indexes anew from the log, although there was a checkpoint; else empty.
    rebuilt: str = ""
    # Why the replica takes no writes of clients; empty if it takes writes when it leads.
    no_writes: str = ""
    # On the leader: by how many ms the wall clock of each voter is ahead of the clocks of a majority, or behind.
    clock_offsets_ms: Mapping[int, int] = field(default_factory=dict)
    # The first entry of the log, and the positions in bytes at which these parts of the log end.
    first_index: int = 0
    start_position: int = 0
    flushed_position: int = 0
    commit_position: int = 0
    applied_position: int = 0
    # For whom this replica voted in this term, or 0.
    voted_for: int = 0
    # The voter that is pinned as the leader, and the voter that other leaders hand leadership to; 0: none.
    pinned_leader: int = 0
    preferred_leader: int = 0


class NodeView:
    """Answers which routes one node knows, and what its status is."""

    def __init__(self, facts: NodeFacts, shards: Mapping[int, LocalShard], replicas: Replicas) -> None:
        """`shards` maps shard numbers to the shards of this node. Shards can be added to this mapping later."""
        self.facts = facts
        self._shards = shards
        self._replicas = replicas

    @property
    def configuration_index(self) -> int:
        """The index of the configuration of shard 0, whose members are the nodes of the cluster. The index is 0
        before shard 0 has started."""
        return self._replicas.first.membership.index if self._replicas.first else 0

    @property
    def address(self) -> str:
        """The address of this node."""
        first, facts = self._replicas.first, self.facts
        own = first.membership.address(facts.node) if first else ""
        return own or facts.addresses.get(facts.node, "")

    def nodes(self) -> NodeRoutes:
        """Return the nodes of the cluster. Before shard 0 has started on this node, return the nodes in the
        settings."""
        facts, first = self.facts, self._replicas.first
        addresses = first.membership.addresses() if first else dict(sorted(facts.addresses.items()))
        nodes = tuple(
            NodeRoute(
                node,
                address,
                facts.room if node == facts.node else None,
                facts.outside.get(node, ""),
                facts.rocketmq if node == facts.node else RocketmqAddresses(),
            )
            for node, address in addresses.items()
        )
        limit = self._shards[TOPICS_SHARD].max_message_bytes
        return NodeRoutes(facts.node, facts.cluster, limit, COORDINATORS, nodes, self.configuration_index)

    def topics(self, names: Collection[str] = ()) -> TopicRoutes:
        """Return the leader of each shard, and the topics named in `names`. Without names, return all topics.
        Before shard 0 has started on this node, the result is empty."""
        if (replica := self._replicas.first) is None:
            return TopicRoutes()
        table = replica.state.topics
        named = (table.named(name) for name in dict.fromkeys(names)) if names else table
        return TopicRoutes(
            tuple(self._leader(shard) for shard in replica.state.shards.numbers),
            table.changed_at,
            tuple(topic for topic in named if topic is not None and topic.opened),
        )

    def status(self) -> list[ReplicaStatus]:
        """Return the status of each replica of this node, sorted by shard number."""
        found = []
        for shard, local in sorted(self._shards.items()):
            if (replica := self._replicas.get(shard)) is not None:
                found.append(self._status(replica))
            else:
                found.append(ReplicaStatus(shard, "damaged" if local.is_closed else self._outside))
        return found

    def _leader(self, shard: int) -> ShardLeader:
        replica = self._replicas.get(shard)
        if replica is None or replica.membership.is_removed:
            return ShardLeader(shard)
        return ShardLeader(shard, replica.driver.raft.term, replica.driver.raft.leader)

    def _status(self, replica: BrokerReplica) -> ReplicaStatus:
        raft, log = replica.driver.raft, replica.log
        return ReplicaStatus(
            shard=replica.shard,
            role=self._role(replica),
            term=raft.term,
            leader=raft.leader,
            last_index=log.last_index,
            commit=raft.commit,
            applied=replica.driver.applied,
            end_position=log.end,
            chain=log.tail.chain,
            suspect=raft.is_suspect,
            feature_level=replica.state.feature_level,
            stopped=str(replica.driver.cannot_apply or ""),
            diverged=replica.divergence,
            unacknowledged_by=tuple(replica.unacknowledged_by),
            rebuilt=replica.rebuilt,
            no_writes=replica.no_room or str(replica.driver.failure or ""),
            clock_offsets_ms=replica.driver.clock_offsets_ms,
            first_index=log.first_index,
            start_position=log.start,
            flushed_position=max(log.start, log.end - log.segments.dirty_bytes),
            commit_position=_end_of(log, raft.commit),
            applied_position=_end_of(log, replica.driver.applied),
            voted_for=raft.voted_for,
            pinned_leader=replica.pinned_leader,
            preferred_leader=raft.preferred_leader,
        )

    def _role(self, replica: BrokerReplica) -> str:
        """Return the Raft role if this node is a voter. If this node is no voter, return "learner", "removed",
        "joining" or "waiting"."""
        raft, standing = replica.driver.raft, replica.membership.standing
        if standing is Standing.REMOVED:
            return "removed"
        if self.facts.node in raft.configuration.voters:
            return raft.role.value
        if self.facts.node in raft.configuration.learners:
            return "learner"
        return self._outside

    @property
    def _outside(self) -> str:
        return "joining" if self.facts.joins else "waiting"


def _end_of(log: CommitLog, index: int) -> int:
    """Return the position at which the entry `index` ends."""
    index = min(index, log.last_index)
    return log.start if index < log.first_index else log.reading.end(index)
