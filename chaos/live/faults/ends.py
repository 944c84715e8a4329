"""The fault that kills nodes between the prepare and the commit of transactions.

The load lets many transactions end at the same times: multiples of `ENDS_MS` (chaos/live/load/spec.py). The fault waits
for the next of these times, and kills its targets between shortly before and shortly after it. So the leader of a
decision shard, or of another shard of the transactions, dies when messages are prepared, while it decides, or while it
carries commits out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from chaos.live.faults.fault import FaultSite, NoEvidenceError
from chaos.live.faults.processes import Kill
from chaos.live.load.spec import ENDS_MS
from ledger.words import counted

# The half batches are counted so long before.
_COUNTED_BEFORE_MS = 800
# How many times of the load it tries: the nodes may say too late how many half batches wait.
_ATTEMPTS = 3
# The kill comes at most so long before and after the time at which transactions end.
_BEFORE_MS, _AFTER_MS = 30, 150


class KillBeforeEnds(Kill):
    """The targets are killed with SIGKILL when many transactions end, and started again later."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        ends_ms = 0
        for _ in range(_ATTEMPTS):
            ends_ms = max(_wall_ms() + _COUNTED_BEFORE_MS, ends_ms + 1)
            ends_ms += -ends_ms % ENDS_MS
            site.wait((ends_ms - _COUNTED_BEFORE_MS - _wall_ms()) / 1000)
            waiting = site.members.half_batches()
            at_ms = ends_ms + site.random.randint(-_BEFORE_MS, _AFTER_MS)
            if waiting and _wall_ms() <= at_ms:
                site.wait((at_ms - _wall_ms()) / 1000)
                killed = super().strike(site, targets)
                waited = counted(waiting, "half batch", "half batches")
                return f"{killed}, {_wall_ms() - ends_ms:+d} ms from the end of many transactions; {waited} waited"
        raise NoEvidenceError("no transaction was prepared, or the nodes did not say so in time")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
