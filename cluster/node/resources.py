"""Defines the resources of a node that all its replicas share."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.node.metrics.node_metrics import Meters
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.node_events import NodeEvents
from store import Disk, NodeDirectory


@dataclass(frozen=True, slots=True)
class NodeResources:
    """Settings, disk, data directory, metrics, runtime and newest events of one node."""

    settings: NodeSettings
    disk: Disk
    directory: NodeDirectory
    meters: Meters
    runtime: Runtime
    events: NodeEvents

    @property
    def other_peers(self) -> dict[int, str]:
        """Return the addresses in the setting `peers`, without the address of this node."""
        settings = self.settings
        return {node: address for node, address in settings.peers.items() if node != settings.node}
