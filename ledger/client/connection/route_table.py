"""The route table: the leaders, nodes and topics that nodes reported last. Pure.

A report of a higher term replaces an older one. A leader that failed to answer is only *doubted*: it counts again as
soon as a node names it again. A newer term without a leader ends the known leader only. That term may never have a
leader: the reporting node may have lost the term in a crash, or may be cut off while a leader of an older term
continues.

The nodes are those of the newest committed configuration that was reported, so removed nodes disappear. Each topic is
as the newest report describes it, so deleted topics disappear.

A node may have two addresses: one for the other nodes, and one for clients outside of the nodes' network, such as on
the host of containers. A client that was given an outside address uses outside addresses from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. Queue i lives in shard `shards[i]`."""

    name: str
    topic_id: int
    shards: tuple[int, ...]
    created_ms: int


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a shard (0: nobody is known to) in `term`. `doubted`: it was no use when last tried. In the table, of
    nobody: the term in which somebody was last known to."""

    node: int
    term: int
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """One node's answer."""

    cluster: str
    nodes: Mapping[int, str]
    leaders: Mapping[int, Leader]
    topics: Collection[Topic]
    max_message_bytes: int
    # Index of the committed configuration that names these nodes; 0: they are what that node was set up with.
    configuration: int = 0
    coordinators: int = 0  # 0: it did not say
    rooms: Mapping[int, str] = field(default_factory=dict)  # machine rooms, of nodes that told theirs
    outside: Mapping[int, str] = field(default_factory=dict)  # addresses of nodes for clients from outside
    # Index of the entry that changed topics last, as that node has applied.
    topics_index: int = 0
    # It was asked about these topics alone; empty: about all.
    asked: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class News:
    """What is another now: shards that another node leads, and names of topics that came, have more queues, are others
    of the same name, or are no more."""

    led: set[int]
    topics: list[str]


class RouteTable:
    """The sum of all answers so far. Ids of topics are never used again; queues only ever come."""

    def __init__(self, bootstrap: tuple[str, ...]) -> None:
        self.cluster = ""
        self.max_message_bytes = 0  # 0: not known yet
        self.coordinators = 1  # shards in which consumer groups are coordinated
        self.nodes: dict[int, str] = {}  # where this client reaches them
        self.rooms: dict[int, str] = {}  # of nodes, as they told themselves
        self.leaders: dict[int, Leader] = {}
        # The newest term of each shard that anybody told us of, with a leader or without.
        self._newest_terms: dict[int, int] = {}
        self.topics: dict[str, Topic] = {}
        # Said.topics_index of the newest answer about all topics, and of newer ones about single names.
        self._all_as_of = 0
        self._as_of: dict[str, int] = {}
        self._bootstrap = bootstrap
        self.configuration = 0  # of `nodes`, as in Said
        self._inside: dict[int, str] = {}
        self._outside: dict[int, str] = {}
        self._is_outside = False  # never again, once it is: the node that the user named may be removed

    def addresses(self) -> tuple[str, ...]:
        """Every node worth asking, each once: those that nodes named, then those the user named."""
        named = {_same(address) for address in self.nodes.values()}
        others = [address for address in self._bootstrap if _same(address) not in named]
        return tuple(dict.fromkeys([*self.nodes.values(), *others]))

    def reached(self, node: int, address: str) -> str:
        """Where this client reaches a node that others reach at `address`."""
        return self._outside.get(node, address) if self._is_outside else address

    @property
    def in_doubt(self) -> bool:
        return not self.leaders or any(leader.doubted or not leader.node for leader in self.leaders.values())

    def leader_address(self, shard: int) -> str | None:
        leader = self.leaders.get(shard)
        return None if leader is None or leader.doubted else self.nodes.get(leader.node)

    def room(self, shard: int, unknown: str | None = None) -> str | None:
        """The machine room of the node that leads that shard; empty where that node is in none, `unknown` where nobody
        is known to lead, or that node has not told."""
        leader = self.leaders.get(shard, Leader(0, 0))
        return self.rooms.get(leader.node, unknown)

    def learn(self, said: Said) -> News:
        """Take an answer in."""
        self.cluster = said.cluster or self.cluster
        self.max_message_bytes = said.max_message_bytes or self.max_message_bytes
        self.coordinators = said.coordinators or self.coordinators
        self._learn_nodes(said)
        self.rooms.update(said.rooms)
        topics = self._learn_topics(said)
        led = {shard for shard, leader in said.leaders.items() if self._learn_leader(shard, leader)}
        return News(led, topics)

    def _learn_topics(self, said: Said) -> list[str]:
        """The names of those that are others now. An answer that is older than what is known of a name, because its
        node is behind, says nothing about that."""
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
        self._outside.update(said.outside)
        self._outside = {node: address for node, address in self._outside.items() if node in self._inside}
        given = {_same(address) for address in self._bootstrap}
        self._is_outside = self._is_outside or any(_same(address) in given for address in self._outside.values())
        self.nodes = {node: self.reached(node, address) for node, address in self._inside.items()}

    def _learn_leader(self, shard: int, said: Leader) -> bool:
        known, newest = self.leaders.setdefault(shard, Leader(0, 0)), self._newest_terms.get(shard, 0)
        self._newest_terms[shard] = max(newest, said.term)
        if said.node and said.term >= known.term:
            self.leaders[shard] = said
            return said.node != known.node
        if not said.node and said.term > newest:
            self.leaders[shard] = Leader(0, known.term)
        return False

    def hint(self, shard: int, node: int, address: str) -> bool:
        """A node that does not lead the shard said who does. Whether that is another one than we thought."""
        known = self.leaders.get(shard, Leader(0, 0))
        self._inside[node] = address
        self.nodes[node] = self.reached(node, address)
        self.leaders[shard] = Leader(node, known.term)
        return node != known.node

    def doubt(self, shard: int, address: str) -> None:
        """Whoever is at `address` was no use as leader of this shard."""
        leader = self.leaders.get(shard)
        if leader is not None and self.nodes.get(leader.node) == address:
            self.leaders[shard] = replace(leader, doubted=True)


def _same(address: str) -> str:
    """What is equal for two addresses of one place: the names of the loopback interface are."""
    host, _, port = address.lower().rpartition(":")
    return f"{'localhost' if host in _LOOPBACK else host}:{port}"
