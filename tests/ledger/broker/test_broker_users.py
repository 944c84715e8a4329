"""Tests the tokens that users may delegate: a request that is surely refused becomes no entry of the log."""

from __future__ import annotations

import pytest

from ledger.access.rules import Rule
from ledger.broker.access.callers import Caller
from ledger.broker.access.users import Users
from ledger.broker.replicas import Replicas
from ledger.errors import InvalidArgumentError
from ledger.state import access_table
from ledger.state.commands import AddUser
from tests.ledger.broker.shared.leader import LeasingLeader

RULES = (Rule("mallory", "publish", "topic:orders"),)


async def test_tokens_beyond_the_limit_are_refused_without_an_entry_until_some_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_table, "MAX_TOKENS_OF_A_USER", 3)
    leader, replicas = LeasingLeader(), Replicas()
    replicas.add(leader.replica)
    leader.append(AddUser("mallory", None))
    users, caller = Users(replicas), Caller("mallory", leader.applied)
    for _ in range(3):
        await users.delegate(caller, RULES, 10_000)
    before = leader.applied
    for _ in range(5):
        with pytest.raises(InvalidArgumentError, match="mallory has 3 delegated tokens already"):
            await users.delegate(caller, RULES, 10_000)
    assert leader.applied == before
    leader.pass_ms(10_001)
    await users.delegate(caller, RULES, 10_000)
    assert len(leader.replica.state.access.tokens) == 1
