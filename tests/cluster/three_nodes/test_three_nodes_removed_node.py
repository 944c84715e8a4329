"""A node that was removed is refused by the members, although it still has the cluster secret, and learns that it was
removed. A member that is behind still accepts a leader that it does not know as a member."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from cluster.node.security.node_identity import node_identity
from ledgermq import AsyncAdmin
from raft.transport.control_streams import caller
from raft.v1 import raft_pb2, raft_pb2_grpc
from tests.cluster.fleet import Fleet
from tests.cluster.scrape import reason_not_ready, scrape
from tests.cluster.secured import write_secret
from tests.cluster.waiter import eventually

REFUSED = (grpc.StatusCode.FAILED_PRECONDITION, "is not a member of shard 0 of this cluster")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Nodes 1 to 3 of a cluster with a secret. Node 4 is not started, and can be added."""
    fleet = Fleet(tmp_path, 4, cluster_secret_file=write_secret(tmp_path / "secret"))
    founders = {node: fleet.address(node) for node in (1, 2, 3)}
    for node in founders:
        fleet.override(node, peers=founders)
    fleet.override(4, peers={}, join=True, advertised=fleet.address(4))
    try:
        await fleet.start(1, 2, 3)
        await fleet.leader()
        yield fleet
    finally:
        await fleet.close()


class Impostor:
    """Speaks to the node `receiver` with the identity of the node `sender`."""

    def __init__(self, fleet: Fleet, sender: int, receiver: int) -> None:
        self._dialer = node_identity(fleet.settings(sender)).dialer
        self._sender = sender
        self._receiver = receiver
        self._channel = self._dialer.channel(receiver, fleet.address(receiver))
        self._stub: Any = raft_pb2_grpc.RaftStub(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    async def open(self, method: str, incarnation: bytes = b"") -> Any:
        shard = (("ledgermq-shard", "0"), ("ledgermq-incarnation", incarnation.hex()))
        who = caller("test", self._sender, self._receiver)
        return getattr(self._stub, method)(metadata=(*who, *shard, *await self._proof()), timeout=20)

    async def introduction(self) -> raft_pb2.IntroduceResponse:
        request = raft_pb2.IntroduceRequest(cluster="test", shard=0, sender=self._sender, adding=True)
        answer: raft_pb2.IntroduceResponse = await self._stub.Introduce(
            request, metadata=await self._proof(), timeout=20
        )
        return answer

    async def _proof(self) -> Any:
        return await self._dialer.prove(self._channel, self._receiver)


@asynccontextmanager
async def impostor(fleet: Fleet, sender: int, receiver: int) -> AsyncIterator[Impostor]:
    found = Impostor(fleet, sender, receiver)
    try:
        yield found
    finally:
        await found.close()


async def end_of(stream: Any) -> tuple[grpc.StatusCode, str]:
    """Return the status with which the node ends the stream."""
    with contextlib.suppress(aio.AioRpcError):
        while await stream.read() is not aio.EOF:
            pass
    return await stream.code(), str(await stream.details())


def is_refused(end: tuple[grpc.StatusCode, str]) -> bool:
    return end[0] is REFUSED[0] and REFUSED[1] in end[1]


async def test_a_removed_node_is_refused_and_learns_that_it_was_removed(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = await fleet.leader()
    removed, other = (node for node in (1, 2, 3) if node != receiver)
    vote = raft_pb2.VoteRequest(term=(await fleet.status(receiver)).term, pre=True)
    async with impostor(fleet, removed, receiver) as caller, AsyncAdmin(fleet.bootstrap[:3]) as admin:
        incarnation = (await caller.introduction()).incarnation
        control = await caller.open("Control")
        replicate = await caller.open("Replicate", incarnation)
        asks = raft_pb2.ControlMessage(vote_request=vote, incarnation=incarnation)
        await control.write(raft_pb2.ControlBundle(messages=[asks]))
        assert [each.WhichOneof("message") for each in (await control.read()).messages] == ["vote_response"]
        await admin.remove_node(removed, force=True)
        # The streams that are open end with their next message.
        await control.write(raft_pb2.ControlBundle(messages=[asks]))
        assert is_refused(await end_of(control))
        await replicate.write(raft_pb2.AppendRequest(term=1))
        assert is_refused(await end_of(replicate))
        before = (await scrape(fleet.http(receiver)))["ledgermq_raft_refused_messages_total"]
        assert before >= 2
        # So do new ones, at once.
        for method in ("Control", "Replicate"):
            assert is_refused(await end_of(await caller.open(method, incarnation)))
        with pytest.raises(aio.AioRpcError, match="is not a member"):
            await caller.introduction()
        assert (await scrape(fleet.http(receiver)))["ledgermq_raft_refused_messages_total"] >= before + 3
    lines = [line for line in caplog.messages if line.startswith("closed the ")]
    assert lines
    assert len(lines) <= 2, "at most one line of each of the two members"
    await reason_not_ready(fleet.http(removed), "was removed from cluster")
    async with impostor(fleet, receiver, other) as caller:
        stream = await caller.open("Control")
        await stream.write(raft_pb2.ControlBundle())
        stream.cancel()


async def test_a_member_that_was_away_follows_a_leader_that_it_does_not_know(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ledgermq")
    await fleet.stop(3)
    await fleet.start(4)
    async with AsyncAdmin([fleet.address(node) for node in (1, 2, 4)]) as admin:
        await admin.add_node(4, fleet.address(4), promote=True, timeout_ms=30_000)
        await admin.transfer_leadership(to=4)

        async def leads() -> bool:
            return (await admin.members()).leader == 4

        await eventually(leads, "node 4 leads")
    await fleet.start(3)
    await fleet.level()
    assert (await fleet.status(3)).leader == 4
