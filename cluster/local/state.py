"""What can be seen of the nodes of a local cluster from outside, and whether they agree.

The nodes may run as processes (processes.py) or in containers (containers.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc

from ledger.v1 import broker_pb2, broker_pb2_grpc


@dataclass(frozen=True, slots=True)
class NodeState:
    """What can be seen of one node from outside.

    `role` is what the node says of itself (leader, follower, learner, candidate, waiting, joining, removed), or
    `stopped` without a process, or `starting` with one that does not answer yet. `leader` is 0 where the node knows
    none. All that is of shard 0; `leaders` are those of all shards that it is a member of, as it knows them. `data` is
    a directory; of a node in a container, the name of its volume.
    """

    id: int
    address: str
    http: str
    pid: int | None
    role: str
    term: int
    leader: int
    last_index: int
    applied: int
    data: Path
    leaders: dict[int, int] = field(default_factory=dict)

    @property
    def leads(self) -> list[int]:
        """The shards that it leads."""
        return [shard for shard, leader in self.leaders.items() if leader == self.id]


def agree(states: list[NodeState], shards: int) -> bool:
    """Whether every node answers and knows the same leader of each shard, which knows it too; and there are so many
    shards. Nodes that are no members do not count, such as one that was removed by `ledgermq cluster remove-node` and
    is still here."""
    members = [state for state in states if state.role not in ("removed", "joining")]
    found = sorted({shard for state in members for shard in state.leaders})
    leaders = [{state.leaders[shard] for state in members if shard in state.leaders} for shard in found]
    led = {shard for state in members for shard in state.leads}
    answer = all(state.leader for state in members)
    return answer and len(found) >= shards and all(len(each) == 1 for each in leaders) and led == set(found)


def observe(node: int, address: str, http: str, pid: int | None, data: Path) -> NodeState:
    """What node `node` says of itself at `address`; a node without a pid is not asked."""
    state = partial(NodeState, id=node, address=address, http=http, pid=pid, data=data)
    if pid is None:
        return state(role="stopped", term=0, leader=0, last_index=0, applied=0)
    answer = ask(address)
    if answer is None or not answer.shards:
        return state(role="starting", term=0, leader=0, last_index=0, applied=0)
    shard = answer.shards[0]
    leaders = {each.shard: each.leader for each in answer.shards if each.role not in ("removed", "joining", "waiting")}
    return state(
        leaders=leaders,
        role=shard.role,
        term=shard.term,
        leader=shard.leader,
        last_index=shard.last_index,
        applied=shard.applied,
    )


def ask(address: str, timeout_s: float = 1.0) -> broker_pb2.GetStatusResponse | None:
    """A node's own account of itself; None where it gives none."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50)]
    with grpc.insecure_channel(address, options) as channel:
        broker = broker_pb2_grpc.BrokerStub(channel)
        try:
            answer: broker_pb2.GetStatusResponse = broker.GetStatus(broker_pb2.GetStatusRequest(), timeout=timeout_s)
            return answer
        except grpc.RpcError:
            return None
