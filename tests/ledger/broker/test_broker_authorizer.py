"""A node decides by its replica of shard 0, and only while it knows that the replica is not old."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.access.rules import Resource, Rule
from ledger.broker.access.authorizer import DOUBT_S, LOOK_S, STALE_S, STANDSTILL_S, Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.replicas import Replicas
from ledger.errors import PermissionDeniedError, UnavailableError
from ledger.state.access_table import AccessTable, User

ALICE = Caller("alice", 7)
ORDERS = Resource("topic", "orders")


class Node:
    """A node with a replica of shard 0, whose state the test sets, and its clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000.0
        access = AccessTable()
        access.put(User("alice", None, 7), [Rule("alice", "publish", "topic:orders")])
        self.raft = SimpleNamespace(leader=0, term=3, first_heard_commit=9)
        self.driver = SimpleNamespace(raft=self.raft, applied=9, failure=None, cannot_apply=None)
        self.applied_term = 3
        self.replica = SimpleNamespace(
            knows_the_end=False,
            driver=self.driver,
            log=SimpleNamespace(term=lambda index: self.applied_term),
            state=SimpleNamespace(access=access),
        )
        replicas = cast("Replicas", SimpleNamespace(topics=self.replica, first=self.replica))
        self.authorizer = Authorizer(replicas, now_ms=lambda: 0, monotonic_ms=lambda: self.now_ms)

    def follows(self) -> None:
        self.raft.leader, self.applied_term = 2, self.raft.term

    def runs_for(self, seconds: float) -> None:
        """Let time pass, with the looks of the running node."""
        for _ in range(int(seconds / LOOK_S)):
            self.now_ms += LOOK_S * 1000
            self.authorizer._look(self.now_ms)

    def check(self, action: Any = "publish") -> None:
        self.authorizer.check(ALICE, action, ORDERS)


def test_a_node_that_follows_decides_by_its_rules() -> None:
    node = Node()
    node.follows()
    node.check()
    with pytest.raises(PermissionDeniedError):
        node.check("delete")


def test_after_its_start_a_node_knows_no_rules_until_it_follows_a_leader() -> None:
    """Otherwise a node that is cut off would decide by old rules for 30 s more after each restart."""
    node = Node()
    with pytest.raises(UnavailableError, match="since its start"):
        node.check()
    with pytest.raises(UnavailableError, match="since its start"):
        node.authorizer.fresh_access()
    node.follows()
    node.check()
    assert node.authorizer.fresh_access() is node.authorizer.access


def test_a_node_that_refuses_callers_is_not_ready() -> None:
    node = Node()
    assert "since its start" in node.authorizer.not_ready()
    node.follows()
    assert node.authorizer.not_ready() == ""
    node.raft.leader = 0
    node.runs_for(STALE_S + 1)
    assert "for 31 s" in node.authorizer.not_ready()


def test_a_leader_of_which_no_entry_is_applied_confirms_nothing() -> None:
    """A node that was down for long hears the leader before it has the entries."""
    node = Node()
    node.raft.leader, node.applied_term = 2, 2
    with pytest.raises(UnavailableError):
        node.check()
    node.applied_term = 3
    node.check()


def test_after_a_restart_under_the_same_leader_the_entries_of_the_meantime_must_be_applied() -> None:
    """Their leader is the same, so the last entry before the restart is of this leader, too."""
    node = Node()
    node.follows()
    for heard in (None, 10):
        node.raft.first_heard_commit = heard
        with pytest.raises(UnavailableError):
            node.check()
    node.driver.applied = 10
    node.check()


def test_a_leader_decides_also_while_its_disk_is_full() -> None:
    """Without this leader no rule changes."""
    node = Node()
    node.replica.knows_the_end, node.driver.failure = True, OSError("no space")
    node.check()


@pytest.mark.parametrize("trouble", ["leader gone", "disk failed", "cannot apply"])
def test_old_rules_count_for_thirty_seconds(trouble: str) -> None:
    node = Node()
    node.follows()
    node.check()
    match trouble:
        case "leader gone":
            node.raft.leader = 0
        case "disk failed":
            node.driver.failure = OSError("no space")
        case _:
            node.driver.cannot_apply = ValueError("a newer feature level")
    node.runs_for(STALE_S)
    node.check()
    node.runs_for(1)
    with pytest.raises(UnavailableError, match="for 31 s"):
        node.check()


def test_after_a_standstill_the_leader_of_before_confirms_nothing() -> None:
    """A machine that was suspended for an hour still knows the leader of an hour ago."""
    node = Node()
    node.follows()
    node.check()
    node.now_ms += 3600_000
    with pytest.raises(UnavailableError):
        node.check()
    node.runs_for(DOUBT_S - 1)
    with pytest.raises(UnavailableError):
        node.check()
    node.runs_for(2)
    node.check()


def test_a_short_standstill_disturbs_nobody() -> None:
    node = Node()
    node.follows()
    node.check()
    node.now_ms += (STANDSTILL_S + 1) * 1000
    for _ in range(int(DOUBT_S)):
        node.check()
        node.runs_for(1)
    node.check()
