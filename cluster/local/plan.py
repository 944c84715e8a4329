"""The plan of a local cluster, stored in the file cluster.json: the nodes, their ports and a few settings.

A node never changes its port, so a cluster that is started again has the same addresses. A node that is added later
gets the next number. The number of a removed node is not used again. The files node.toml are written from the plan.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cluster.local.toml_text import toml_text

HOST = "127.0.0.1"


class DevError(Exception):
    """An operation on a local cluster failed. The message says why the operation failed and what the user can do."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The nodes, ports and settings of a local cluster."""

    cluster: str
    # Node 1 serves clients on the first port, node 2 on the second port, and so on. Each node serves HTTP on the port
    # after its own, and RocketMQ clients on the port after that.
    ports: tuple[int, ...]
    flush: str
    segment_bytes: int
    # The nodes that were added after the first start.
    joined: tuple[int, ...] = ()
    # The nodes that were removed.
    removed: tuple[int, ...] = ()
    shards: int = 1
    # Whether the nodes use TLS and authentication (credentials.py).
    secure: bool = False
    # Whether the nodes serve RocketMQ clients. A plan of an older version has no ports for them.
    serves_rocketmq: bool = False

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node for node in range(1, len(self.ports) + 1) if node not in self.removed)

    @property
    def next_node(self) -> int:
        """Return the number that the next added node will have."""
        return len(self.ports) + 1

    def with_node(self, port: int) -> ClusterPlan:
        return replace(self, ports=(*self.ports, port), joined=(*self.joined, self.next_node))

    def without(self, node: int) -> ClusterPlan:
        return replace(self, removed=(*self.removed, node))

    def address(self, node: int) -> str:
        return f"{HOST}:{self.ports[node - 1]}"

    def http(self, node: int) -> str:
        return f"{HOST}:{self.ports[node - 1] + 1}"

    @property
    def ports_of_a_node(self) -> int:
        return 3 if self.serves_rocketmq else 2

    def rocketmq(self, node: int) -> str:
        """Return the address for RocketMQ clients, or "" if the nodes serve none."""
        return f"{HOST}:{self.ports[node - 1] + 2}" if self.serves_rocketmq else ""

    def node_toml(self, node: int, data: Path, security: Mapping[str, str]) -> str:
        """Return the text of node.toml, the settings file of one node for `ledgermq server run`. `security` has the
        settings for the proof of nodes and clients."""
        quoted = toml_text
        began = [] if node in self.joined else [peer for peer in self.nodes if peer not in self.joined]
        peers = "\n".join(f"{peer} = {quoted(self.address(peer))}" for peer in began)
        joins = "join = true\n" if node in self.joined else ""
        proofs = "".join(f"{name} = {value}\n" for name, value in security.items())
        front = "rocketmq_tls" if self.secure else "rocketmq"
        # Without users, everybody on this machine may use the console.
        console = "" if self.secure else 'console = "open"\n'
        return (
            "# Written by `ledgermq dev`.\n"
            f"cluster = {quoted(self.cluster)}\nnode = {node}\ndata = {quoted(str(data))}\n"
            f"listen = {quoted(self.address(node))}\nhttp = {quoted(self.http(node))}\n"
            f"{front} = {quoted(self.rocketmq(node))}\n{console}"
            f"flush = {quoted(self.flush)}\nsegment_bytes = {self.segment_bytes}\nshards = {self.shards}\n"
            "# Off, because other programs fill this disk as well.\n"
            f"disk_clean_ratio = 0\ndisk_force_ratio = 0\ndisk_refuse_ratio = 0\n{proofs}{joins}\n[peers]\n{peers}\n"
        )

    def save(self, path: Path) -> None:
        """Write the plan to the file `path` atomically."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> ClusterPlan | None:
        """Read the plan from the file `path`; return None if there is no such file. Raises DevError if the file
        does not contain a valid plan."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            values = json.loads(text)
            if "groups" in values:  # a plan of version 0.1
                values["shards"] = values.pop("groups")
            numbers = {key: tuple(map(int, values.pop(key, ()))) for key in ("joined", "removed")}
            ports = tuple(int(port) for port in values.pop("ports"))
            return cls(ports=ports, joined=numbers["joined"], removed=numbers["removed"], **values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DevError(f"{path} is not the plan of a local cluster ({error}): name another directory") from error
