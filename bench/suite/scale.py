"""Defines how large a run of the suite is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SuiteScale:
    """How many messages, rounds and GiB a run of the suite has. The numbers of messages are multiplied by `share`."""

    name: str
    rounds: int
    share: float
    seconds: float
    # The size of the log for the comparison of a large log.
    log_gib: float


# A run of six minutes, which shows whether something is broken.
QUICK = SuiteScale("quick", rounds=1, share=0.25, seconds=2.0, log_gib=0.25)
# A run of a third of an hour.
NORMAL = SuiteScale("normal", rounds=3, share=1.0, seconds=4.0, log_gib=2.0)
# A run with a log of 10 GiB on each of three nodes. It needs 50 GB of disk.
FULL = SuiteScale("full", rounds=3, share=1.0, seconds=8.0, log_gib=10.0)
SCALES = {scale.name: scale for scale in (QUICK, NORMAL, FULL)}
