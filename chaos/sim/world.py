"""The interface of a simulated world, as the runner of a seed uses it.

The runner starts the faults and reads the violations. At the end, the runner stops the faults and waits until the
cluster has settled. Any class that implements `World` can be used as a world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from raft.core import Raft


@dataclass(frozen=True, slots=True)
class InvariantViolation:
    """Describes the violation of an invariant: the invariant's name, the time, and what the simulator observed."""

    at_ms: int
    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_ms} ms: {self.invariant}: {self.what}"


class EntryHeader(Protocol):
    @property
    def term(self) -> int: ...
    @property
    def chain(self) -> int: ...


class SimNodeLog(Protocol):
    """The part of a node's log that the invariants read."""

    @property
    def last_index(self) -> int: ...
    def header(self, index: int) -> EntryHeader: ...


class SimNode(Protocol):
    """The part of a node that the invariants read."""

    @property
    def node(self) -> int: ...
    @property
    def alive(self) -> bool:
        """Whether the node's process runs. A paused process is alive."""

    @property
    def raft(self) -> Raft | None:
        """The Raft core; None if the process does not run or the node is not a member."""

    @property
    def log(self) -> SimNodeLog | None: ...


class World(Protocol):
    """A simulated cluster with its clients, driven by `chaos.sim.campaign.run`."""

    loop: SimLoop
    network: Network
    options: Options
    # How often a fault of each kind had an effect: a process died, a message was lost.
    happened: Counter[str]

    def nodes(self) -> Sequence[SimNode]:
        """All nodes, ordered by id."""

    def fire(self, event: FaultEvent) -> None:
        """Carry out a fault. Count the fault in `happened` only if it had an effect."""

    def start_workload(self) -> None: ...

    def stop_faults(self) -> None:
        """Heal network, disks and clocks, and start every node that is down."""

    def violations(self) -> Sequence[InvariantViolation]:
        """The violations found so far."""

    def settle(self, within_ms: int) -> list[str]:
        """Stop the workload and wait at most `within_ms` of simulated time until the cluster has settled.

        A cluster has settled when it has a leader, every replica has caught up, every send has an outcome, and all
        replicas have equal bytes. Return one phrase for each condition that was not met in time.
        """

    def figures(self) -> Mapping[str, int]:
        """The total numbers of the run: acknowledged messages, changes of leaders, terms, reads, consumed messages."""

    def history(self) -> int:
        """Return a hash of all events in order. The same seed always gives the same hash."""

    def close(self) -> None: ...
