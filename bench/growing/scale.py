"""How far each kind of work grows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrowingScale:
    """The sizes at which each part measures. `seconds` is the length of one run of load."""

    name: str
    seconds: float
    connections: tuple[int, ...]
    queues: tuple[int, ...]
    # Pairs of the number of nodes and the numbers of shards.
    shards: tuple[tuple[int, tuple[int, ...]], ...]
    log_gib: tuple[float, ...]


# A few minutes. It shows whether something is broken.
QUICK = GrowingScale("quick", 2.0, (3, 300, 1_500), (4, 200, 1_000), ((3, (1, 8)),), (0.25, 1.0))
# A quarter of an hour and more. `logs` needs 5 GB of disk and a file system with holes.
FULL = GrowingScale(
    "full",
    3.0,
    (3, 100, 1_000, 3_000, 10_000),
    (4, 100, 1_000, 10_000),
    ((3, (1, 4, 16, 64)), (9, (1, 4, 16, 64))),
    (1.0, 4.0, 16.0, 50.0, 100.0),
)
SCALES = {scale.name: scale for scale in (QUICK, FULL)}
