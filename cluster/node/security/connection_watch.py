"""Looks at the connections of all gRPC ports of a node, as often as they can have changed.

A process cannot take connections or bytes without processor time. Therefore a look is due as soon as the process has
used some processor time since the last look, and a node without work looks rarely.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from cluster.node.process.sockets import sockets_of_this_process
from cluster.node.security.connection_limits import ConnectionLimits
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.connections")

# The shortest pause between two looks, and the share of the time that looks may take.
PAUSE_S = 0.1
_SHARE = 0.05
# A look is due after this processor time of the process. gRPC reads at most some 20 MB in this time.
BUSY_CPU_S = 0.005
# A look is due after this time, also if the process did nothing.
MOST_PAUSE_S = 0.5


class ConnectionWatch:
    """Applies the limits of the ports to their connections, from `run` until the task is cancelled."""

    def __init__(
        self,
        ports: Sequence[ConnectionLimits],
        *,
        cpu_s: Callable[[], float] = time.process_time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cpu_s()` is the processor time of this process."""
        self._ports = ports
        self._cpu_s = cpu_s
        self._monotonic_s = monotonic_s
        self._log = RareLog(log)
        # When the last look ended, and the processor time at that moment.
        self._looked_s, self._looked_cpu_s = monotonic_s(), cpu_s()

    async def run(self) -> None:
        took_s = 0.0
        while True:
            await asyncio.sleep(max(PAUSE_S, took_s / _SHARE))
            if self.is_due():
                took_s = await self._look()

    def is_due(self) -> bool:
        """Return True if the connections can have changed so much since the last look that a look is due."""
        if self._cpu_s() - self._looked_cpu_s >= BUSY_CPU_S:
            return True
        return self._monotonic_s() - self._looked_s >= MOST_PAUSE_S

    async def _look(self) -> float:
        """Make a look, and return how long it took, in seconds."""
        began_s = self._monotonic_s()
        try:
            await asyncio.to_thread(self._look_at_all)
        except OSError as error:  # for example no free file descriptor
            self._log.warning("cannot look at the connections: %s", error.strerror)
        else:
            for port in self._ports:
                port.judge()
        self._looked_s, self._looked_cpu_s = self._monotonic_s(), self._cpu_s()
        return self._looked_s - began_s

    def _look_at_all(self) -> None:
        sockets = sockets_of_this_process()
        for port in self._ports:
            port.look(sockets)
