"""Pins the leader of a shard: the pinned voter leads whenever it can, also after elections and restarts.

The pin is an entry of the shard's log (`ledger/state/pinned_leader.py`). Every leader of the shard reads it from its
applied state, and hands leadership to the pinned voter as it would to the preferred leader. So a pinned voter that is
down leads again soon after it is back.
"""

from __future__ import annotations

import asyncio

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.members import validate_node
from ledger.errors import InvalidArgumentError, UnknownNodeError
from ledger.state.commands import PinLeader, UnpinLeader
from ledger.state.feature_levels import PINNED_LEADERS


async def pin_leader(replica: BrokerReplica, node: int, *, balances: bool = False) -> None:
    """Pin a voter as the leader of the shard, in place of an earlier pin. Return when the pin is applied. The call is
    idempotent. With `balances`, the cluster prefers this leader, unless an operator has pinned one. Raises
    UnknownNodeError, InvalidArgumentError if the node is a learner or the feature level of the shard is too low, or
    another LedgerError if this node does not lead."""
    validate_node(node)
    replica.check_leads(0)
    await replica.feature_level.reach(PINNED_LEADERS)
    replica.check_leads(0)
    replica.state.require_pinned_leaders()
    configuration = replica.newest_configuration()
    assert configuration is not None, "a leader has a configuration"
    voter = configuration.voters.get(node)
    if voter is None and node in configuration.learners:
        raise InvalidArgumentError(
            f"node {node} is a learner of shard {replica.shard}, and only a voter can lead: promote it first "
            f"(`ledgermq cluster promote {node}`)"
        )
    if voter is None:
        known = ", ".join(map(str, configuration.voters))
        raise UnknownNodeError(f"node {node} is not a member of shard {replica.shard}: its voters are {known}")
    await asyncio.shield(replica.propose_checked(PinLeader(node, voter.incarnation, balances)))


async def unpin_leader(replica: BrokerReplica) -> None:
    """Remove the pin of the shard's leader. Return when this is applied. The call is idempotent. Raises LedgerError if
    this node does not lead."""
    replica.check_leads(0)
    pin = replica.state.pinned_leader
    if pin is not None and not pin.balances:
        await asyncio.shield(replica.propose_checked(UnpinLeader()))
