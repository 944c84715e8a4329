"""The alerts about peers and certificates fire when their faults are really made (see test_alerts.py)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from grpc import aio

from raft.transport.cluster_secret import SecretCredentials
from raft.transport.control_streams import caller
from raft.transport.node_proof import NodeProofs
from raft.v1 import raft_pb2, raft_pb2_grpc
from tests.cluster.fleet import sample_batch
from tests.cluster.monitoring.node_processes import NodeProcesses
from tests.cluster.monitoring.prometheus import Prometheus, needs_prometheus
from tests.cluster.secured import node_files, write_authority, write_secret
from tests.cluster.waiter import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

FIRED = {"peers": ("RefusedPeerMessages", "Unacknowledged"), "certificates": ("CertificateExpires",)}
"""The alerts, by the test that makes them fire."""


@pytest.fixture(autouse=True)
def _prometheus() -> None:
    needs_prometheus()


async def test_peers_that_fail(tmp_path: Path) -> None:
    """A program that knows the cluster secret sends what no node sends. Then no node acknowledges entries."""
    secret = write_secret(tmp_path / "secret")
    async with NodeProcesses(tmp_path / "nodes", spread_leaders=False, cluster_secret_file=secret) as nodes:
        nodes.start(fault="mute")
        await nodes.ready()
        topic = await nodes.fleet.create_topic()
        async with Prometheus(tmp_path / "prometheus", {"ledgermq": nodes.http}) as prometheus:

            async def sees_none() -> bool:
                return len(await prometheus.query("ledgermq_raft_refused_messages_total == 0")) == 3

            await eventually(sees_none, "Prometheus has read the counters of all nodes")
            leader = await nodes.leader()
            victim, sender = (node for node in nodes.fleet.nodes if node != leader)
            await send_forged_heartbeat(nodes, secret, sender, victim)
            await prometheus.fires("LedgermqRefusedPeerMessages", instance=nodes.fleet.http(victim))
            assert not await prometheus.has_fired("LedgermqUnacknowledged")

            leader = await nodes.leader()
            for node in nodes.fleet.nodes:
                nodes.begin_fault(node)
            waiting = asyncio.create_task(nodes.fleet.produce(leader, sample_batch(topic)))
            await prometheus.fires("LedgermqUnacknowledged", shard="0")
            for node in nodes.fleet.nodes:
                nodes.end_fault(node)
            await asyncio.gather(waiting, return_exceptions=True)


async def send_forged_heartbeat(nodes: NodeProcesses, secret: Path, sender: int, victim: int) -> None:
    """Send a heartbeat in the name of `sender`, a node that does not lead, with a term that no shard reaches. Check
    that the victim refuses it."""
    proofs = NodeProofs("test", sender, SecretCredentials(secret))
    async with aio.insecure_channel(nodes.fleet.address(victim)) as channel:
        stub = raft_pb2_grpc.RaftStub(channel)
        introduced: raft_pb2.IntroduceResponse = await stub.Introduce(
            raft_pb2.IntroduceRequest(cluster="test", shard=0, sender=sender, voters=nodes.fleet.nodes),
            metadata=await proofs.prove(channel, victim),
            timeout=5,
        )
        forged = raft_pb2.ControlMessage(
            heartbeat=raft_pb2.Heartbeat(term=(1 << 64) - 1), incarnation=introduced.incarnation
        )
        metadata = (*caller("test", sender, victim), *await proofs.prove(channel, victim))
        call = stub.Control(metadata=metadata, timeout=10)
        await call.write(raft_pb2.ControlBundle(messages=[forged]))
        with pytest.raises(aio.AioRpcError, match="no correct node sends") as refused:
            await call.read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_certificates_that_end(tmp_path: Path) -> None:
    """A node whose certificate is valid for 13 days, and a node whose certificate is valid for 15 days. The alert waits
    for an hour, so the times are twice as short as those of other tests."""
    authority = write_authority(tmp_path)
    async with (
        NodeProcesses(tmp_path / "soon", 1) as soon,
        NodeProcesses(tmp_path / "later", 1) as later,
    ):
        for nodes, days in ((soon, 13), (later, 15)):
            nodes.override(1, **node_files(tmp_path, authority, 1, f"{days}-days", days=days))
            nodes.start()
        jobs = {"ledgermq-soon": soon.http, "ledgermq-later": later.http}
        security = {"scheme": "https", "tls_config": {"ca_file": str(tmp_path / "ca.pem")}}
        async with Prometheus(tmp_path / "prometheus", jobs, security, times=2) as prometheus:
            await prometheus.fires("LedgermqCertificateExpires", job="ledgermq-soon")
            (ends,) = await prometheus.query(
                'ledgermq_tls_certificate_not_after_timestamp_seconds{job="ledgermq-later"} - time()'
            )
            assert 14 < float(ends["value"][1]) / 86_400 < 15, "it ends a day too late for the alert"
            fired = await prometheus.query('ALERTS{alertname="LedgermqCertificateExpires"}')
            assert {each["metric"]["job"] for each in fired} == {"ledgermq-soon"}
