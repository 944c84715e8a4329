"""Which nodes a replica admits as callers, and when it asks the other members first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.node.security.peer_admission import KEEP_MS, PeerAdmission
from ledger.broker.replicas import Replicas
from raft.core import Configuration
from raft.v1 import raft_pb2

Answer = raft_pb2.GetConfigurationResponse


class Others:
    """The other members: what they answer, and how often they were asked."""

    def __init__(self, answers: Mapping[int, Answer | None]) -> None:
        self.answers = answers
        self.asked: list[int] = []

    async def __call__(self, node: int, address: str, shard: int) -> Answer | None:
        await asyncio.sleep(0)
        self.asked.append(node)
        assert address == f"node-{node}:1"
        return self.answers.get(node)


class Case:
    """A replica of shard 0 on node 1, whose newest configuration has the nodes 1, 2 and 3, at entry 10."""

    def __init__(
        self, answers: Mapping[int, Answer | None] | None = None, *, leader: int = 0, up_to_date: bool = False
    ) -> None:
        self.others = Others(answers or {})
        self.raft = SimpleNamespace(
            configuration=Configuration((1, 2, 3)),
            configuration_index=10,
            first_heard_commit=20 if leader else None,
            leader=leader,
            term=4,
        )
        self.membership = SimpleNamespace(
            configuration=None, node=1, is_removed=False, address=lambda node: f"node-{node}:1"
        )
        driver = SimpleNamespace(raft=self.raft, failure=None, cannot_apply=None, applied=20)
        log = SimpleNamespace(term=lambda _: 4 if up_to_date else 3)
        replica: Any = SimpleNamespace(shard=0, driver=driver, membership=self.membership, log=log, knows_the_end=False)
        self.replicas = Replicas()
        self.replicas.add(replica)
        self.now_ms = 0.0
        self.admission = PeerAdmission(self.replicas, self.others, lambda: self.now_ms)

    async def admits(self, node: int) -> bool:
        return self.admission.is_member(node, 0) or not await self.admission.refusal(node, 0)


def members(index: int, *nodes: int) -> Answer:
    return Answer(index=index, members=nodes)


async def test_members_are_admitted_and_nobody_is_asked() -> None:
    case = Case(leader=2, up_to_date=True)
    assert [node for node in range(1, 6) if await case.admits(node)] == [1, 2, 3]
    assert case.others.asked == []


async def test_a_replica_without_a_configuration_admits_all() -> None:
    case = Case()
    case.raft.configuration = Configuration(())
    assert await case.admits(7)
    assert PeerAdmission(Replicas(), case.others, lambda: 0.0).is_member(7, None), "shard 0 has not started"


async def test_a_removal_counts_when_it_is_committed() -> None:
    case = Case(leader=2, up_to_date=True)
    case.membership.configuration = SimpleNamespace(voters={1: 0, 2: 0, 3: 0, 4: 0}, learners={})
    assert await case.admits(4)
    case.membership.configuration = SimpleNamespace(voters={1: 0, 2: 0, 3: 0}, learners={})
    assert not await case.admits(4)


async def test_a_leader_that_removes_itself_is_followed_to_the_end() -> None:
    case = Case(leader=4, up_to_date=True)
    assert await case.admits(4)


BEHIND: dict[str, tuple[dict[int, Answer | None], bool]] = {
    "a member lists it, in a newer configuration": ({2: members(11, 1, 2, 3, 4)}, True),
    "no member lists it": ({2: members(10, 1, 2, 3), 3: members(10, 1, 2, 3)}, False),
    "a newer configuration does not list it either": ({2: members(12, 1, 2), 3: None}, False),
    "nobody answers": ({}, True),
    "only a member that is further behind answers": ({2: members(9, 1, 2, 3, 4)}, True),
    "a member that lists it, and one that is behind": (
        {2: members(11, 1, 2, 3, 4), 3: members(10, 1, 2, 3)},
        True,
    ),
    "only one that is a member no more answers": ({3: Answer()}, True),
}


@pytest.mark.parametrize("case", BEHIND)
async def test_a_replica_that_may_be_behind_asks_the_other_members(case: str) -> None:
    answers, admitted = BEHIND[case]
    behind = Case(answers, leader=2)
    assert await behind.admits(4) is admitted
    assert sorted(behind.others.asked) == [2, 3]


async def test_a_replica_that_was_just_started_asks_until_it_applied_what_its_leader_had_committed() -> None:
    case = Case({2: members(11, 1, 2, 3, 4)}, leader=2, up_to_date=True)
    case.raft.first_heard_commit = 21
    assert await case.admits(4)
    assert sorted(case.others.asked) == [2, 3]


async def test_callers_cannot_make_it_ask_often() -> None:
    case = Case({2: members(10, 1, 2, 3)})
    assert await asyncio.gather(*(case.admits(node) for node in range(4, 60))) == [False] * 56
    assert not await case.admits(4)
    assert sorted(case.others.asked) == [2, 3]
    case.now_ms = KEEP_MS
    assert not await case.admits(4)
    assert len(case.others.asked) == 4
    case.raft.configuration_index = 12  # what the others said counts no more
    assert await case.admits(4)
    assert len(case.others.asked) == 6


async def test_a_node_that_was_removed_tells_no_configuration() -> None:
    case = Case()
    request = raft_pb2.GetConfigurationRequest(cluster="test", shard=0, sender=2)
    assert case.admission.configuration(request) == members(10, 1, 2, 3)
    case.membership.is_removed = True
    assert case.admission.configuration(request) == Answer()
    request.shard = 9
    assert case.admission.configuration(request) == Answer()
