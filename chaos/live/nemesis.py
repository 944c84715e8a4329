"""Carries out the plan of faults. For each fault, the nemesis makes the fault happen, waits, undoes the fault, and
records the evidence.

    faults.jsonl   {"kind":"kill","target":"leader","nodes":[2],"at_s":4.1,"until_s":9.0,"start":NS,"end":NS,
                    "evidence":["node 2 was killed (SIGKILL) ...","node 2 started again"],"void":"","leader":2,
                    "repairs":[]}

The nemesis undoes every fault that began, also if the run is interrupted. A fault without evidence is recorded as
void. If too many faults are void, the verdict is void too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field

from chaos.errors import ChaosError
from chaos.live.faults.fault import ClusterControl, FaultSite, LoadClients, NoEvidenceError
from chaos.live.faults.plan import Planned, aimed
from chaos.live.hosts.environment import NodeEnvironment
from chaos.live.repairs import lengths, reports
from ledger.history import now_ns

_LATEST = 1 << 62
_RECOVERY_S = 10.0
_GIVEN_BACK_S = 120.0
# The least time in seconds between faults in which the cluster is healthy. Without it a run might acknowledge nothing.
_PEACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that was carried out. `start` is the time when the fault struck, and `end` the time when it was healed,
    in ns of the histories' clock.
    """

    kind: str
    target: str
    nodes: tuple[Annotated[int, Field(ge=1)], ...]
    start: Annotated[int, Field(ge=0, le=_LATEST)]
    end: Annotated[int, Field(ge=0, le=_LATEST)]
    evidence: tuple[str, ...]
    # Why the fault does not count; "" if it counts.
    void: str
    # The leader of shard 0 when the fault struck; 0 if no node led, and None in records of older versions.
    leader: int | None = None
    # What the nodes reported about damage that the fault had done, and about its repair.
    repairs: tuple[str, ...] = ()

    @property
    def hit_leader(self) -> bool:
        return self.target == "leader" if self.leader is None else self.leader in self.nodes


class Nemesis:
    """Makes one fault after another happen. `say(sentence)` reports progress. `wait(seconds)` waits, and raises an
    error if the run must end.
    """

    def __init__(
        self,
        environment: NodeEnvironment,
        members: ClusterControl,
        clients: LoadClients,
        log: Path,
        say: Callable[[str], None],
        wait: Callable[[float], None],
    ) -> None:
        self._environment = environment
        self._members = members
        self._clients = clients
        self._log = log
        self._say = say
        self._wait = wait

    def run(self, plan: Sequence[Planned]) -> list[Struck]:
        """Carry out the whole plan. Returns when the last fault is healed.

        A fault may destroy a node's data. If the other nodes do not restore the data in time, no further fault
        strikes.
        """
        begun = time.monotonic()
        struck: list[Struck] = []
        for planned in plan:
            self._wait(max(_PEACE_S if struck else 0.0, begun + planned.at_s - time.monotonic()))
            takes_data = planned.kind.takes_data
            before = lengths(self._logs()) if takes_data else {}
            done = self._carry_out(planned)
            is_whole = False
            try:
                is_whole = self._recovers(_GIVEN_BACK_S if takes_data else _RECOVERY_S)
            finally:
                struck.append(replace(done, repairs=self._repairs(done, before, is_whole)) if takes_data else done)
                self._write(struck[-1])
            if takes_data and not is_whole:
                self._say("the node has not recovered its data: the run strikes no further fault")
                break
        return struck

    def _logs(self) -> dict[int, Path]:
        return {node: self._environment.log(node) for node in self._environment.nodes}

    def _repairs(self, done: Struck, before: Mapping[int, int], is_whole: bool) -> tuple[str, ...]:
        """Return what the nodes reported about the damage since the fault struck, and when they had the same log."""
        logs = {node: path for node, path in self._logs().items() if node in done.nodes}
        after_s = (now_ns() - done.end) / 1e9
        whole = f"all nodes had the same log {after_s:.1f} s after the fault was healed"
        missing = f"the nodes did not have the same log {after_s:.1f} s after the fault was healed"
        return (*reports(logs, before), whole if is_whole else missing)

    def _carry_out(self, planned: Planned) -> Struck:
        random = Random(planned.seed)
        leader = self._members.leader()
        nodes = aimed(planned.target, self._environment.nodes, leader, random)
        site = FaultSite(self._environment, self._members, self._clients, random, self._wait)
        fault, evidence, void = planned.kind.make(), [], ""
        self._say(f"{planned.kind.name} of {planned.target}: node {', '.join(map(str, nodes))}")
        start = now_ns()
        try:
            evidence.append(fault.strike(site, nodes))
            self._wait(max(0.0, planned.for_s - (now_ns() - start) / 1e9))
        except NoEvidenceError as error:
            void = str(error)
        finally:
            try:
                evidence.append(fault.heal(site))
            except NoEvidenceError as error:
                void = void or str(error)
        struck = Struck(
            planned.kind.name,
            planned.target,
            tuple(nodes),
            start,
            now_ns(),
            tuple(filter(None, evidence)),
            void,
            leader,
        )
        self._say(f"{planned.kind.name} is over: {void or '; '.join(struck.evidence)}")
        return struck

    def _recovers(self, within_s: float) -> bool:
        """Return whether all running nodes have caught up within `within_s`, so that the next fault hits a healthy
        cluster.
        """
        try:
            self._members.caught_up(within_s)
        except ChaosError:
            return False
        return True

    def _write(self, struck: Struck) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(struck)) + "\n")
