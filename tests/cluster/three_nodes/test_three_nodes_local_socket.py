"""The local socket of a node with authentication: administrators of its machine, also if shard 0 has no leader."""

from __future__ import annotations

import socket as socket_module
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from cluster.node.node import NodeError
from ledger.errors import LedgerError, NotSuspectError, UnavailableError
from ledger.local_socket import SOCKET, SocketTarget, socket_address
from ledger.v1 import operations_pb2
from ledger.v1.operations_pb2_grpc import OperationsStub
from ledgermq import AsyncAdmin
from raft.v1 import raft_pb2, raft_pb2_grpc
from tests.cluster.fleet import Fleet
from tests.cluster.secured import PASSWORD, tls_fleet
from tests.cluster.waiter import eventually


def user(fleet: Fleet, **more: Any) -> dict[str, Any]:
    return {"ca": fleet.settings(1).tls_ca, "user": "admin", "password": PASSWORD, "request_timeout_ms": 3_000, **more}


def socket(fleet: Fleet, node: int) -> str:
    return socket_address(fleet.data(node))


async def leader_by_socket(fleet: Fleet) -> int:
    async def known() -> int:
        async with AsyncAdmin(socket(fleet, 1)) as admin:
            status = next(each for each in await admin.cluster() if each.node == 1)
            return status.shards[0].leader if status.shards else 0

    return await eventually(known, "node 1 knows a leader")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    directory = tmp_path / ("a directory with a name that is too long for a socket " * 3)
    directory.mkdir()
    (directory / "password").write_text(PASSWORD)
    password = directory / "password"
    found = tls_fleet(directory, 3, authentication=True, first_administrator_password_file=password)
    try:
        await found.start()
        leader = await leader_by_socket(found)

        async def has_begun() -> bool:
            return await users(found, leader) == ["admin"]

        await eventually(has_begun, "the cluster has its first administrator")
        yield found
    finally:
        await found.close()


async def users(fleet: Fleet, node: int) -> list[str]:
    async with AsyncAdmin(socket(fleet, node)) as admin:
        try:
            return [each.name for each in await admin.list_users()]
        except LedgerError:
            return []


async def test_only_the_user_of_the_node_can_open_the_socket(fleet: Fleet) -> None:
    found = (fleet.data(1) / SOCKET).stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600


async def test_an_operator_on_the_leaders_machine_gives_a_lost_password_anew(fleet: Fleet) -> None:
    async with AsyncAdmin(socket(fleet, await leader_by_socket(fleet))) as admin:
        await admin.rotate_user("admin", "a new password")
    async with AsyncAdmin(fleet.bootstrap, **user(fleet, password="a new password")) as admin:
        assert [each.name for each in await admin.list_users()] == ["admin"]


async def test_the_socket_does_not_make_its_caller_a_node(fleet: Fleet) -> None:
    target = SocketTarget(socket(fleet, 1))
    try:
        async with aio.insecure_channel(target.name) as channel:
            request = operations_pb2.OpenTopicRequest(shard=0, topic_id=77, name="x", shards=[0])
            with pytest.raises(aio.AioRpcError) as refused:
                await OperationsStub(channel).OpenTopic(request, timeout=5)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            with pytest.raises(aio.AioRpcError) as unknown:
                await raft_pb2_grpc.RaftStub(channel).Introduce(raft_pb2.IntroduceRequest(), timeout=5)
            assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
    finally:
        target.close()


async def test_the_last_node_refuses_users_and_obeys_its_local_operator(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.broker.access.authorizer.STALE_S", 1.0)
    await fleet.stop(2, 3)

    async def refusal() -> str:
        try:
            async with AsyncAdmin([fleet.address(1)], **user(fleet)) as admin:
                await admin.cluster()
        except UnavailableError as error:
            return str(error)
        return ""

    text = await eventually(refusal, "the node refuses users")
    assert "followed no leader of shard 0" in text
    assert "`--local`" in text
    async with AsyncAdmin(socket(fleet, 1), request_timeout_ms=3_000) as admin:
        first, *others = await admin.cluster()
        assert first.address == socket(fleet, 1)
        assert first.shards[0].leader == 0
        assert not any(each.reachable for each in others)
        assert "use the local socket on that node's machine" in others[0].error
        with pytest.raises(NotSuspectError):
            await admin.recover_node(1)


async def test_the_socket_disappears_when_the_node_stops_and_a_restart_replaces_a_stale_one(fleet: Fleet) -> None:
    path = fleet.data(3) / SOCKET
    await fleet.stop(3)
    assert not path.exists()
    with socket_module.socket(socket_module.AF_UNIX) as stale:  # as a killed node leaves it behind
        target = SocketTarget(socket(fleet, 3))
        stale.bind(target.name.removeprefix("unix:"))
        target.close()
    await fleet.start(3)
    async with AsyncAdmin(socket(fleet, 3)) as admin:
        assert 3 in [each.node for each in await admin.cluster() if each.reachable]


@pytest.mark.parametrize("what", ["a symbolic link", "a directory", "a file"])
async def test_what_is_no_socket_is_named_and_stays(tmp_path: Path, what: str) -> None:
    """Before, the node blamed the file system."""
    (tmp_path / "password").write_text(PASSWORD)
    fleet = tls_fleet(tmp_path, 1, authentication=True, first_administrator_password_file=tmp_path / "password")
    fleet.data(1).mkdir()
    path = fleet.data(1) / SOCKET
    if what == "a directory":
        path.mkdir()
    elif what == "a file":
        path.write_text("mine")
    else:
        path.symlink_to("nothing")
    try:
        with pytest.raises(NodeError, match=f"local.sock is {what}, .*: find out who made it, and remove it"):
            await fleet.start(1)
    finally:
        await fleet.close()
    assert path.is_symlink() or path.exists()
