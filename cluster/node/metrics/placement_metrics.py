"""The metrics of the placement of replicas, read at each scrape from this node's replica of shard 0."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cluster.node.metrics.definition import gauge
from ledger.broker.replicas import Replicas

MOVES = gauge("ledgermq_placement_moves", "Moves of replicas that are under way in the cluster.")
DRAINING = gauge("ledgermq_placement_draining_nodes", "Nodes that are being drained or removed.")
PAUSED = gauge("ledgermq_placement_paused", "1 while an operator has paused all moves of replicas.")

PLACEMENT = (MOVES, DRAINING, PAUSED)


class PlacementCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def collect(self) -> Iterator[Metric]:
        families = [definition.family() for definition in PLACEMENT]
        if (first := self._replicas.first) is not None:
            table = first.state.placement
            values = (len(table.moves), len(table.drains), int(table.is_paused))
            for family, value in zip(families, values, strict=True):
                family.add_metric([], value)
        yield from families
