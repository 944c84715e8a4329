"""Carries out the plan of faults. For each fault, the nemesis makes the fault happen, waits, undoes the fault, and
records the evidence.

    faults.jsonl   {"kind":"kill","target":"leader","nodes":[2],"at_s":4.1,"until_s":9.0,"start":NS,"end":NS,
                    "evidence":["pid 4711 ended by SIGKILL ...","pid 4790"],"void":""}

The nemesis undoes every fault that began, also if the run is interrupted. A fault without evidence is recorded as
void, and a void fault makes the verdict void.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from chaos.errors import ChaosError
from chaos.live.faults.fault import ClusterControl, FaultSite, LoadClients, NoEvidenceError
from chaos.live.faults.plan import Planned, aimed
from chaos.live.hosts.environment import NodeEnvironment
from ledger.history import now_ns

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
    nodes: tuple[int, ...]
    start: int
    end: int
    evidence: tuple[str, ...]
    # Why the fault does not count; "" if it counts.
    void: str


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
            struck.append(self._carry_out(planned))
            takes_data = planned.kind.takes_data
            is_whole = self._recovers(_GIVEN_BACK_S if takes_data else _RECOVERY_S)
            if takes_data and not is_whole:
                self._say("the node has not recovered its data: the run strikes no further fault")
                break
        return struck

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
            planned.kind.name, planned.target, tuple(nodes), start, now_ns(), tuple(filter(None, evidence)), void
        )
        self._write(struck)
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
