"""How large a run of the suite is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """`share` scales counts of messages; all times in seconds."""

    name: str
    rounds: int
    share: float
    seconds: float
    # Of the log that throughput is compared at.
    log_gib: float


# Three minutes: to see whether something broke.
QUICK = Scale("quick", rounds=1, share=0.25, seconds=2.0, log_gib=0.25)
# A quarter of an hour.
NORMAL = Scale("normal", rounds=3, share=1.0, seconds=4.0, log_gib=2.0)
# With 10 GiB of log on each of three nodes: needs 50 GB of disk.
FULL = Scale("full", rounds=3, share=1.0, seconds=8.0, log_gib=10.0)
SCALES = {scale.name: scale for scale in (QUICK, NORMAL, FULL)}
