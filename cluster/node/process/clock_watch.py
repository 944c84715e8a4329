"""The clock watch notices leaps of this node's wall clock, and wrong wall clocks of the voters of shards that this node
leads, and logs them.

A leap is seen against the steady clock of the node. It may be right, for example after NTP has corrected a wrong clock.
Whether a clock is wrong is decided by the clocks of most voters (`raft/cluster_clock.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from prometheus_client import Counter

from cluster.node.runtime import Runtime
from ledger.broker.broker_replica import BrokerReplica
from raft.cluster_clock import TOLERANCE_MS, clock_sentence

log = logging.getLogger("ledgermq.node.clock")

LOOK_S = 1.0
# A change of the wall clock against the steady clock, between two looks, that is a leap. NTP changes a clock slowly, by
# less than 1 ms in a second.
LEAP_MS = 1_000
# A clock is called wrong when it has been wrong for so many looks. A told time that was late on its way looks like a
# clock that is behind.
LOOKS = 5
# So many looks lie between two lines about the same clock.
TELL_EVERY = 60


class WrongClocks:
    """Decides when a line about a wrong clock is due."""

    def __init__(self) -> None:
        # By node: how many looks in a row found its clock wrong.
        self._found: dict[int, int] = {}

    def look(self, offsets_ms: Mapping[int, int]) -> list[int]:
        """Return the nodes about whose clock a line is due. `offsets_ms` has the clocks of the voters that this node
        knows, by node."""
        wrong = [node for node, offset in offsets_ms.items() if abs(offset) > TOLERANCE_MS]
        self._found = {node: self._found.get(node, 0) + 1 for node in wrong}
        return [node for node, found in self._found.items() if found % TELL_EVERY == LOOKS]


class ClockWatch:
    """Looks at the clocks every second, from `run` until the task is cancelled."""

    def __init__(self, replicas: Iterable[BrokerReplica], runtime: Runtime, leaps: Counter) -> None:
        self._replicas = replicas
        self._wall_ms, self._steady_ms = runtime.now_ms, runtime.monotonic_ms
        self._shared_wait_s = runtime.shared_wait_s
        self._leaps = leaps
        self._difference = self._wall_ms() - self._steady_ms()
        self._wrong = WrongClocks()

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(self._shared_wait_s(LOOK_S))

    def look(self) -> None:
        """Make one look."""
        was, self._difference = self._difference, self._wall_ms() - self._steady_ms()
        leap_ms = self._difference - was
        if abs(leap_ms) > LEAP_MS:
            self._leaps.inc()
            log.warning("the wall clock of this node has leapt by %+.1f s against its steady clock", leap_ms / 1000)
        offsets: dict[int, int] = {}
        for replica in self._replicas:
            offsets.update(replica.driver.clock_offsets_ms)
        for node in self._wrong.look(offsets):
            log.warning("node %d: %s", node, clock_sentence(offsets[node]))
