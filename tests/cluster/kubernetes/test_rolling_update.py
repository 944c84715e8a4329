"""Under load, the StatefulSet is updated, a node is added, and a volume is lost: no send fails, and nothing is lost.

Containers of this machine stand for the pods (pods.py), with what the chart renders. What Kubernetes itself does is not
played: scheduling, volumes that move, the service of the clients.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.engine import connect
from ledgermq import AsyncAdmin
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds
from tests.cluster.kubernetes.chart import render
from tests.cluster.kubernetes.pods import Pods, as_a_secret, domain
from tests.cluster.ports import free_base_port

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

NODES = (1, 2, 3, 4)
SOME = 200
# As docs/KUBERNETES.md says it.
AS_ADMINISTRATOR = (
    "LEDGERMQ_BOOTSTRAP=localhost:9871",
    "LEDGERMQ_CA=/etc/ledgermq/ca.pem",
    "LEDGERMQ_USER=admin",
    "LEDGERMQ_PASSWORD_FILE=/etc/ledgermq/admin.password",
)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the secret as docs/KUBERNETES.md says, and let this process be its administrator."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files like those of a secret")
    directory = tmp_path / "secret"
    nodes = [
        f"--node={node}=ledgermq-{node - 1}.{domain()},ledgermq,ledgermq.ledgermq,localhost,127.0.0.1" for node in NODES
    ]
    command = ["certs", "provision", "--cluster=ledgermq", f"--authority={tmp_path / 'authority'}", *nodes]
    subprocess.run([sys.executable, "-m", "ledgermq", *command, f"--directory={directory}"], check=True)
    as_a_secret(directory)
    monkeypatch.setenv("LEDGERMQ_CA", str(directory / "ca.pem"))
    monkeypatch.setenv("LEDGERMQ_USER", "admin")
    monkeypatch.setenv("LEDGERMQ_PASSWORD_FILE", str(directory / "admin.password"))
    return directory


@pytest.fixture
def pods(node_image: str, secret: Path) -> Iterator[Pods]:
    base = free_base_port(len(NODES))
    engine = connect()
    pods = Pods(engine, f"ledgermq-kubernetes-{os.getpid()}", node_image, secret, [base + node - 1 for node in NODES])
    try:
        yield pods
    finally:
        pods.close()
        engine.close()


async def test_a_rolling_update_a_new_node_and_a_lost_volume_under_load(pods: Pods) -> None:
    chart = (*pods.values, "minReadySeconds=1", "settings.shards=2", "settings.segment_bytes=16777216")
    await asyncio.to_thread(pods.apply, render(*chart)["StatefulSet", "ledgermq"])
    await asyncio.to_thread(pods.wait_ready, 0, 1, 2)
    async with AsyncAdmin(pods.bootstrap) as admin:
        await admin.create_topic("topic", 4)
    load = Load(pods.bootstrap, "topic", random.Random(1), 1)
    async with load:
        await load.more(SOME)
        # Every pod is replaced, the last one first.
        changed = render(*chart, "settings.retention_hours=48")["StatefulSet", "ledgermq"]
        await asyncio.to_thread(pods.apply, changed)
        assert len(pods.took_s) == 3
        await load.more(SOME)
        # A fourth pod waits until it is added.
        grown = render(*chart, "settings.retention_hours=48", "nodes=4")["StatefulSet", "ledgermq"]
        await asyncio.to_thread(pods.apply, grown)
        await _added(pods, 4)
        await asyncio.to_thread(pods.wait_ready, 3)
        assert len(pods.took_s) == 3, "the other pods stay"
        await load.more(SOME)
        # The volume of node 2 is lost.
        await asyncio.to_thread(pods.lose_volume, 1)
        await load.more(SOME)
        await _administer(pods, "remove-node", "2")
        (pods.joining / "2").write_text("yes")
        await asyncio.to_thread(pods.replace, 1)
        await _added(pods, 2)
        await asyncio.to_thread(pods.wait_ready, 1)
        await load.more(SOME)
    print(f"{len(load.acknowledged)} acknowledged; pods replaced in {[round(each, 1) for each in pods.took_s]} s")
    await assert_every_replica_holds(pods.bootstrap, "topic", load.acknowledged, nodes=(1, 2, 3))


async def _added(pods: Pods, node: int) -> None:
    """Add the node of a new pod, whose process may be starting."""
    address = f"ledgermq-{node - 1}.{domain()}:9871"
    await _administer(pods, "add-node", str(node), "--promote", "--address", address)


async def _administer(pods: Pods, *command: str) -> None:
    await asyncio.to_thread(pods.run, 0, "env", *AS_ADMINISTRATOR, "ledgermq", "cluster", *command)
