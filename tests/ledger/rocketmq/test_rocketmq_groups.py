"""The group of a RocketMQ consumer is created with the rights of this consumer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ledger.errors import PermissionDeniedError
from ledger.rocketmq.groups import FrontGroups
from ledger.state.group_modes import GroupMode

MODE = GroupMode("work", is_shared=True)


class Lookup:
    """Knows the group when it was created."""

    def __init__(self) -> None:
        self.found: GroupMode | None = None

    def mode(self, group: str) -> GroupMode | None:
        return self.found

    async def require(self, group: str) -> GroupMode:
        self.found = MODE
        return MODE


class Cluster:
    """A cluster client of a user. Its calls are answered when `may_answer` is set."""

    def __init__(self, may_answer: asyncio.Event, *, has_rights: bool) -> None:
        self.calls = 0
        self._may_answer = may_answer
        self._has_rights = has_rights

    async def call(self, shard: int, send: object) -> None:
        self.calls += 1
        await self._may_answer.wait()
        if not self._has_rights:
            raise PermissionDeniedError("no right to subscribe")


def required(groups: FrontGroups, cluster: Cluster) -> asyncio.Task[GroupMode]:
    return asyncio.create_task(groups.require("work", cast(Any, cluster), []))


async def test_a_user_without_rights_does_not_make_another_be_refused() -> None:
    groups, may_answer = FrontGroups(cast(Any, Lookup())), asyncio.Event()
    guest, owner = Cluster(may_answer, has_rights=False), Cluster(may_answer, has_rights=True)
    refused, accepted = required(groups, guest), required(groups, owner)
    await asyncio.sleep(0)
    may_answer.set()
    assert await accepted == MODE
    with pytest.raises(PermissionDeniedError):
        await refused


async def test_consumers_of_one_user_create_their_group_once() -> None:
    groups, may_answer = FrontGroups(cast(Any, Lookup())), asyncio.Event()
    owner = Cluster(may_answer, has_rights=True)
    asked = [required(groups, owner) for _ in range(3)]
    await asyncio.sleep(0)
    may_answer.set()
    assert await asyncio.gather(*asked) == [MODE] * 3
    assert owner.calls == 2, "one for the retry topic, and one for the group"
