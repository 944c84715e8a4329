"""Spark's connections to a secured cluster, which take the variables of the process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import LedgerError
from ledger.spark.source.connection import SparkConnection
from ledgermq import Admin
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("secured"))
    cluster.start(1, base_port=free_base_port(1), secure=True)
    yield cluster
    cluster.purge()


@pytest.fixture
def variables(cluster: DevCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """The variables of a process that trusts the nodes' authority and proves nothing."""
    monkeypatch.setenv("LEDGERMQ_PROFILE_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("LEDGERMQ_CA", str(cluster.client_options["ca"]))
    return monkeypatch


def topics(cluster: DevCluster) -> list[str]:
    connection = SparkConnection(tuple(cluster.bootstrap.split(",")))
    return [topic.name for topic in connection.topics_like("sp.*")]


def test_a_connection_proves_who_it_is_with_the_token_also_beside_a_user(
    cluster: DevCluster, variables: pytest.MonkeyPatch
) -> None:
    """Spark gives the driver's planning processes the driver's user and the executors' token."""
    with Admin(cluster.bootstrap, **cluster.client_options) as admin:
        admin.create_topic("spark")
        token = admin.delegate_token([("subscribe", "topic:spark")], 3_600_000)
    with pytest.raises(LedgerError):
        topics(cluster)
    variables.setenv("LEDGERMQ_TOKEN", token.token)
    assert topics(cluster) == ["spark"]
    variables.setenv("LEDGERMQ_USER", "nobody")
    variables.setenv("LEDGERMQ_PASSWORD", "wrong")
    assert topics(cluster) == ["spark"]


def test_a_connection_proves_who_it_is_with_a_user(cluster: DevCluster, variables: pytest.MonkeyPatch) -> None:
    options = cluster.client_options
    variables.setenv("LEDGERMQ_USER", str(options["user"]))
    variables.setenv("LEDGERMQ_PASSWORD_FILE", str(options["password_file"]))
    assert "spark" in topics(cluster)
