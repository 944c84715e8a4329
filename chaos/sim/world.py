"""What every world offers to whoever runs a seed in it.

The runner fires faults, asks for violations, and at the end for peace; which code the world is made of is its own
affair.
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
class Violation:
    """Something that must never be, and was."""

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
    """What invariants ask of a node's log."""

    @property
    def last_index(self) -> int: ...
    def header(self, index: int) -> EntryHeader: ...


class SimNode(Protocol):
    """A node as invariants see it."""

    @property
    def node(self) -> int: ...
    @property
    def alive(self) -> bool:
        """Its process runs (it may stand still)."""

    @property
    def raft(self) -> Raft | None:
        """None while it is not alive, or takes no part."""

    @property
    def log(self) -> SimNodeLog | None: ...


class World(Protocol):
    loop: SimLoop
    network: Network
    options: Options
    # Faults by kind that really happened: a process died, a message was lost.
    happened: Counter[str]

    def nodes(self) -> Sequence[SimNode]:
        """By id."""

    def fire(self, event: FaultEvent) -> None:
        """Does it, and counts it in `happened` only if it really happened."""

    def start_workload(self) -> None: ...

    def stop_faults(self) -> None:
        """Everything heals: network, disks, clocks; whoever is down is started."""

    def violations(self) -> Sequence[Violation]:
        """Found so far."""

    def settle(self, within_ms: int) -> list[str]:
        """Ends the workload and waits for the end: a leader, all caught up, every send with an outcome, all replicas
        byte-identical. Returns what did not come true in time."""

    def figures(self) -> Mapping[str, int]:
        """What was done: acknowledged, leader changes, terms, reads, consumed."""

    def history(self) -> int:
        """A hash of all that happened, in order: the same for the same seed."""

    def close(self) -> None: ...
