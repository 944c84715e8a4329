"""What a local cluster was made with, as cluster.json remembers it: its nodes, their ports, and the few settings.

What a node was given it keeps, so a cluster that is started again finds its data under the same addresses. Nodes that
are added later come behind, and the numbers of those that were removed are not used again. The node.toml files are
made from it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HOST = "127.0.0.1"


class DevError(Exception):
    """A local cluster cannot do what was asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A local cluster: node i is the i-th of `ports` (counted from 1), serving clients there and HTTP one above.

    The nodes `joined` were added later; those in `removed` are there no more."""

    cluster: str
    ports: tuple[int, ...]
    flush: str
    segment_bytes: int
    joined: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    shards: int = 1

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node for node in range(1, len(self.ports) + 1) if node not in self.removed)

    @property
    def next_node(self) -> int:
        """The number of the next node that is added."""
        return len(self.ports) + 1

    def with_node(self, port: int) -> Plan:
        return replace(self, ports=(*self.ports, port), joined=(*self.joined, self.next_node))

    def without(self, node: int) -> Plan:
        return replace(self, removed=(*self.removed, node))

    def address(self, node: int) -> str:
        return f"{HOST}:{self.ports[node - 1]}"

    def http(self, node: int) -> str:
        return f"{HOST}:{self.ports[node - 1] + 1}"

    def node_toml(self, node: int, data: Path) -> str:
        """The settings file of one node, for `ledgermq server run`."""
        quoted = json.dumps  # a JSON string is a TOML string
        began = [] if node in self.joined else [peer for peer in self.nodes if peer not in self.joined]
        peers = "\n".join(f"{peer} = {quoted(self.address(peer))}" for peer in began)
        joins = "join = true\n" if node in self.joined else ""
        return (
            "# Written by `ledgermq dev`.\n"
            f"cluster = {quoted(self.cluster)}\nnode = {node}\ndata = {quoted(str(data))}\n"
            f"listen = {quoted(self.address(node))}\nhttp = {quoted(self.http(node))}\n"
            f"flush = {quoted(self.flush)}\nsegment_bytes = {self.segment_bytes}\nshards = {self.shards}\n"
            "# Off: this disk is somebody's own, and full for reasons of its own.\n"
            f"disk_clean_ratio = 0\ndisk_force_ratio = 0\ndisk_refuse_ratio = 0\n{joins}\n[peers]\n{peers}\n"
        )

    def save(self, path: Path) -> None:
        """Writes the plan so that a reader finds all of it or nothing."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> Plan | None:
        """The plan at `path`, None when there is no file; raises DevError when the file is not one of ours."""
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
