"""The fault `back_up`: an operator makes a backup while the load and other faults run. Some backups are killed, and the
next one continues them."""

from __future__ import annotations

import asyncio
from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.simulated_backups import SimulatedBackups
from ledger.backup.errors import BackupError
from ledger.errors import LedgerError

# The share of the backups that are killed, and when, in seconds.
KILLED = 0.4
KILLED_AFTER_S = (0.01, 0.5)


class BackUp(DirectedFault):
    kind = "back_up"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self.backups = SimulatedBackups(tools.rosters, tools.fail, lambda: int(tools.loop.time() * 1000))
        self._busy = False

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if not self._busy:
            self._busy = True
            life, random = self.tools.operator.process.life, chance_of(event)
            life.deliver(lambda: life.create_task(self._back_up(random)))
        return False  # counted when the backup is made

    async def _back_up(self, random: Random) -> None:
        killed_after_s = random.uniform(*KILLED_AFTER_S) if random.random() < KILLED else None
        try:
            async with asyncio.timeout(killed_after_s), self.tools.operator.admin(random) as admin:
                await self.backups.make(admin, random)
                self.tools.happened[self.kind] += 1
        except TimeoutError:
            self.tools.happened["backup_killed"] += 1
        except BackupError as error:
            if "another cluster" in str(error) and self.tools.options.sync:
                self.tools.fail("a backup continues the one before it", str(error))
        except LedgerError:
            pass  # the cluster cannot be backed up now
        finally:
            self._busy = False
