"""Acknowledgements and leases of a RocketMQ user after its secret was rotated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.access.callers import Caller
from ledger.client.shared.shared_message import ACKNOWLEDGE, MessageLease
from ledger.errors import AuthenticationError
from ledger.rocketmq import leases as module
from ledger.rocketmq.leases import IDLE_S, RENEW_BEFORE_S, FrontLeases
from ledger.rocketmq.members import LeaseChanger, LeaseOutcome, WantedLeaseChange
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.sessions import FrontSession

UNUSED = cast(Any, None)
LEASE = MessageLease(0, 7, 0, 3, 11, 0)


class Cluster:
    """A cluster client, which the nodes refuse after the secret was rotated."""

    def __init__(self) -> None:
        self.is_refused = False


class Changer(LeaseChanger):
    """Changes leases with the rights of its cluster client."""

    closed: list[Any] = []  # noqa: RUF012 (set by the fixture)

    def __init__(self, cluster: Any, name: str, group: str, topic_id: int, shard: int) -> None:
        super().__init__(cluster, name, group, topic_id, shard)
        self._cluster: Cluster = cluster

    async def change(self, wanted: WantedLeaseChange) -> LeaseOutcome:
        if self._cluster.is_refused:
            raise AuthenticationError("the secret was rotated")
        return LeaseOutcome(changed=True, settled=True)

    async def close(self) -> None:
        self.closed.append(self._cluster)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The cluster clients whose changers were closed."""
    found: list[Any] = []
    monkeypatch.setattr(Changer, "closed", found)
    monkeypatch.setattr(module, "LeaseChanger", Changer)
    return found


def clients_since(since: int) -> NativeClients:
    return NativeClients(Caller("alice", since), UNUSED, cast(Any, Cluster()), UNUSED)


def leases_of(*clients: NativeClients, monotonic_s: Callable[[], float]) -> FrontLeases:
    async def clients_of(caller: Caller) -> NativeClients:
        return next(each for each in clients if each.caller == caller)

    sessions: Any = SimpleNamespace(on_end=[], is_alive=lambda session: True, is_silent=lambda session: False)
    return FrontLeases(sessions, clients_of, monotonic_s)


async def test_acknowledgements_count_after_a_new_secret(closed: list[Any]) -> None:
    now_s = 0.0
    old, new = clients_since(7), clients_since(9)
    leases = leases_of(old, new, monotonic_s=lambda: now_s)
    assert (await leases.change(old, "work", ACKNOWLEDGE, LEASE)).settled
    cast(Any, old.cluster).is_refused = True
    for _ in range(3):
        now_s += IDLE_S / 2
        assert (await leases.change(new, "work", ACKNOWLEDGE, LEASE)).settled
    await leases._close_idle()
    assert closed == [old.cluster]
    await leases.close()
    assert closed == [old.cluster, new.cluster]


async def test_a_lease_is_extended_by_the_new_secret(closed: list[Any]) -> None:
    now_s = 0.0
    old, new = clients_since(7), clients_since(9)
    leases = leases_of(old, new, monotonic_s=lambda: now_s)
    session = FrontSession("client", old.caller, old.caller.user, 0.0)
    leases.renew(session, "work", LEASE, ends_s=RENEW_BEFORE_S - 1)
    session.caller, cast(Any, old.cluster).is_refused = new.caller, True
    leases._renew_due()
    await asyncio.gather(*leases._tasks)
    now_s = RENEW_BEFORE_S - 0.5
    leases._renew_due()
    assert leases.renewed == 1, "the lease has not ended"
    await leases.close()
