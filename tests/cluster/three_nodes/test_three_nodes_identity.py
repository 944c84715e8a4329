"""Nodes prove to each other who they are: by the cluster secret, or with TLS and certificates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from cluster.node.node import Node
from cluster.node.security.certificate_proof import CertificateCredentials
from cluster.node.security.certificates import CertificateWatch
from cluster.node.security.node_identity import certificate_files, node_identity
from cluster.node.security.tls import TlsDialer
from cluster.node.settings import NodeSettings
from ledger.errors import LedgerError
from ledger.v1 import operations_pb2
from ledger.v1.operations_pb2_grpc import OperationsStub
from ledgermq import AsyncAdmin, AsyncProducer
from raft.transport.cluster_secret import new_secret
from raft.transport.control_streams import caller
from raft.transport.dialing import Dialer
from raft.transport.node_proof import NodeProofs
from raft.v1 import raft_pb2, raft_pb2_grpc
from tests.cluster.fleet import Fleet
from tests.cluster.secured import PASSWORD, node_files, tls_fleet, write_authority, write_secret
from tests.cluster.waiter import eventually

OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)


def options(fleet: Fleet, **more: Any) -> dict[str, Any]:
    """Return the security options of a client of this fleet."""
    found: dict[str, Any] = {"user": "admin", "password": PASSWORD, **more}
    if fleet.settings(1).tls_ca is not None:
        found["ca"] = fleet.settings(1).tls_ca
    return found


async def begun(fleet: Fleet) -> None:
    """Wait until the cluster has its first administrator, who can create a topic in every shard."""

    async def created() -> bool:
        try:
            async with AsyncAdmin(fleet.bootstrap, **options(fleet)) as admin:
                await admin.create_topic("orders", queues=4)
        except LedgerError:
            return False
        return True

    await eventually(created, "a topic can be created")


@pytest.fixture(params=["secret", "tls"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    (tmp_path / "password").write_text(PASSWORD)
    settings: dict[str, Any] = {
        "authentication": True,
        "first_administrator_password_file": tmp_path / "password",
        "shards": 2,
    }
    if request.param == "secret":
        found = Fleet(tmp_path, 3, cluster_secret_file=write_secret(tmp_path / "secret"), **settings)
    else:
        found = tls_fleet(tmp_path, 3, **settings)
    try:
        await found.start()
        await begun(found)
        yield found
    finally:
        await found.close()


@asynccontextmanager
async def channel_as(settings: NodeSettings, node: int, address: str) -> AsyncIterator[tuple[aio.Channel, Any]]:
    """Open a channel to `node` with the identity that these settings give. Yield the channel and its dialer."""
    dialer = dialer_of(settings)
    channel = dialer.channel(node, address)
    try:
        yield channel, dialer
    finally:
        await channel.close()


def dialer_of(settings: NodeSettings) -> Dialer:
    """Return the dialer of a node that does not check its own certificate, as a hostile node would not."""
    if (files := certificate_files(settings)) is None:
        return node_identity(settings).dialer
    watch = CertificateWatch(files)
    proofs = NodeProofs(settings.cluster, settings.node, CertificateCredentials(settings.cluster, watch))
    return TlsDialer(settings.cluster, watch, proofs)


async def test_three_nodes_elect_a_leader_replicate_and_open_topics(fleet: Fleet) -> None:
    async with AsyncProducer(fleet.bootstrap, **options(fleet)) as producer:
        await asyncio.gather(*(producer.send("orders", b"%d" % number, queue=number % 4) for number in range(40)))
    async with AsyncAdmin(fleet.bootstrap, **options(fleet)) as admin:
        assert sum(each.end_offset for each in (await admin.describe_topic("orders")).offsets) == 40
        await admin.delete_topic("orders")


async def test_writes_go_on_when_a_leader_stops(fleet: Fleet) -> None:
    async with (
        AsyncProducer(fleet.bootstrap, **options(fleet)) as producer,
        AsyncAdmin(fleet.bootstrap, **options(fleet)) as admin,
    ):
        await producer.send("orders", b"before")
        leader = (await admin.members()).leader
        await fleet.stop(leader)
        async with asyncio.timeout(30):
            await asyncio.gather(*(producer.send("orders", b"after", queue=queue) for queue in range(4)))


def raft_calls(fleet: Fleet, victim: int, sender: int) -> dict[str, Callable[[aio.Channel], Any]]:
    """Return one call of each Raft method, in the name of a member."""
    stub: Any = raft_pb2_grpc.RaftStub
    introduce = raft_pb2.IntroduceRequest(cluster="test", shard=0, sender=sender, adding=True)
    entries = raft_pb2.ReadEntriesRequest(cluster="test", shard=0, sender=sender, receiver=victim)
    who = caller("test", sender, victim)
    return {
        "Introduce": lambda channel: stub(channel).Introduce(introduce, timeout=5),
        "ReadEntries": lambda channel: stub(channel).ReadEntries(entries, timeout=5),
        "Control": lambda channel: stub(channel).Control(metadata=who, timeout=5),
        "Replicate": lambda channel: stub(channel).Replicate(
            metadata=(*who, ("ledgermq-shard", "0"), ("ledgermq-incarnation", "00")), timeout=5
        ),
    }


async def status_of(call: Any) -> grpc.StatusCode:
    try:
        if isinstance(call, aio.StreamStreamCall):
            await call.read()
            code: grpc.StatusCode = await call.code()
            return code
        await call
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("method", ["Introduce", "ReadEntries", "Control", "Replicate"])
async def test_a_stranger_cannot_speak_as_a_member(fleet: Fleet, method: str, tmp_path: Path) -> None:
    ca = fleet.settings(2).tls_ca
    if ca is None:
        channel = aio.insecure_channel(fleet.address(2), options=[OWN_CONNECTION])
    else:
        channel = aio.secure_channel(
            fleet.address(2), grpc.ssl_channel_credentials(ca.read_bytes()), options=[OWN_CONNECTION]
        )
    async with channel:
        before = await shard_terms(fleet)
        assert await status_of(raft_calls(fleet, 2, 1)[method](channel)) is grpc.StatusCode.UNAUTHENTICATED
        assert await shard_terms(fleet) == before


async def shard_terms(fleet: Fleet) -> list[int]:
    async with AsyncAdmin(fleet.bootstrap, **options(fleet)) as admin:
        return [(await admin.members(shard=shard)).term for shard in (0, 1)]


async def test_no_client_calls_the_methods_for_nodes(fleet: Fleet) -> None:
    """An administrator either: its rights do not make it a node."""
    async with AsyncAdmin(fleet.bootstrap, **options(fleet)) as admin:
        stub = admin._client.connections.stub(fleet.address(1))
        for call, request in (
            (stub.OpenTopic, operations_pb2.OpenTopicRequest(shard=1, topic_id=77, name="x", shards=[1])),
            (stub.DropTopic, operations_pb2.DropTopicRequest(shard=1, topic_id=1)),
        ):
            with pytest.raises(aio.AioRpcError, match="only nodes of this cluster may call"):
                await call(request, timeout=5)


def test_a_new_secret_is_random() -> None:
    assert new_secret() != new_secret()
    assert len(bytes.fromhex(new_secret())) == 32


# -- the wrong proof


async def refusal_of(settings: NodeSettings, fleet: Fleet, victim: int, sender: int) -> str:
    """Return why a node with these settings is refused by `victim` when it asks for entries as `sender`."""
    async with channel_as(settings, victim, fleet.address(victim)) as (channel, dialer):
        try:
            metadata = await dialer.prove(channel, victim)
            request = raft_pb2.ReadEntriesRequest(cluster="test", shard=0, sender=sender, receiver=victim)
            await raft_pb2_grpc.RaftStub(channel).ReadEntries(request, metadata=metadata, timeout=5)
        except aio.AioRpcError as error:
            return str(error.details())
        except Exception as error:
            return str(error)
    return ""


@pytest.fixture
async def secret_fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    found = Fleet(tmp_path, 3, cluster_secret_file=write_secret(tmp_path / "secret"))
    try:
        await found.start()
        await found.leader()
        yield found
    finally:
        await found.close()


async def test_a_node_with_another_secret_is_refused(secret_fleet: Fleet, tmp_path: Path) -> None:
    right = secret_fleet.settings(1)
    assert await refusal_of(right, secret_fleet, 2, 1) == ""
    assert "node 1 speaks in the name of node 3" in await refusal_of(right, secret_fleet, 2, 3)
    wrong = secret_fleet.settings(1, cluster_secret_file=write_secret(tmp_path / "other"))
    assert "did not prove that it is of this cluster" in await refusal_of(wrong, secret_fleet, 2, 1)


async def test_without_authentication_the_methods_for_nodes_ask_for_a_proof(secret_fleet: Fleet) -> None:
    async with aio.insecure_channel(secret_fleet.address(1), options=[OWN_CONNECTION]) as channel:
        with pytest.raises(aio.AioRpcError, match="only nodes of this cluster"):
            await OperationsStub(channel).OpenTopic(operations_pb2.OpenTopicRequest(shard=0), timeout=5)


async def test_the_secret_is_rotated_without_a_failed_send(secret_fleet: Fleet, tmp_path: Path) -> None:
    fleet, new = secret_fleet, new_secret()
    old = (tmp_path / "secret").read_text().strip()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", queues=1)
    async with AsyncProducer(fleet.bootstrap) as producer:
        for secrets in ((old, new), (new, old), (new,)):
            write_secret(tmp_path / "secret", *secrets)
            await producer.send("orders", b"x")
            follower = await fleet.follower()
            await fleet.stop(follower)
            await fleet.start(follower)
            await fleet.leader()
            await producer.send("orders", b"y")


async def test_certificates_of_others_are_refused(tmp_path: Path) -> None:
    fleet = tls_fleet(tmp_path / "cluster", 3)
    try:
        await fleet.start()
        authority = write_authority(tmp_path / "stranger")
        right = fleet.settings(1)
        assert await refusal_of(right, fleet, 2, 1) == ""
        assert "node 1 speaks in the name of node 3" in await refusal_of(right, fleet, 2, 3)
        # The settings say node 3, and the files are those of node 1.
        claims = fleet.settings(3, tls_certificate=right.tls_certificate, tls_key=right.tls_key)
        assert "is not the one of node 3" in await refusal_of(claims, fleet, 2, 3)
        # An authority that the cluster does not know, which the stranger itself trusts together with the right one.
        strange = node_files(tmp_path / "stranger", authority, 1)
        both = tmp_path / "both.pem"
        both.write_bytes((tmp_path / "cluster" / "ca.pem").read_bytes() + authority.pair.certificate)
        refused = await refusal_of(fleet.settings(1, **{**strange, "tls_ca": both}), fleet, 2, 1)
        assert "no valid certificate of this cluster" in refused
        # The dialing side refuses a node that has the certificate of another node.
        async with channel_as(right, 3, fleet.address(2)) as (channel, dialer):
            with pytest.raises(aio.AioRpcError) as failed:
                await dialer.prove(channel, 3)
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await fleet.close()


async def test_a_renewed_certificate_counts_without_a_restart(tmp_path: Path) -> None:
    fleet = tls_fleet(tmp_path, 1)
    await fleet.start()
    try:
        node: Node = fleet.running[1]
        watch = node._identity.watch
        assert watch is not None
        before = watch.current.certificate
        authority = write_authority(tmp_path)
        node_files(tmp_path, authority, 1)
        assert watch.current.certificate != before
        async with AsyncAdmin(fleet.bootstrap, ca=tmp_path / "ca.pem") as admin:
            await admin.create_topic("orders")
    finally:
        await fleet.close()


async def test_a_user_proves_itself_by_a_certificate(fleet: Fleet, tmp_path: Path) -> None:
    if fleet.settings(1).tls_ca is None:
        pytest.skip("needs TLS")
    from cluster.authority import read_authority, write_pair

    certificate, key = write_pair(tmp_path, "user-alice", read_authority(tmp_path, "test").user("alice"))
    async with AsyncAdmin(fleet.bootstrap, **options(fleet)) as admin:
        await admin.add_user("alice")
        await admin.grant("alice", "publish", "topic:orders")

    async def counts_everywhere() -> bool:
        replicas = [node._shards.first.replica for node in fleet.running.values()]
        return all(replica is not None and replica.state.access.rules("alice") for replica in replicas)

    await eventually(counts_everywhere, "every node has applied the new right")
    ca = fleet.settings(1).tls_ca
    proof: dict[str, Any] = {"ca": ca, "client_certificate": certificate, "client_key": key}
    async with AsyncProducer(fleet.bootstrap, **proof) as producer:
        await producer.send("orders", b"one")
    stranger = write_authority(tmp_path / "stranger").user("alice")
    certificate, key = write_pair(tmp_path / "stranger", "user-alice", stranger)
    with pytest.raises(LedgerError, match="no client certificate of a user"):
        async with AsyncProducer(fleet.bootstrap, ca=ca, client_certificate=certificate, client_key=key):
            pass
