"""The fault that kills nodes when messages with delivery times are due.

The load gives many messages the same delivery times: multiples of `SHARED_MS` (chaos/live/load/spec.py). The fault
waits for the next of these times, and kills its targets between shortly before and shortly after it. So a leader dies
before, within or after the turn that delivers the messages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from chaos.live.faults.fault import FaultSite, NoEvidenceError
from chaos.live.faults.processes import Kill
from chaos.live.load.spec import SHARED_MS
from ledger.words import counted

# The waiting messages are counted so long before they are due.
_COUNTED_BEFORE_MS = 400
# How many times of the load it tries: the nodes may say too late how many messages wait.
_ATTEMPTS = 3
# The kill comes at most so long before and after the time at which messages are due.
_BEFORE_MS, _AFTER_MS = 20, 120


class KillWhenDue(Kill):
    """The targets are killed with SIGKILL when messages are due, and started again later."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        for _ in range(_ATTEMPTS):
            due_ms = _wall_ms() + _COUNTED_BEFORE_MS
            due_ms += -due_ms % SHARED_MS
            site.wait((due_ms - _COUNTED_BEFORE_MS - _wall_ms()) / 1000)
            waiting = site.members.waiting(due_ms + 1)
            at_ms = due_ms + site.random.randint(-_BEFORE_MS, _AFTER_MS)
            if waiting and _wall_ms() <= at_ms:
                site.wait((at_ms - _wall_ms()) / 1000)
                killed = super().strike(site, targets)
                return f"{killed}, {_wall_ms() - due_ms:+d} ms from the time of {counted(waiting, 'waiting message')}"
        raise NoEvidenceError("no message was due, or the nodes did not say so in time")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
