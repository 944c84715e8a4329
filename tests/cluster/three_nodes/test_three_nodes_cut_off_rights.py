"""A node that is cut off does not learn that a right was revoked, and serves by its old rules for a bounded time."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from ledger.errors import LedgerError, TopicExistsError, UserExistsError
from ledger.v1 import broker_pb2, error_pb2
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.fleet import Fleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.secured import PASSWORD, tls_fleet
from tests.cluster.waiter import eventually

# Instead of 30 s. The process stands still for less than `STANDSTILL_S`, or it would doubt its rules at once.
STALE_S = 4.0
PROGRAM = f"""
import ledger.broker.access.authorizer as authorizer
authorizer.STALE_S = {STALE_S}
from ledgermq.__main__ import main
main()
"""
# What a busy machine may add.
SLACK_S = 4.0
# A node that stands still still gets bytes into its sockets. In some attempts these have the revocation already, and
# then the node knows the new rules when it goes on. Such an attempt is made again.
ATTEMPTS = 5


@contextmanager
def stopped(processes: list[NodeProcess]) -> Iterator[None]:
    """Let these processes stand still during the `with` block."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


class Alice:
    """A user who asks one node for the messages of a queue, on one proven connection."""

    def __init__(self, admin: AsyncAdmin, address: str, topic_id: int) -> None:
        self._stub: Any = admin._client.connections.stub(address)
        self._topic_id = topic_id

    async def fetch(self) -> str:
        """Return "served", "denied", "stale" if the node does not know present rules, or another status."""
        queue = broker_pb2.QueueFetch(topic_id=self._topic_id, queue=0, offset=0)
        request = broker_pb2.FetchRequest(queues=[queue], max_wait_ms=0, max_bytes=1 << 20)
        try:
            (found,) = (await self._stub.Fetch(request, timeout=10)).queues
        except aio.AioRpcError as error:
            is_stale = error.code() is grpc.StatusCode.UNAVAILABLE and "rules may be old" in str(error.details())
            return "stale" if is_stale else error.code().name
        if found.HasField("error"):
            is_denied = found.error.code == error_pb2.PERMISSION_DENIED
            return "denied" if is_denied else "stale" if "rules may be old" in found.error.message else "other error"
        return "served" if found.batches else "empty"


@pytest.mark.parametrize("is_leader", [True, False], ids=["leader", "follower"])
async def test_a_revoked_right_ends_on_a_node_that_is_cut_off(tmp_path: Path, is_leader: bool) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    password = tmp_path / "password"
    fleet = tls_fleet(
        tmp_path, 3, authentication=True, first_administrator_password_file=password, spread_leaders=False
    )
    user: dict[str, Any] = {"ca": tmp_path / "ca.pem", "user": "admin", "password": PASSWORD}
    with ExitStack() as stack:
        nodes = {node: stack.enter_context(NodeProcess(fleet.write_toml(node), main=PROGRAM)) for node in fleet.nodes}
        leader, topic_id = await eventually(
            lambda: begun(fleet, user), "the cluster has users and a topic", deadline_s=60
        )
        victim = leader if is_leader else next(node for node in fleet.nodes if node != leader)
        others = [node for node in fleet.nodes if node != victim]
        alice_user = {**user, "user": "alice"}
        async with AsyncAdmin([fleet.address(victim)], **alice_user) as client:
            alice = Alice(client, fleet.address(victim), topic_id)
            for _ in range(ATTEMPTS):
                await eventually(lambda: says(alice, "served"), "alice reads")
                with stopped([nodes[victim]]):
                    before = time.monotonic()
                    async with AsyncAdmin([fleet.address(node) for node in others], **user) as admin:
                        await eventually(lambda: revoked(admin), "the right is revoked by the other nodes")
                        with stopped([nodes[node] for node in others]):
                            nodes[victim].send_signal(signal.SIGCONT)
                            while (answer := await alice.fetch()) == "served":
                                assert time.monotonic() - before < STALE_S + SLACK_S
                            if answer != "denied":
                                assert answer == "stale"
                                assert {await alice.fetch() for _ in range(20)} == {"stale"}, "it stays so"
                await eventually(lambda: says(alice, "denied"), "the node knows the new rules")
                if answer == "stale":
                    break
                async with AsyncAdmin(fleet.bootstrap, **user) as admin:
                    await admin.grant("alice", "subscribe", "topic:orders")
            assert answer == "stale"


async def begun(fleet: Fleet, user: dict[str, Any]) -> tuple[int, int] | None:
    """Make a topic with a message and the user alice. Return the leader and the id of the topic."""
    try:
        async with AsyncAdmin(fleet.bootstrap, **user) as admin:
            with contextlib.suppress(TopicExistsError):
                await admin.create_topic("orders", queues=1)
            with contextlib.suppress(UserExistsError):
                await admin.add_user("alice", PASSWORD)
            await admin.grant("alice", "subscribe", "topic:orders")
            async with AsyncProducer(fleet.bootstrap, **user) as producer:
                await producer.send("orders", b"one")
            return (await admin.members()).leader, (await admin.describe_topic("orders")).topic_id
    except LedgerError:
        return None


async def says(alice: Alice, answer: str) -> bool:
    return await alice.fetch() == answer


async def revoked(admin: AsyncAdmin) -> bool:
    try:
        await admin.revoke("alice", "subscribe", "topic:orders")
    except LedgerError:
        return False
    return True
