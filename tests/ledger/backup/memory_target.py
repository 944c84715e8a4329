"""A target in memory that also has what a lock object needs."""

from __future__ import annotations

from chaos.sim.stack.simulated_backups import MemoryTarget as SimulatedTarget
from ledger.backup.errors import TargetBusyError


class MemoryTarget(SimulatedTarget):
    def put_always(self, name: str, content: bytes) -> None:
        self.put(name, content)

    def put_new(self, name: str, content: bytes) -> None:
        if name in self.objects:
            raise TargetBusyError("locked")
        self.put(name, content)
