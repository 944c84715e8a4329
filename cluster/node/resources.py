"""Defines the resources of a node that all its replicas share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cluster.node.metrics.node_metrics import Meters
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.node_events import NodeEvents
from raft.core.catch_up import CatchUpLimit
from store import Disk, NodeDirectory


@dataclass(frozen=True, slots=True)
class NodeResources:
    """Settings, disk, data directory, metrics, runtime, newest events and limits of one node."""

    settings: NodeSettings
    disk: Disk
    directory: NodeDirectory
    meters: Meters
    runtime: Runtime
    events: NodeEvents
    catch_up: CatchUpLimit

    @property
    def other_peers(self) -> dict[int, str]:
        """Return the addresses in the setting `peers`, without the address of this node."""
        settings = self.settings
        return {node: address for node, address in settings.peers.items() if node != settings.node}


def catch_up_limit(settings: NodeSettings) -> CatchUpLimit:
    """Return the limit of what this node sends to learners that catch up."""
    return CatchUpLimit(math.ceil(settings.catch_up_bytes_per_s * settings.tick_ms / 1000))
