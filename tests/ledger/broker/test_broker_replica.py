"""Tests the errors that a replica returns to clients, and its log message after an operator accepted a data loss."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.broker.applied_state import AppliedState
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.membership import Membership
from ledger.errors import BusyError, ChangeInProgressError, NoLeaderError, NotLeaderError
from raft.configuration_entry import encode_configuration
from raft.core import Busy, ChangeInProgress, NotLeader, Role, RoleChange, Transferring
from store import EntryKind, Suspect
from tests.ledger.broker.test_broker_membership import ME, VOTING


def replica(leader: int = 0, doubt: Suspect | None = None) -> BrokerReplica:
    nothing: Any = None
    made = BrokerReplica(
        shard=0,
        applied=AppliedState(nothing, nothing, nothing, nothing),
        membership=Membership(2, ME, {}),
        max_message_bytes=1024,
        max_entry_bytes=2 << 20,
        meter=nothing,
        doubt=lambda: doubt,
    )
    driver: Any = SimpleNamespace(failure=None, leads=leader == 2, raft=SimpleNamespace(leader=leader))
    made.attach(driver)
    return made


def apply_configuration(of: BrokerReplica) -> None:
    header: Any = SimpleNamespace(kind=EntryKind.CONFIGURATION, index=7)
    of.apply(header, memoryview(encode_configuration(VOTING)))


def test_what_may_go_by_is_busy() -> None:
    for refusal in (Transferring(3), Busy(99)):
        told = replica(2).refusal(refusal)
        assert isinstance(told, BusyError)
        assert told.retriable
    assert "handed to node 3" in str(replica(2).refusal(Transferring(3)))
    assert isinstance(replica(2).refusal(ChangeInProgress()), ChangeInProgressError)


def test_a_leader_that_came_later_is_named_with_its_address() -> None:
    follower = replica(leader=1)
    told = follower.refusal(NotLeader(1))
    assert isinstance(told, NotLeaderError)
    assert (told.leader, told.leader_address) == (1, None), "the address of the leader is not known yet"
    apply_configuration(follower)
    assert follower.refusal(NotLeader(1)).leader_address == "n1:1"
    assert isinstance(replica().refusal(NotLeader(0)), NoLeaderError)


def test_a_loss_that_was_accepted_is_told_with_its_date(caplog: pytest.LogCaptureFixture) -> None:
    made = replica(2, Suspect("power loss", since_ms=1_700_000_000_000, last_index=41))
    made.role_changed(RoleChange(Role.LEADER, 4, 2))
    assert made.losses_accepted == 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    made.role_changed(RoleChange(Role.LEADER, 5, 2, accepts_loss=True))
    assert made.losses_accepted == 1
    (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "leads term 5" in told
    assert "on this node since 2023-11-14T22:13:20+00:00, after entry 41: power loss" in told
