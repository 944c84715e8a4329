"""The interface of a fault kind that has a file of its own in the protocol world.

The world creates an object of each kind that the run has. Other kinds see nothing and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.invariants import Invariants
from chaos.sim.protocol.node import ProtocolNode
from raft.core import Append, RaftMessage
from store import Readable


@dataclass(frozen=True, slots=True)
class FaultTools:
    """What a fault kind gets from the world."""

    loop: SimLoop
    network: Network
    options: Options
    nodes: Sequence[ProtocolNode]
    invariants: Invariants
    # Kill a node, and start it again after so many ms.
    kill: Callable[[ProtocolNode, int], bool]
    # Start a node after so many ms if it is not running.
    start_later: Callable[[ProtocolNode, int], None]
    # Whether a power cut of these nodes breaks no promise of the cluster.
    may_lose: Callable[[Sequence[ProtocolNode]], bool]
    # Count an effect that is known only after the fault.
    happened: Callable[[str], None]
    # Make a linearizable read at every node.
    read_everywhere: Callable[[], None]

    def node(self, number: int) -> ProtocolNode:
        return self.nodes[number - 1]


class PromisedFault:
    """One fault kind. A kind overrides the methods that it needs."""

    kind: str

    def __init__(self, tools: FaultTools) -> None:
        self.tools = tools

    def fire(self, event: FaultEvent) -> bool:
        """Carry the fault out. Return True if it had an effect."""
        raise NotImplementedError

    def heal(self) -> None:
        """End all faults of this kind."""

    def sends(self, node: ProtocolNode, message: RaftMessage) -> None:
        """Look at a message before the network has it."""

    def keeps_back(self, node: ProtocolNode, message: RaftMessage, deliver: Callable[[], None]) -> bool:
        """Return True if the network does not get this message of the node, because this fault calls `deliver` later,
        or never."""
        return False

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        """Look at a message before the core has it."""

    def received_range(self, node: ProtocolNode, append: Append, entries: Readable) -> None:
        """Look at a range of entries before the driver has it."""

    def ticked(self, node: ProtocolNode) -> None:
        """Look at a node after one of its ticks."""

    def touched(self, node: ProtocolNode) -> None:
        """Look at a node after one of its events."""

    def reopened(self, node: ProtocolNode, peer: int) -> None:
        """Record that a leader opens the stream to `peer` again."""

    def excuses(self, node: ProtocolNode, error: Exception) -> bool:
        """Return True if this fault is a reason for which a node refuses a message with this error."""
        return False

    def unsettled(self) -> list[str] | None:
        """Return a phrase for each condition of a settled cluster that is not met, or None if the usual conditions
        count."""
        return None
