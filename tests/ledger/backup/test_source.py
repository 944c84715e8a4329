"""Which replica a backup reads, and what happens if it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.backup.create import cluster_of
from ledger.backup.errors import BackupError
from ledger.backup.source import ShardSource, sources_of
from ledger.client.records import NodeStatus, ShardStatus
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import Segment


class Nodes:
    """Nodes that answer by HTTP; those in `silent` do not."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.gone: set[str] = set()
        self.commits = {"a": 10, "b": 10}
        # The length of the segment at position 0, and of the one after it; 0: there is none after it.
        self.lengths = {"a": (64, 0), "b": (64, 0)}
        self.asked: list[str] = []
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _node(self, url: str) -> str:
        node = url.removeprefix("http://")[0]
        self.asked.append(node)
        if node in self.silent:
            raise SourceError(f"node {node} is silent")
        return node

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        node = self._node(segment.path)
        if node in self.gone:
            raise SegmentGoneError(f"node {node} removed it")
        return bytes(max(0, min(end, self.lengths[node][0]) - begin))

    def file(self, path: str) -> bytes | None:
        self._node(path)
        return None

    def json(self, url: str) -> Any:
        node = self._node(url)
        segments = [
            {"name": f"{at:020}", "position": at, "length": length, "last_index": 20}
            for at, length in zip((0, 1 << 20), self.lengths[node], strict=True)
            if length
        ]
        return {"first_index": 1, "start": 0, "commit": self.commits[node], "segments": segments}


def source(nodes: Nodes) -> ShardSource:
    return ShardSource(
        3,
        ["http://a", "http://b"],
        access=lambda: nodes,
        sleep=nodes.sleep,
        monotonic_s=lambda: nodes.now_s,
    )


def test_the_next_replica_is_read_if_one_fails() -> None:
    nodes = Nodes()
    shard = source(nodes)
    shard.listing(10)
    assert shard.read(0, 0, 4) == bytes(4)
    nodes.silent.add("a")
    assert shard.read(0, 4, 8) == bytes(4)
    assert shard.snapshot() is None
    # The second replica is asked for its commits first, and then it stays the one that is read.
    assert nodes.asked == ["a", "a", "a", "b", "b", "b"]
    nodes.gone.add("b")
    with pytest.raises(BackupError, match="shard 3 cannot be read: node b removed it; node a is silent"):
        shard.read(0, 8, 16)


def test_a_replica_must_know_the_last_commit() -> None:
    nodes = Nodes()
    nodes.commits["b"] = 12
    assert source(nodes).listing(12).commit == 12
    with pytest.raises(
        BackupError, match=r"entry 13, .* \(http://a knows commits up to 10 only; http://b .* 12 only\)"
    ):
        source(nodes).listing(13)
    assert 60 <= nodes.now_s < 61


def test_a_replica_that_does_not_know_the_last_commit_is_not_read_when_another_fails() -> None:
    nodes = Nodes()
    nodes.commits["b"] = 9
    shard = source(nodes)
    shard.listing(10)
    nodes.silent.add("a")
    with pytest.raises(BackupError, match=r"\(node a is silent; http://b knows commits up to 9 only\)"):
        shard.read(0, 0, 4)

    def learns(seconds: float) -> None:
        nodes.sleep(seconds)
        nodes.commits["b"] = 10

    shard._sleep = learns
    assert shard.read(0, 0, 4) == bytes(4)
    assert nodes.asked[-2:] == ["b", "b"]


def test_a_replica_that_has_not_written_the_last_entry_is_not_read() -> None:
    nodes = Nodes()
    nodes.commits = {"a": 30, "b": 30}
    with pytest.raises(BackupError, match="knows commits up to 20 only"):
        source(nodes).listing(21)


def test_an_empty_answer_counts_only_where_the_log_goes_on_in_the_next_segment() -> None:
    nodes = Nodes()
    nodes.lengths = {"a": (64, 8), "b": (128, 0)}
    shard = source(nodes)
    shard.listing(10)
    assert shard.read(0, 64, 128) == b""
    nodes.lengths["a"] = (32, 8)  # it has lost entries that it had listed
    assert shard.read(0, 32, 128) == bytes(96), "read from the other replica"
    nodes.silent.add("a")
    with pytest.raises(
        BackupError, match=r"shard 3 cannot be read: http://b/.*: the node has no entry at position 128"
    ):
        shard.read(0, 128, 256)


def status(node: int, role: str, *, http: str = "10.0.0.{}:9872", **fields: Any) -> NodeStatus:
    shard = ShardStatus(0, role, 1, 1, 1, 1, 1, 1, 1, **fields)
    address = http.format(node)
    return NodeStatus(node, f"10.0.0.{node}:9871", reachable=True, http_address=address, shards=(shard,))


def test_followers_are_preferred() -> None:
    nodes = [
        status(1, "leader"),
        status(2, "follower", suspect=True),
        status(3, "follower", diverged="it differs"),
        status(4, "joining"),
        status(5, "follower", http="0.0.0.0:9872"),
        NodeStatus(6, "10.0.0.6:9871", reachable=False),
    ]
    shard = sources_of(nodes, [0], tls=True)[0]
    assert shard._urls == ["https://10.0.0.5:9872", "https://10.0.0.1:9872"]
    assert shard.nodes == (1, 2, 3, 5)
    with pytest.raises(BackupError, match="no node serves the log of shard 1 over HTTP"):
        sources_of(nodes, [0, 1], tls=False)
    with pytest.raises(BackupError, match="no node serves the log of shard 0"):
        sources_of([status(1, "leader", http="")], [0], tls=False)


def test_without_rights_no_node_tells_its_status() -> None:
    node = NodeStatus(1, "10.0.0.1:9871", reachable=False, error="User bob has no right to describe cluster")
    with pytest.raises(BackupError, match=r"node 1: User bob has no right .* `administer` and `read-log`"):
        cluster_of([node])
    with pytest.raises(BackupError, match="no node is known"):
        cluster_of([])
    assert cluster_of([node, NodeStatus(2, "10.0.0.2:9871", reachable=True, cluster="orders")]) == "orders"
