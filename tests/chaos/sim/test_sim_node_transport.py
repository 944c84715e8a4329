"""How the stack world carries Raft's messages between nodes, and damages some of them on their way."""

from __future__ import annotations

from random import Random

from chaos.sim.engine.links import Conditions
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.node_life import Life
from chaos.sim.stack.node_transport import Door, DoorKey, SimTransport, Transit
from raft.configuration_entry import ConfiguredMember, ShardConfiguration
from raft.core import Append
from raft.transport.grpc_transport import Identity, Receiver

ENTRIES = bytes(200)
MEMBERS = {node: ConfiguredMember(bytes([node] * 16)) for node in (1, 2)}


class Nodes:
    """Two nodes, and the entries that reach the second one. The network delivers each message twice."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.transit = Transit(Random(1))
        self.arrived: list[bytes] = []
        self._network = Network(self.loop, Random(1), Conditions(duplicate=0.99))
        self._doors: dict[DoorKey, Door] = {}
        self.leader, _ = (self._make(node) for node in MEMBERS)

    def _make(self, node: int) -> SimTransport:
        receiver = Receiver(
            message=lambda message: None,
            append=lambda append, entries: self.arrived.append(bytes(entries)),
            snapshot=lambda chunk, piece: None,
            unreachable=lambda peer: None,
        )
        transport = SimTransport(
            Life(self.loop, lambda: None),
            self._network,
            self._doors,
            Identity("c", 0, node, MEMBERS[node].incarnation),
            receiver,
            self.transit,
            lambda shard, index: None,
        )
        transport.start()
        transport.configured(ShardConfiguration("c", MEMBERS, 1 << 20, 1 << 16), MEMBERS)
        return transport


def test_each_arrival_of_a_message_is_damaged_by_itself() -> None:
    nodes = Nodes()
    nodes.transit.corrupts = 1.0
    append = Append(1, 2, 1, prev_index=0, prev_term=0, runs=(), last_index=0, commit=0)
    nodes.leader.replicate([(append, memoryview(ENTRIES))])
    nodes.loop.run_until(1.0)
    once, again = nodes.arrived
    assert once != ENTRIES
    assert again != ENTRIES
    assert once != again
    assert nodes.transit.corrupted == 2
