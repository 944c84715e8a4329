"""The state of the nodes of a local cluster, as each node reports it, and the check whether the nodes agree.

The nodes run as processes (processes.py) or in containers (containers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import grpc.aio

from ledger.client.connection.channels import GrpcChannel
from ledger.client.connection.security import Security
from ledger.errors import LedgerError
from ledger.v1 import broker_pb2, broker_pb2_grpc


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is known about one node: its process, and what the node reports. The fields from `role` to `applied`
    describe the node's replica of shard 0."""

    id: int
    address: str
    http: str
    pid: int | None
    # The role that the node reports (leader, follower, learner, candidate, waiting, joining, removed), `stopped` if
    # the node has no process, or `starting` if its process does not answer.
    role: str
    term: int
    # The node that leads shard 0; 0 if this node knows no leader.
    leader: int
    last_index: int
    applied: int
    # The data directory. For a node in a container, the name of its volume.
    data: Path
    # By shard number, the leader that this node knows, for all shards of which it is a member.
    leaders: dict[int, int] = field(default_factory=dict)
    # The address for RocketMQ clients, or "".
    rocketmq: str = ""

    @property
    def leads(self) -> list[int]:
        """Return the shards that this node leads."""
        return [shard for shard, leader in self.leaders.items() if leader == self.id]


def agree(states: list[NodeState], shards: int) -> bool:
    """Return True if every node answers, all nodes know the same leader of each shard, and each leader knows that
    it leads. The nodes must also know at least `shards` shards. Nodes that are not members are ignored, for example
    a node that was removed by `ledgermq cluster remove-node` and still runs."""
    members = [state for state in states if state.role not in ("removed", "joining")]
    found = sorted({shard for state in members for shard in state.leaders})
    leaders = [{state.leaders[shard] for state in members if shard in state.leaders} for shard in found]
    led = {shard for state in members for shard in state.leads}
    answer = all(state.leader for state in members)
    return answer and len(found) >= shards and all(len(each) == 1 for each in leaders) and led == set(found)


def observe(node: int, address: str, http: str, pid: int | None, data: Path, rocketmq: str = "") -> NodeState:
    """Ask node `node` at `address` for its state. A node without a pid is not asked and has the role `stopped`."""
    return state_of(node, address, http, pid, data, None if pid is None else ask(address), rocketmq)


def state_of(
    node: int,
    address: str,
    http: str,
    pid: int | None,
    data: Path,
    answer: broker_pb2.GetStatusResponse | None,
    rocketmq: str = "",
) -> NodeState:
    """Return the state of a node. `answer` is its status, or None if it did not answer."""
    state = partial(NodeState, id=node, address=address, http=http, pid=pid, data=data, rocketmq=rocketmq)
    if pid is None:
        return state(role="stopped", term=0, leader=0, last_index=0, applied=0)
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
    """Return the status that the node at `address` reports; return None if the node does not answer within
    `timeout_s` seconds."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50)]
    with grpc.insecure_channel(address, options) as channel:
        broker = broker_pb2_grpc.BrokerStub(channel)
        try:
            answer: broker_pb2.GetStatusResponse = broker.GetStatus(broker_pb2.GetStatusRequest(), timeout=timeout_s)
            return answer
        except grpc.RpcError:
            return None


def ask_proven(
    addresses: Sequence[str], security: Security, timeout_s: float = 1.0
) -> list[broker_pb2.GetStatusResponse | None]:
    """Ask nodes that want to know who the caller is, all at the same time. The result has None for a node that does
    not answer within `timeout_s` seconds, or refuses the caller."""

    async def work() -> list[broker_pb2.GetStatusResponse | None]:
        return await asyncio.gather(*(_ask_proven(address, timeout_s, security) for address in addresses))

    return asyncio.run(work())


async def _ask_proven(address: str, timeout_s: float, security: Security) -> broker_pb2.GetStatusResponse | None:
    channel = GrpcChannel(address, security=security)
    try:
        async with asyncio.timeout(timeout_s + 1):
            answer: broker_pb2.GetStatusResponse = await channel.stub.GetStatus(
                broker_pb2.GetStatusRequest(), timeout=timeout_s
            )
            return answer
    except (grpc.aio.AioRpcError, LedgerError, TimeoutError):
        return None
    finally:
        await channel.close()
