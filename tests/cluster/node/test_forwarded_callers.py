"""Calls that a node makes for a user, without ports: nodes that were removed, and nodes that are behind."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.node.security import forwarded_callers
from cluster.node.security.forwarded_callers import ForwardedCallers
from ledger.access.forwarded import ForwardedCaller
from ledger.access.rules import Resource, Rule
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.replicas import Replicas
from ledger.errors import AuthenticationError, PermissionDeniedError, UnavailableError
from ledger.state.access_table import AccessTable, User

ORDERS = Resource("topic", "orders")
ALICE = ForwardedCaller("alice", 3, b"", 5).header()


class Called:
    """A node that other nodes call. Implements NodeCallers: every call is one of node 2."""

    def __init__(self) -> None:
        self.are_needed = True
        self.members: dict[int, object] = {1: object(), 2: object()}
        self.driver = SimpleNamespace(applied=5)
        self.access = AccessTable()
        self.access.put(User("alice", None, 3), [Rule("alice", "publish", "topic:orders")])
        replicas = Replicas()
        replicas._by_shard[0] = cast(
            "Any",
            SimpleNamespace(
                shard=0,
                knows_the_end=True,
                driver=self.driver,
                state=SimpleNamespace(access=self.access),
                membership=SimpleNamespace(configuration=SimpleNamespace(members=self.members)),
                newest_configuration=lambda: None,
            ),
        )
        self.authorizer = Authorizer(replicas, now_ms=lambda: 0, monotonic_ms=lambda: 0.0)
        self.callers = ForwardedCallers(replicas, self.authorizer, self)

    def node_of(self, context: object) -> int:
        return 2


async def test_a_removed_node_calls_for_nobody_also_on_a_stream_that_is_open() -> None:
    called = Called()
    caller = await called.callers.caller(ALICE, cast("Any", None))
    assert (caller.user, caller.node) == ("alice", 2)
    called.authorizer.check(caller, "publish", ORDERS)
    called.members.pop(2)
    with pytest.raises(PermissionDeniedError, match="node 2 was removed from this cluster"):
        await called.callers.caller(ALICE, cast("Any", None))
    with pytest.raises(PermissionDeniedError, match="node 2 was removed from this cluster"):
        called.authorizer.check(caller, "publish", ORDERS)


async def test_nodes_that_do_not_prove_themselves_call_for_nobody() -> None:
    called = Called()
    called.are_needed = False
    with pytest.raises(AuthenticationError):
        await called.callers.caller(ALICE, cast("Any", None))


async def test_a_node_that_is_behind_waits_for_the_users_that_the_caller_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarded_callers, "WAIT_S", 5.0)
    called = Called()
    bob = ForwardedCaller("bob", 8, b"", 8).header()
    waiting = asyncio.ensure_future(called.callers.caller(bob, cast("Any", None)))
    await asyncio.sleep(0)
    assert not waiting.done()
    called.access.put(User("bob", None, 8), [Rule("bob", "publish", "topic:orders")])
    called.driver.applied = 8
    called.authorizer.check(await waiting, "publish", ORDERS)

    monkeypatch.setattr(forwarded_callers, "WAIT_S", 0.02)
    with pytest.raises(UnavailableError, match=r"decided by entry 9: try again shortly") as late:
        await called.callers.caller(ForwardedCaller("bob", 8, b"", 9).header(), cast("Any", None))
    assert late.value.retriable
