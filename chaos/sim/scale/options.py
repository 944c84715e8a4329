"""The size of the simulated cluster, and the scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# The name of this world.
SCALE = "scale"
# The scenarios in the order in which a run carries them out. Each begins with the cluster that the one before it left.
RESTART, GROW, SHRINK, ROOM = "restart", "grow", "shrink", "room"
SCENARIOS = (RESTART, GROW, SHRINK, ROOM)

# The bytes of a shard's log lie in entries of this size.
BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ScaleOptions:
    """The options of one run. `change` nodes are added, and as many removed. `megabytes` is the mean size of a shard's
    log. With `exact`, shards in which nothing happens are simulated tick by tick, too; this is slow, and gives the same
    run."""

    nodes: int = 100
    shards: int = 1_000
    topics: int = 10_000
    consumers: int = 100_000
    rooms: int = 4
    change: int = 30
    megabytes: int = 1_000
    scenarios: Sequence[str] = SCENARIOS
    exact: bool = False

    def __post_init__(self) -> None:
        for name in ("shards", "topics", "consumers", "rooms", "change", "megabytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, and must be at least 1")
        if self.rooms < 3 or self.nodes < 2 * self.rooms:
            raise ValueError(
                f"{self.nodes} nodes in {self.rooms} rooms: replicas can be in three rooms only with at least 3 rooms, "
                "and a room must have at least 2 nodes"
            )
        if self.change > self.nodes // 2:
            raise ValueError(f"{self.change} of {self.nodes} nodes cannot be removed: at most half of them")
        if unknown := [name for name in self.scenarios if name not in SCENARIOS]:
            raise ValueError(f"there is no scenario {', '.join(unknown)}: the scenarios are {', '.join(SCENARIOS)}")
