"""The interface of a fault kind that has a file of its own in the stack world.

The world creates an object of each kind that the run has. Other kinds see nothing and cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.sim.campaign.swarm import Options
from chaos.sim.consumers.consumption import SimConsumption
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.rpc_server import Handler
from chaos.sim.stack.cluster_operator import SimOperator
from chaos.sim.stack.damage import Damages
from chaos.sim.stack.mirror_truth import MirrorTruth
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.power import PowerFaults
from chaos.sim.stack.roster import Rosters
from chaos.sim.stack.workload import ClientProcess, Workload


@dataclass(frozen=True, slots=True)
class DirectedTools:
    """What a fault kind gets from the world."""

    loop: SimLoop
    network: Network
    options: Options
    rosters: Rosters
    operator: SimOperator
    workload: Workload
    consumption: SimConsumption
    power: PowerFaults
    damages: Damages
    copies: MirrorTruth
    # Makes the process of a program that an operator starts. Each call makes a process with a life of its own.
    operators_program: Callable[[], ClientProcess]
    # Record a violation: (invariant, what).
    fail: Callable[[str, str], None]
    # Effects that are known only after the fault.
    happened: Counter[str]

    @property
    def nodes(self) -> Sequence[StackNode]:
        """All nodes that were ever started and have not been removed for good."""
        return self.rosters.present

    def leader(self, shard: int) -> StackNode | None:
        """Return the node that leads the shard in the newest term, or None."""
        return self.rosters.leader_of(shard)


class DirectedFault:
    """One fault kind. A kind overrides the methods that it needs."""

    kind: str

    def __init__(self, tools: DirectedTools) -> None:
        self.tools = tools

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        """Carry the fault out. `shard` and `node` are the shard and the node that the event hits. Return True if it had
        an effect."""
        raise NotImplementedError

    def watched(self, node: StackNode, method: str, handler: Handler) -> Handler:
        """Return the handler that this node uses for this call. It can wait before it calls `handler`."""
        return handler

    def heal(self) -> None:
        """End all faults of this kind."""
