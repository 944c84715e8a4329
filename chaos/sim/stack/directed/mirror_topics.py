"""The fault `mirror_topics`: an operator runs a mirror while the load and other faults run. Most mirrors are killed,
and the next one continues. At the end of the run, a last mirror copies what is missing.

The mirror is the product's `ClusterMirror`. Source and target are the same cluster, and copies have other names.
"""

from __future__ import annotations

import asyncio
from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.workload import ClientProcess
from chaos.sim.stack.workload_history import COPY
from ledger.errors import LedgerError
from ledger.mirror.cluster_access import ClusterAccess, ClusterPlace
from ledger.mirror.cluster_mirror import ClusterMirror, MirrorSettings
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.mirror.topic_patterns import TopicPatterns

SETTINGS = MirrorSettings(TopicPatterns(("t[0-9]",), prefix=COPY), skips_lost=True)
TIMEOUT_MS = 10_000
# The share of the mirrors that are killed; the others stop in order. When both happens, in seconds.
KILLED = 0.7
RUNS_S = (0.5, 15.0)
# The share of the killed mirrors that are started again at once, and how soon. Batches may still be on their way.
AGAIN = 0.7
AGAIN_AFTER_S = (0.005, 0.3)
PAUSE_S = 1.0


class MirrorTopics(DirectedFault):
    kind = "mirror_topics"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # The process of the mirror that runs, or None, and how many messages were copied before it.
        self._process: ClientProcess | None = None
        self._before = 0
        self._is_over = False
        self._last = Random(f"{tools.options.seed}/the last mirror")

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if self._process is None and self.tools.workload.topics:
            self._start(chance_of(event))
        return False  # counted when the mirror has copied something

    def heal(self) -> None:
        """Copy what is missing, with a mirror that is not killed."""
        self._is_over = True
        if self._process is not None:
            self._end(self._process)
        if self.tools.copies.is_wanted:
            process = self._begin()
            process.life.deliver(lambda: process.life.create_task(self._run_on(process)))

    def _start(self, random: Random) -> None:
        if self._process is not None or self._is_over:
            return
        process, seconds, is_killed = self._begin(), random.uniform(*RUNS_S), random.random() < KILLED
        process.life.deliver(
            lambda: process.life.create_task(self._run(process, random, None if is_killed else seconds))
        )
        if is_killed:
            self.tools.loop.call_later(seconds, self._kill, process, random)

    def _begin(self) -> ClientProcess:
        self.tools.copies.is_wanted = True
        self._before = self.tools.copies.copied
        self._process = self.tools.operators_program()
        return self._process

    def _kill(self, process: ClientProcess, random: Random) -> None:
        if self._process is process:
            self._end(process)
            if random.random() < AGAIN:
                self.tools.loop.call_later(random.uniform(*AGAIN_AFTER_S), self._start, random)

    def _end(self, process: ClientProcess) -> None:
        process.life.end()
        self.tools.happened["mirror_killed"] += 1
        self._ended()

    def _ended(self) -> None:
        self._process = None
        self.tools.happened[self.kind] += self.tools.copies.copied > self._before

    async def _run(self, process: ClientProcess, random: Random, seconds: float | None) -> None:
        """Run a mirror for so many seconds, or until it is killed."""
        await self._copy(self._mirror(process, random), seconds)
        self._ended()

    async def _run_on(self, process: ClientProcess) -> None:
        while True:
            await self._copy(self._mirror(process, self._last), None)
            await asyncio.sleep(PAUSE_S)

    async def _copy(self, mirror: ClusterMirror, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await mirror.open()
                await mirror.run()
        except MirrorRefusedError as error:
            if not self.tools.options.accepted_loss:
                self.tools.fail("a mirror continues the one before it", str(error))
        except (LedgerError, TimeoutError):
            pass  # the cluster does not answer, or the time is over
        finally:
            await mirror.close()

    def _mirror(self, process: ClientProcess, random: Random) -> ClusterMirror:
        place = ClusterPlace(self.tools.workload.bootstrap)
        source, target = (
            ClusterAccess(place, request_timeout_ms=TIMEOUT_MS, environment=process.environment, rng=random)
            for _ in range(2)
        )
        return ClusterMirror(source, target, SETTINGS, random)
