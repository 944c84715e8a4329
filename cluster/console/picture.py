"""A picture of the cluster: what all nodes have said of themselves at about the same time.

A node that does not answer keeps its last known replicas in the picture, marked as silent, so that the page shows where
its logs ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster.health import Health, health_of, rows_of
from ledger.client.records import NodeStatus, ShardStatus


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """One event of a node (ledger/broker/node_events.py)."""

    node: int
    number: int
    time_ms: int
    shard: int
    kind: str
    text: str
    term: int = 0
    subject: int = 0

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        match self.kind:
            case "role" if self.text == "leader":
                return f"node {self.node} leads in term {self.term}"
            case "role" if self.subject:
                return f"node {self.node} is {self.text} in term {self.term}, leader node {self.subject}"
            case "role":
                return f"node {self.node} is {self.text} in term {self.term}, without a leader"
            case "vote":
                return f"node {self.node} voted for node {self.subject} in term {self.term}"
            case _:
                return f"node {self.node}: {self.text}"


@dataclass(frozen=True, slots=True)
class SeenReplica:
    """One replica. `is_silent` means that its node does not answer, and that `status` is the last one known."""

    node: int
    status: ShardStatus
    is_silent: bool = False

    @property
    def role(self) -> str:
        return "silent" if self.is_silent else self.status.role

    @property
    def marks(self) -> list[str]:
        """The words for what is wrong with the replica."""
        status = self.status
        marks = {
            "suspect": status.suspect,
            "stopped": status.stopped,
            "diverged": status.diverged,
            "unacknowledged": status.unacknowledged_by,
            "no writes": status.no_writes,
            "rebuilt": status.rebuilt,
        }
        return [mark for mark, is_set in marks.items() if is_set]

    @property
    def reasons(self) -> list[str]:
        """The sentences of the node about what is wrong with the replica."""
        status = self.status
        return [text for text in (status.stopped, status.diverged, status.no_writes, status.rebuilt) if text]


@dataclass(frozen=True, slots=True)
class SeenShard:
    """One shard with its replicas, sorted by node. `leader` and `term` are those of the leader with the highest term;
    the leader is None if no node that answers leads."""

    shard: int
    replicas: tuple[SeenReplica, ...]
    leader: int | None
    term: int

    @property
    def pinned_leader(self) -> int:
        """The node that is pinned as the leader, as the leader knows it; 0: none."""
        return next((each.status.pinned_leader for each in self.replicas if each.node == self.leader), 0)

    @property
    def start(self) -> int:
        """Where the longest log begins, in bytes."""
        return min((replica.status.start_position for replica in self.replicas), default=0)

    @property
    def end(self) -> int:
        """Where the longest log ends, in bytes."""
        return max((replica.status.end_position for replica in self.replicas), default=0)

    @property
    def last_index(self) -> int:
        return max((replica.status.last_index for replica in self.replicas), default=0)


@dataclass(frozen=True, slots=True)
class SeenNode:
    """One node. `error` says why it does not answer; empty if it answers."""

    node: int
    address: str
    room: str
    http_address: str
    version: str
    error: str
    disk_use_ratio: float | None
    leads: int
    replicas: int

    @property
    def is_silent(self) -> bool:
        return bool(self.error)


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at `time_ms` (ms since 1970). `events` has the newest events of all nodes, the newest first."""

    time_ms: int = 0
    cluster: str = ""
    nodes: tuple[SeenNode, ...] = ()
    shards: tuple[SeenShard, ...] = ()
    events: tuple[SeenEvent, ...] = ()
    health: Health = field(default_factory=lambda: Health("unknown", "no node has answered yet"))

    def shard(self, number: int) -> SeenShard | None:
        return next((shard for shard in self.shards if shard.shard == number), None)


def picture_of(
    time_ms: int,
    nodes: Sequence[NodeStatus],
    known: Mapping[int, NodeStatus],
    rooms: Mapping[int, str],
    disk_use: Mapping[int, float],
    events: Sequence[SeenEvent],
) -> Picture:
    """Return the picture. `nodes` is what the nodes have answered now, and `known` the last answer of each node."""
    shards: dict[int, list[SeenReplica]] = {}
    seen = []
    for node in nodes:
        last = node if node.reachable else known.get(node.node)
        replicas = () if last is None else last.shards
        for status in replicas:
            shards.setdefault(status.shard, []).append(SeenReplica(node.node, status, not node.reachable))
        seen.append(
            SeenNode(
                node=node.node,
                address=node.address,
                room=rooms.get(node.node, ""),
                http_address=last.http_address if last is not None else "",
                version=last.version if last is not None else "",
                error="" if node.reachable else (node.error or "no answer"),
                disk_use_ratio=disk_use.get(node.node),
                leads=sum(status.role == "leader" for status in replicas) if node.reachable else 0,
                replicas=len(replicas),
            )
        )
    cluster = next((node.cluster for node in nodes if node.reachable), "")
    return Picture(
        time_ms,
        cluster,
        tuple(seen),
        tuple(_shard(number, replicas) for number, replicas in sorted(shards.items())),
        tuple(events),
        health_of(rows_of(list(nodes))),
    )


def _shard(number: int, replicas: Sequence[SeenReplica]) -> SeenShard:
    leading = [replica for replica in replicas if replica.role == "leader"]
    leader = max(leading, key=lambda replica: replica.status.term, default=None)
    term = max(replica.status.term for replica in replicas)
    return SeenShard(
        number,
        tuple(sorted(replicas, key=lambda replica: replica.node)),
        None if leader is None else leader.node,
        term if leader is None else leader.status.term,
    )
