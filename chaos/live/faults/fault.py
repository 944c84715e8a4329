"""The interface of a fault. A fault disturbs nodes and returns evidence of its effect. Later, the fault is undone.

The evidence is a text, for example the pid that SIGKILL ended, or the number of packets that were dropped. A fault
without evidence raises NoEvidenceError, and the run is then void.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from random import Random
from typing import Protocol

from chaos.live.hosts.environment import NodeEnvironment
from ledger.client.placement_records import Placement


class NoEvidenceError(Exception):
    """Raised if no evidence shows that the fault happened."""


class FaultTarget(StrEnum):
    """Says which nodes a fault hits. The nodes are chosen when the fault strikes."""

    ONE = "one"
    LEADER = "leader"
    MINORITY = "minority"
    MAJORITY = "majority"
    ALL = "all"


class FaultNeeds(Flag):
    """What a fault needs from a run, for example disks, clocks that can be set, messages with delivery times,
    transactions, shared groups, nodes that begin with an older program, or shards beside shard 0.

    With `async` flush, a cluster may lose data if a majority loses power at once. A loss of data that the flush mode
    allows is no anomaly. For this reason, faults that cut the power of a majority need `SYNC_FLUSH`.
    """

    NOTHING = 0
    DISKS = auto()
    CLOCKS = auto()
    STRACE = auto()
    SYNC_FLUSH = auto()
    TIMED = auto()
    TRANSACTIONS = auto()
    SHARED = auto()
    OLD_PROGRAM = auto()
    SHARDS = auto()


class ClusterControl(Protocol):
    """Queries about the state of the cluster, which members answer, and the requests that an operator can make."""

    def leader(self) -> int:
        """Return the node that leads shard 0; 0 if no node leads."""

    def transfer(self, node: int) -> bool:
        """Transfer leadership to the node and wait. Returns whether the transfer succeeded."""

    def begin_transfer(self, node: int) -> bool:
        """Request that the node take over leadership. Returns whether the request was accepted. At that time the node
        is possibly not the leader yet.
        """

    def add(self, node: int, address: str, shard: int | None = None) -> None:
        """Add the node as a voter of the shard, or of all shards (None). Returns when the node is a voter."""

    def remove(self, node: int) -> None:
        """Remove the node from the cluster."""

    def placement(self) -> Placement:
        """Return where the replicas are, and which moves are under way."""

    def drain(self, node: int) -> None:
        """Ask the cluster to drain the node. Returns when the cluster has accepted the request."""

    def stop_draining(self, node: int) -> None:
        """End the drain of the node."""

    def rebalance(self) -> None:
        """Ask the cluster to balance the replicas over the nodes."""

    def set_replicas(self, replicas: int) -> None:
        """Set how many replicas each shard shall have."""

    def wall_clock_ms(self, node: int) -> int | None:
        """Return the time of the node's own clock, in ms; None if the node does not answer."""

    def waiting(self, before_ms: int) -> int:
        """Return how many messages wait for delivery times before this time, in ms since 1970; 0 if no node answers.
        Counts up to 10,000."""

    def half_batches(self) -> int:
        """Return how many half batches of transactions wait, or are being carried out; 0 if no node answers."""

    def leased_messages(self) -> int:
        """Return how many messages are leased to members of shared groups; 0 if no leader answers."""

    def caught_up(self, within_s: float) -> None:
        """Wait until all running nodes have applied all entries that were committed before the call. Raises ChaosError
        if the nodes need longer than `within_s` seconds for this.
        """


class LoadClients(Protocol):
    """The methods with which a fault acts on the client processes that load the cluster."""

    def kill_one(self, random: Random) -> str:
        """Kill one client with SIGKILL and start a new one. Returns evidence."""


@dataclass(frozen=True, slots=True)
class FaultSite:
    """The objects that a fault can use when it strikes and heals."""

    environment: NodeEnvironment
    members: ClusterControl
    clients: LoadClients
    random: Random
    # Waits the given number of seconds. Raises an error if the run must end.
    wait: Callable[[float], None]

    def is_up(self, node: int) -> bool:
        return self.environment.pid(node) is not None


class Fault(Protocol):
    """The interface of one occurrence of a fault, which strikes once and then heals."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        """Make the fault happen, and return evidence. If the fault has no duration, this method also undoes it."""

    def heal(self, site: FaultSite) -> str:
        """Undo the fault, also if `strike` failed half-way. Returns further evidence that the fault really
        happened, or ""."""


@dataclass(frozen=True, slots=True)
class LiveFaultKind:
    """Describes one kind of fault. `seconds` has the shortest and the longest duration of an occurrence."""

    name: str
    summary: str
    targets: tuple[FaultTarget, ...]
    make: Callable[[], Fault]
    seconds: tuple[float, float] = (3.0, 6.0)
    needs: FaultNeeds = FaultNeeds.NOTHING
    least_nodes: int = 1
    # The fault removes or damages data of a node. Until the other nodes have restored the data, no other node may lose
    # any.
    takes_data: bool = False
    # False if the fault breaks an assumption of every cluster, so that a run with it must be NOT VALID (tests/gates).
    survived: bool = True
