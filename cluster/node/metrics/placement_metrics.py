"""The metrics of the placement of replicas and of pinned leaders, read at each scrape from this node's replicas."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cluster.node.metrics.definition import gauge
from ledger.broker.replicas import Replicas

MOVES = gauge("ledgermq_placement_moves", "Moves of replicas that are under way in the cluster.")
DRAINING = gauge("ledgermq_placement_draining_nodes", "Nodes that are being drained or removed.")
PAUSED = gauge("ledgermq_placement_paused", "1 while an operator has paused all moves of replicas.")
PINNED = gauge("ledgermq_pinned_leaders", "Shards that this node leads, and whose leader an operator has pinned.")
AWAY = gauge(
    "ledgermq_pinned_leaders_away", "Shards that this node leads, and that an operator has pinned to another node."
)

PLACEMENT = (MOVES, DRAINING, PAUSED, PINNED, AWAY)


class PlacementCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(self, replicas: Replicas, node: int) -> None:
        self._replicas = replicas
        self._node = node

    def collect(self) -> Iterator[Metric]:
        families = [definition.family() for definition in (MOVES, DRAINING, PAUSED)]
        if (first := self._replicas.first) is not None:
            table = first.state.placement
            values = (len(table.moves), len(table.drains), int(table.is_paused))
            for family, value in zip(families, values, strict=True):
                family.add_metric([], value)
        yield from families
        pinned, away = PINNED.family(), AWAY.family()
        pins = [replica.pinned_leader for replica in self._replicas if replica.driver.leads]
        pinned.add_metric([], sum(pin > 0 for pin in pins))
        away.add_metric([], sum(pin not in (0, self._node) for pin in pins))
        yield from (pinned, away)
