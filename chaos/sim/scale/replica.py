"""What the product's placement, changes of members and handovers see of one replica in the scale world.

`ScaleReplica` has the part of `BrokerReplica` that `PlacementKeeper`, `MemberChanges` and `hand_over` use. Behind it is
the real Raft core. A proposal is committed at once, or it fails: messages need no time in the scale world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from chaos.sim.scale.options import BLOCK_BYTES
from chaos.sim.scale.shard import WAKES_AFTER_ENTRY, ScaleServer
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import ChangeProposal, new_future
from ledger.errors import ChangeInProgressError, LedgerError, NotLeaderError, UnavailableError
from ledger.state.commands import (
    BalanceReplicas,
    BeginReplicaMove,
    Command,
    DrainNode,
    EndDrain,
    EndReplicaMove,
)
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.state.placement_table import NodeDrain, PlacementTable, ReplicaMove
from raft.configuration_entry import ShardConfiguration, decode_configuration
from raft.core import ChangeInProgress, Configuration, Raft, Refusal

COMMAND_BYTES = 100


def address_of(node: int) -> str:
    return f"10.0.{node // 250}.{node % 250 + 1}:9871"


@dataclass(frozen=True, slots=True)
class ShardNumbers:
    """The shards of the cluster, as shard 0 knows them."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class FirstState:
    """The part of the state of shard 0 that the placement uses."""

    placement: PlacementTable
    shards: ShardNumbers
    # Called with each command that is committed.
    applied: Callable[[Command], None]
    feature_level: int = LATEST_LEVEL


class ScaleDriver:
    """The part of `raft.Driver` that handovers and changes of members use."""

    def __init__(self, server: ScaleServer) -> None:
        self._server = server

    @property
    def raft(self) -> Raft:
        return self._server.raft

    @property
    def leads(self) -> bool:
        return self._server.leads

    def transfer(self, to: int) -> None:
        self.raft.transfer(to)
        self._server.shard.stir()
        self._server.settle()
        self._server.shard.run()

    def change(self, proposal: ChangeProposal, configuration: Configuration) -> None:
        body = proposal.draft.body
        term, index = self.raft.change(configuration, len(body))
        shard = self._server.shard
        shard.configurations[index, term] = decode_configuration(bytes(body))
        shard.stir()
        proposal.appended(cast(Any, SimpleNamespace(index=index, term=term)))
        proposal.settled(committed=write(self._server, index, term))


class ScaleMembership:
    """The part of `Membership` that the placement and changes of members use."""

    def __init__(self, server: ScaleServer) -> None:
        self._server = server

    @property
    def configuration(self) -> ShardConfiguration:
        """The committed configuration. It is the newest one, because a change is committed at once, or it fails."""
        return self._server.shard.configuration_of(self._server)

    def addresses(self) -> dict[int, str]:
        return {}

    def set_address(self, node: int) -> str:
        return address_of(node)


class ScaleLog:
    """The part of the CommitLog that tells how much a follower lacks."""

    first_index = 1

    def __init__(self, last_block: int) -> None:
        self._last_block = last_block
        self.reading = self

    def span(self, first: int, last: int) -> int:
        """Return the bytes of the entries first..last."""
        return max(0, min(last, self._last_block) - max(first, 2) + 1) * BLOCK_BYTES


class ScaleReplica:
    """One replica, as the broker's modules see it."""

    def __init__(self, server: ScaleServer, state: FirstState) -> None:
        self._server = server
        self.shard = server.shard.number
        self.state = state
        self.driver = ScaleDriver(server)
        self.log = ScaleLog(server.shard.last_block)
        self.membership = ScaleMembership(server)
        self.feature_level = SimpleNamespace(check_new_member=lambda *_: None)

    @property
    def broker_replica(self) -> BrokerReplica:
        return cast(BrokerReplica, self)

    @property
    def knows_the_end(self) -> bool:
        raft = self.driver.raft
        return self.driver.leads and raft.log.term(raft.commit) == raft.term

    def newest_configuration(self) -> ShardConfiguration:
        return self.membership.configuration

    def check_leads(self, _: int) -> None:
        if not self.knows_the_end:
            raise self.not_leading()

    def not_leading(self) -> LedgerError:
        return NotLeaderError(f"node {self._server.node} does not lead shard {self.shard}")

    def refusal(self, trouble: Refusal) -> LedgerError:
        if isinstance(trouble, ChangeInProgress):
            return ChangeInProgressError("an earlier change of members is not committed yet: try again shortly")
        return UnavailableError(str(trouble))

    def propose_checked(self, command: Command) -> asyncio.Future[Any]:
        """Append a command to shard 0, and apply it when it is committed."""

        def applied() -> None:
            apply(self.state.placement, command)
            self.state.applied(command)

        return self._append(applied)

    def prefer(self, node: int) -> asyncio.Future[Any]:
        """Append an entry after which the shard prefers this voter as its leader."""

        def applied() -> None:
            self._server.shard.balanced_leader = node
            self._server.shard.stir()

        return self._append(applied)

    def _append(self, applied: Callable[[], None]) -> asyncio.Future[Any]:
        """Append an entry, and call `applied` when it is committed."""
        future = new_future()
        try:
            self.check_leads(0)
            term, index = self.driver.raft.propose([COMMAND_BYTES])
            self._server.shard.stir(WAKES_AFTER_ENTRY)
            if not write(self._server, index, term):
                raise UnavailableError("no majority has the command")
            applied()
        except Refusal as refusal:
            future.set_exception(self.refusal(refusal))
        except LedgerError as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future


def write(server: ScaleServer, index: int, term: int) -> bool:
    """Write the leader's new entry, and replicate it. Return True if it is committed."""
    raft = server.raft
    raft.persisted(raft.own_write(index), term, index)
    server.settle()
    server.shard.run()
    return raft.commit >= index and raft.log.holds(index, term)


def apply(table: PlacementTable, command: Command) -> None:
    """Apply a command of the placement, as `State` does."""
    match command:
        case BalanceReplicas(begins):
            table.is_balancing = begins
        case DrainNode(node, removes):
            table.drain(NodeDrain(node, removes))
        case EndDrain(node):
            table.end_drain(node)
        case BeginReplicaMove(shard, to, source, reason):
            table.begin(ReplicaMove(shard, to, source, reason))
        case EndReplicaMove(shard):
            table.end(shard)
        case _:
            raise AssertionError(f"the scale world proposes no {command}")


class FirstOnNode:
    """The part of `Replicas` that the placement uses: the replica of shard 0 on one node."""

    def __init__(self, find: Callable[[], ScaleServer | None], state: FirstState) -> None:
        self._find = find
        self._state = state

    @property
    def first(self) -> ScaleReplica | None:
        server = self._find()
        return None if server is None or not server.raft.configuration_index else ScaleReplica(server, self._state)

    @property
    def topics(self) -> ScaleReplica:
        if (replica := self.first) is None:
            raise UnavailableError("this node does not serve yet")
        return replica
