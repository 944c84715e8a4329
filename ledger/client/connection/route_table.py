"""The route table of a client: the leaders, nodes and topics that nodes reported last. No I/O.

A reported leader replaces a known leader with the same term or a lower term. If a leader did not answer, the table
marks this leader as *doubted*. A doubted leader is trusted again when a node reports the same leader again. If a node
reports a newer term without a leader, the table forgets the known leader. A table that has forgotten a leader still
accepts a leader of the older term: the node that reported the newer term may be cut off from the cluster, and the
newer term may never get a leader.

The table contains the nodes of the newest committed configuration that was reported, so a removed node disappears from
the table. The newest report about a topic is valid, so a deleted topic disappears from the table.

A node can have two addresses: one for the other nodes, and an outside address for clients outside the nodes' network,
for example on the host of containers. If a bootstrap server of the client is an outside address of a node, the client
uses the outside addresses of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ledger.errors import LedgerError
from ledger.topics import TopicType

# How the message of a node names a topic.
_TOPIC_ID = re.compile(r"\b([Tt]opic) (\d+)\b")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class RoutedTopic:
    """A topic, and the shard of each of its queues. Queue i of the topic is in shard `shards[i]`. `type` is the word
    for what producers may send to it (`ledger.topics.TopicType`)."""

    name: str
    topic_id: int
    shards: tuple[int, ...]
    created_ms: int
    type: str = TopicType.MIXED.word


@dataclass(frozen=True, slots=True)
class KnownLeader:
    """The leader of a shard in the Raft term `term`. `node` is 0 if no leader is known; `term` is then the last term
    with a known leader.

    `doubted` is True if the node did not answer as leader to the last request of this client.
    """

    node: int
    term: int
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class RocketmqEndpoint:
    """The addresses of a node for RocketMQ clients, in plaintext and with TLS; "" if it has none. `outside_host` is
    their host for clients outside the nodes' network, or ""."""

    plain: str
    tls: str
    outside_host: str


@dataclass(frozen=True, slots=True)
class Said:
    """The routes that one node reported."""

    cluster: str
    nodes: Mapping[int, str]
    leaders: Mapping[int, KnownLeader]
    topics: Collection[RoutedTopic]
    max_message_bytes: int
    # Index of the committed configuration that names these nodes; 0: the nodes come from the settings of the node.
    configuration: int = 0
    # Number of shards that coordinate consumer groups; 0: not reported.
    coordinators: int = 0
    # Machine rooms, by node.
    rooms: Mapping[int, str] = field(default_factory=dict)
    # Addresses for clients outside the nodes' network, by node.
    outside: Mapping[int, str] = field(default_factory=dict)
    # Index of the last entry that changed topics and that the node has applied.
    topics_index: int = 0
    # The report is about these topics only; empty: about all topics.
    asked: Collection[str] = ()
    # The node that this client reaches by a socket of this machine, and the address of the socket.
    local: Mapping[int, str] = field(default_factory=dict)
    # Where nodes serve RocketMQ clients.
    rocketmq: Mapping[int, RocketmqEndpoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class News:
    """The changes that one report made to the route table.

    Fields:

        led     the shards whose leader has changed
        topics  the names of topics that were created, got more queues, were deleted, or were deleted and created again
    """

    led: set[int]
    topics: list[str]


class RouteTable:
    """The leaders, nodes and topics of a cluster, as far as nodes have reported them. The cluster never reuses the id
    of a topic, and never removes a queue of a topic.
    """

    def __init__(self, bootstrap: tuple[str, ...]) -> None:
        self.cluster = ""
        self.max_message_bytes = 0  # 0: not known yet
        self.coordinators = 1  # number of shards that coordinate consumer groups
        self.nodes: dict[int, str] = {}  # the addresses at which this client reaches the nodes
        self.rooms: dict[int, str] = {}  # machine rooms, by node
        self._rocketmq: dict[int, RocketmqEndpoint] = {}
        self.leaders: dict[int, KnownLeader] = {}
        # The newest reported term of each shard, with a leader or without. Terms only rise.
        self.terms: dict[int, int] = {}
        self.topics: dict[str, RoutedTopic] = {}
        # `topics_index` of the newest report about all topics, and of newer reports about single topics.
        self._all_as_of = 0
        self._as_of: dict[str, int] = {}
        self._bootstrap = bootstrap
        self.configuration = 0  # the index of the configuration that names `nodes`
        self._inside: dict[int, str] = {}
        self._outside: dict[int, str] = {}
        self._local: dict[int, str] = {}
        # Whether this client uses outside addresses. It never becomes False again, because the node whose outside
        # address the user gave may be removed from the cluster.
        self._is_outside = False

    def with_names(self, error: LedgerError) -> LedgerError:
        """Return the error of a node with the names of topics in its message. A node often knows only their ids,
        because the names are in shard 0."""
        names = {str(topic.topic_id): topic.name for topic in self.topics.values()}
        named = _TOPIC_ID.sub(lambda at: f'{at[1]} "{names[at[2]]}"' if at[2] in names else at[0], error.message)
        error.message, error.args = named, (named,)
        return error

    def addresses(self) -> tuple[str, ...]:
        """Return the addresses of the reported nodes, followed by the bootstrap servers that are not among them.
        Each address appears once."""
        named = {_same(address) for address in self.nodes.values()}
        others = [address for address in self._bootstrap if _same(address) not in named]
        return tuple(dict.fromkeys([*self.nodes.values(), *others]))

    def reached(self, node: int, address: str) -> str:
        """Return the address at which this client reaches a node that other nodes reach at `address`."""
        if (local := self._local.get(node)) is not None:
            return local
        return self._outside.get(node, address) if self._is_outside else address

    @property
    def in_doubt(self) -> bool:
        return not self.leaders or any(leader.doubted or not leader.node for leader in self.leaders.values())

    def leader_address(self, shard: int) -> str | None:
        return self.nodes.get(self.leader_node(shard))

    def leader_node(self, shard: int) -> int:
        """Return the node that leads a shard, or 0 if none is known."""
        leader = self.leaders.get(shard)
        return 0 if leader is None or leader.doubted else leader.node

    def room(self, shard: int, unknown: str | None = None) -> str | None:
        """Return the machine room of the shard's leader, or "" if the leader is in no machine room.

        Returns `unknown` if no leader is known or the leader has not reported its machine room.
        """
        leader = self.leaders.get(shard, KnownLeader(0, 0))
        return self.rooms.get(leader.node, unknown)

    def rocketmq_endpoints(self) -> dict[int, RocketmqEndpoint]:
        """Return where the nodes of the cluster serve RocketMQ clients, by node, as far as they have told it."""
        return {node: self._rocketmq[node] for node in sorted(self.nodes) if node in self._rocketmq}

    def learn(self, said: Said) -> News:
        """Update the table from the report of one node, and return the changes of the table."""
        self.cluster = said.cluster or self.cluster
        self.max_message_bytes = said.max_message_bytes or self.max_message_bytes
        self.coordinators = said.coordinators or self.coordinators
        self._learn_nodes(said)
        self.rooms.update(said.rooms)
        self._rocketmq.update(said.rocketmq)
        topics = self._learn_topics(said)
        led = {shard for shard, leader in said.leaders.items() if self._learn_leader(shard, leader)}
        return News(led, topics)

    def _learn_topics(self, said: Said) -> list[str]:
        """Update the topics, and return the names of changed topics. A report that is older than the newest report
        about a topic does not change that topic.
        """
        found = {topic.name: topic for topic in said.topics}
        names = said.asked or dict.fromkeys([*self.topics, *found])
        newer = [name for name in names if said.topics_index >= self._as_of.get(name, self._all_as_of)]
        changed = [name for name in newer if self.topics.get(name) != found.get(name)]
        for name in changed:
            self.topics.pop(name, None)
            if name in found:
                self.topics[name] = found[name]
        if said.asked:
            self._as_of.update(dict.fromkeys(newer, said.topics_index))
        else:
            self._all_as_of = max(self._all_as_of, said.topics_index)
            self._as_of = {name: index for name, index in self._as_of.items() if index > self._all_as_of}
        return changed

    def _learn_nodes(self, said: Said) -> None:
        if said.configuration == 0 and self.configuration == 0:
            self._inside.update(said.nodes)
        elif said.configuration >= self.configuration:
            self._inside, self.configuration = dict(said.nodes), said.configuration
        self._local.update(said.local)
        self._outside.update(said.outside)
        self._outside = {node: address for node, address in self._outside.items() if node in self._inside}
        given = {_same(address) for address in self._bootstrap}
        self._is_outside = self._is_outside or any(_same(address) in given for address in self._outside.values())
        self.nodes = {node: self.reached(node, address) for node, address in self._inside.items()}

    def _learn_leader(self, shard: int, said: KnownLeader) -> bool:
        known, newest = self.leaders.setdefault(shard, KnownLeader(0, 0)), self.terms.get(shard, 0)
        self.terms[shard] = max(newest, said.term)
        if said.node and said.term >= known.term:
            self.leaders[shard] = said
            return said.node != known.node
        if not said.node and said.term > newest:
            self.leaders[shard] = KnownLeader(0, known.term)
        return False

    def hint(self, shard: int, node: int, address: str) -> bool:
        """Record the leader that another node named when it refused a request for the shard. Return True if the
        shard's known leader has changed."""
        known = self.leaders.get(shard, KnownLeader(0, 0))
        self._inside[node] = address
        self.nodes[node] = self.reached(node, address)
        self.leaders[shard] = KnownLeader(node, known.term)
        return node != known.node

    def doubt(self, shard: int, address: str) -> None:
        """Mark the leader of the shard as doubted if the leader is the node at `address`."""
        leader = self.leaders.get(shard)
        if leader is not None and self.nodes.get(leader.node) == address:
            self.leaders[shard] = replace(leader, doubted=True)


def _same(address: str) -> str:
    """Return the address with the host `localhost` instead of any other name of the loopback interface."""
    host, _, port = address.lower().rpartition(":")
    return f"{'localhost' if host in _LOOPBACK else host}:{port}"
