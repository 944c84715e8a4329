"""`ledgermq dev --docker`: a cluster of containers that keeps running."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.containers import CLUSTER_LABEL, DockerCluster
from cluster.local.engine import connect
from cluster.local.plan import DevError
from ledger.client.connection.security import PROFILE_FILE_VARIABLE
from ledgermq import Admin, Consumer, Producer
from ledgermq.errors import UnavailableError
from tests.cluster.cli.command import run
from tests.cluster.local.at_once import assert_ports_of_their_own
from tests.cluster.ports import free_base_port


@pytest.fixture
def cluster(node_image: str) -> Iterator[DockerCluster]:
    cluster = DockerCluster(f"test-{os.getpid()}", node_image)
    yield cluster
    cluster.purge()


def values(cluster: DockerCluster, topic: str, count: int) -> list[bytes]:
    with Consumer(topic, bootstrap_servers=cluster.bootstrap, start="earliest") as consumer:
        return [next(consumer).value for _ in range(count)]


def test_it_starts_stops_goes_on_with_its_data_and_leaves_nothing(cluster: DockerCluster) -> None:
    (state,) = cluster.start(1, base_port=free_base_port(1))
    assert (state.role, state.leads, cluster.exists) == ("leader", [0], True)
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("kept", 1)
        producer.send("kept", b"one")

    assert (cluster.stop(), cluster.stop()) == (1, 0)
    assert [state.role for state in cluster.status()] == ["stopped"]
    with pytest.raises(DevError, match="was created with 1 node"):
        cluster.start(3)
    assert [state.role for state in cluster.start()] == ["leader"]
    assert values(cluster, "kept", 1) == [b"one"]

    cluster.kill(1)
    assert [state.pid for state in cluster.status()] == [None], "who was killed by hand stays down"
    cluster.restart(1)
    assert values(cluster, "kept", 1) == [b"one"]

    assert (cluster.purge(), cluster.purge()) == (True, False)
    engine, label = connect(), {"label": f"{CLUSTER_LABEL}={cluster.name}"}
    assert engine.containers.list(all=True, filters=label) == []
    assert engine.volumes.list(filters=label) == engine.networks.list(filters=label) == []
    engine.close()


def test_a_first_start_that_fails_leaves_nothing_new_behind(cluster: DockerCluster) -> None:
    engine, label = connect(), {"label": f"{CLUSTER_LABEL}={cluster.name}"}
    kept = engine.volumes.create(f"ledgermq-{cluster.name}-1", labels={CLUSTER_LABEL: cluster.name})
    with pytest.raises(DevError, match="The new cluster was removed again"):
        cluster.start(2, base_port=free_base_port(2), timeout_s=0.001)
    assert engine.containers.list(all=True, filters=label) == engine.networks.list(filters=label) == []
    assert [volume.name for volume in engine.volumes.list(filters=label)] == [kept.name], "data of before stays"
    kept.remove()
    engine.close()


def test_those_that_are_started_at_once_get_ports_of_their_own(node_image: str) -> None:
    assert_ports_of_their_own([DockerCluster(f"test-{os.getpid()}-{name}", node_image) for name in ("one", "other")])


def test_a_secured_one_serves_its_administrator_only(
    cluster: DockerCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE_FILE_VARIABLE, str(tmp_path / "profiles.toml"))
    (state,) = cluster.start(1, base_port=free_base_port(1), secure=True)
    assert (state.role, cluster.is_secure) == ("leader", True)
    with Admin(cluster.bootstrap, **cluster.client_options) as admin:
        admin.create_topic("kept", 1)
    with pytest.raises(UnavailableError), Admin(cluster.bootstrap) as stranger:
        stranger.list_topics()
    (tmp_path / "scratch").mkdir()
    assert list(cluster.log_directory(1, tmp_path / "scratch").iterdir())
    with pytest.raises(DevError, match="was created with TLS and authentication"):
        cluster.start(secure=False)
    cluster.stop()
    assert [state.role for state in cluster.start()] == ["leader"]
    directory = cluster.credentials.directory
    assert stat.S_IMODE(cluster.credentials.password.stat().st_mode) == 0o600
    cluster.purge()
    assert not directory.exists()


@pytest.mark.real
@pytest.mark.parametrize("command", [("dev", "start"), ("dev", "status"), ("dev", "purge")])
def test_without_an_engine_one_is_told_so(command: tuple[str, ...]) -> None:
    done = run(*command, "--docker", status=1, environment={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert b"no Docker engine answers: start the engine, or name another engine with DOCKER_HOST" in done.stderr
