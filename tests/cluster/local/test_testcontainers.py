"""The container class for the library testcontainers, with a real Docker engine."""

from __future__ import annotations

import pytest

from ledgermq import Admin, Consumer, Producer
from ledgermq.testcontainers import ClusterError, LedgermqContainer

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def without_the_reaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's reaper is an image that this machine may be unable to pull. The tests stop what they start."""
    from testcontainers.core.config import testcontainers_config

    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)


@pytest.fixture(params=["docker_host", "bridge_ip"])
def connection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the tests reach containers: by ports of the engine's host, or as another container does. On a machine that is
    a container itself, the library would choose the second."""
    from testcontainers.core.config import ConnectionMode, testcontainers_config

    monkeypatch.setattr(testcontainers_config, "tc_host_override", "localhost")
    monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode(request.param))
    return str(request.param)


def test_clients_outside_use_the_node_and_nothing_stays(node_image: str, connection: str) -> None:
    with LedgermqContainer(node_image).with_env("LEDGERMQ_SHARDS", "2") as ledgermq:
        assert ledgermq.bootstrap.startswith("127.0.0.1:") == (connection == "docker_host")
        with Admin(ledgermq.bootstrap) as admin:
            admin.create_topic("orders", 4)
            assert len(admin.shards()) == 2
        with Producer(ledgermq.bootstrap) as producer:
            producer.send("orders", b"1", queue=3)
        with Consumer("orders", bootstrap_servers=ledgermq.bootstrap) as consumer:
            assert next(consumer).value == b"1"
        container = ledgermq.get_wrapped_container()
        engine, name = container.client, container.id
    assert name not in [each.id for each in engine.containers.list(all=True)]


def test_a_node_that_ends_is_shown_with_its_log(node_image: str, connection: str) -> None:
    container = LedgermqContainer(node_image).with_env("LEDGERMQ_TICK_MS", "none")
    with pytest.raises(ClusterError, match=r"has ended(.|\n)*tick_ms"), container:
        pass
    with pytest.raises(ClusterError, match="has not been started"):
        _ = LedgermqContainer(node_image).bootstrap
