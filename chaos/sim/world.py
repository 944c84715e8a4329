"""Defines `World`, the interface between a simulated world and the runner of a seed.

The runner of a seed starts the faults and reads the violations. At the end of a run, the runner stops the faults and
waits until the cluster has settled. The runner of a seed can use any class that implements `World`.
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
    """Describes one violation of an invariant: the name of the invariant, the time in the run, and a description of
    the observed state."""

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
    """The interface through which the invariants read a node's log."""

    @property
    def last_index(self) -> int: ...
    def header(self, index: int) -> EntryHeader: ...


class SimNode(Protocol):
    """The interface through which the invariants read a node."""

    @property
    def node(self) -> int: ...
    @property
    def alive(self) -> bool:
        """Whether the node's process runs. A paused process is alive."""

    @property
    def raft(self) -> Raft | None:
        """The Raft core of the node, or None if the process does not run or the node is not a member."""

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
        """Carry out a fault. Count the fault in `happened` only if the fault had an effect."""

    def start_workload(self) -> None: ...

    def stop_faults(self) -> None:
        """Heal network, disks and clocks, and start every node that is down."""

    def violations(self) -> Sequence[InvariantViolation]:
        """The violations found so far."""

    def settle(self, within_ms: int) -> list[str]:
        """Stop the workload, and wait at most `within_ms` milliseconds of simulated time until the cluster has
        settled.

        A cluster has settled when it has a leader, every replica has caught up, every send has an outcome, and all
        replicas have equal bytes. Return one phrase for each condition that was not met in time.
        """

    def figures(self) -> Mapping[str, int]:
        """Return the figures of the run, such as the numbers of acknowledged messages, changes of leaders, terms,
        reads and consumed messages."""

    def history(self) -> int:
        """Return a hash of all events of the run in their order. Two runs of the same seed always have the same
        hash."""

    def close(self) -> None: ...
