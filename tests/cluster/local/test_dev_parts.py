"""The parts of local clusters that need no running node: plans and pid files."""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path

import pytest

from cluster.local.credentials import ClusterCredentials
from cluster.local.node_process import DevNode
from cluster.local.plan import ClusterPlan, DevError
from cluster.local.processes import DevCluster
from cluster.local.toml_text import toml_text
from cluster.node.settings import NodeSettings
from ledger.client.connection.security import read_profiles
from ledger.errors import InvalidArgumentError

PLAN = ClusterPlan("dev", (9871, 9873, 9875), "sync", 64 << 20)


def test_a_plan_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    assert ClusterPlan.load(path) is None
    PLAN.save(path)
    assert ClusterPlan.load(path) == PLAN


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ports": ["x"]}', '{"ports": [1], "other": 2}'])
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(text)
    with pytest.raises(DevError, match="not the plan of a local cluster"):
        ClusterPlan.load(path)


def test_a_node_understands_its_toml(tmp_path: Path) -> None:
    data = tmp_path / 'a "quoted" \\ folder'
    path = tmp_path / "node.toml"
    path.write_text(PLAN.node_toml(2, data, {}))
    settings = NodeSettings.load(path)
    assert (settings.node, settings.data, settings.flush, settings.segment_bytes) == (2, data, "sync", 64 << 20)
    assert (settings.listen, settings.http) == (PLAN.address(2), PLAN.http(2))
    assert settings.peers == {node: PLAN.address(node) for node in (1, 2, 3)}


def test_nodes_come_and_go_and_keep_their_numbers(tmp_path: Path) -> None:
    plan = PLAN.with_node(9900).without(2).with_node(9902)
    assert plan.nodes == (1, 3, 4, 5)
    assert [plan.address(node) for node in (3, 4, 5)] == ["127.0.0.1:9875", "127.0.0.1:9900", "127.0.0.1:9902"]
    assert plan.next_node == 6
    plan.save(tmp_path / "cluster.json")
    assert ClusterPlan.load(tmp_path / "cluster.json") == plan
    (tmp_path / "node.toml").write_text(plan.node_toml(5, tmp_path, {}))
    joining = NodeSettings.load(tmp_path / "node.toml")
    assert (joining.node, joining.join, joining.peers) == (5, True, {})


@pytest.mark.parametrize("pid", ["", "junk", "999999999", str(os.getpid())], ids=["none", "junk", "nobody's", "ours"])
def test_a_pid_that_is_not_ours_is_never_signalled(tmp_path: Path, pid: str) -> None:
    node = DevNode(1, tmp_path, "127.0.0.1:1", "127.0.0.1:2")
    (tmp_path / "pid").write_text(pid)
    assert node.pid is None
    node.send(9)  # type: ignore[arg-type]  # with our own pid, this test would not survive a mistake
    assert node.wait_stopped(0)


def test_the_log_tail_is_the_end(tmp_path: Path) -> None:
    node = DevNode(1, tmp_path, "127.0.0.1:1", "127.0.0.1:2")
    assert node.log_tail() == ""
    node.log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert node.log_tail(2) == "line 9998\nline 9999"


def test_operations_on_no_cluster(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path / "none")
    assert cluster.stop() == 0
    assert cluster.purge() is False
    assert not cluster.directory.exists()
    for ask in (
        cluster.status,
        cluster.add_node,
        cluster.start_joining_node,
        lambda: cluster.remove_node(1),
        lambda: cluster.restart(1),
    ):
        with pytest.raises(DevError, match="there is no local cluster"):
            ask()
    assert not cluster.directory.exists()


def test_purge_leaves_what_is_not_ours(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path)
    PLAN.save(tmp_path / "cluster.json")
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "log").touch()
    (tmp_path / "precious").touch()
    assert [state.role for state in cluster.status()] == ["stopped"] * 3
    assert cluster.purge() is True
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("change", [{"nodes": 5}, {"base_port": 1234}, {"flush": "async"}, {"segment_bytes": 1 << 20}])
def test_an_existing_cluster_cannot_be_changed(tmp_path: Path, change: dict[str, object]) -> None:
    PLAN.save(tmp_path / "cluster.json")
    with pytest.raises(DevError, match="cannot change"):
        DevCluster(tmp_path).start(**change)  # type: ignore[arg-type]


@pytest.mark.real
def test_a_foreign_program_on_a_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ClusterPlan("dev", (taken.getsockname()[1],), "async", 64 << 20).save(tmp_path / "cluster.json")
        with pytest.raises(DevError, match=f"another program uses {address}, the address of node 1"):
            DevCluster(tmp_path).start()


@pytest.mark.real
@pytest.mark.parametrize("name", ["security", "node-1", "node-3"])
def test_a_directory_of_the_user_is_never_adopted(tmp_path: Path, name: str) -> None:
    """`purge` would remove the directory together with the cluster."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").write_text("mine")
    cluster = DevCluster(tmp_path)
    with pytest.raises(DevError, match=f"{name} exists already and does not belong to a local cluster: move it away"):
        cluster.start(3)
    assert not cluster.purge()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "mine").read_text() == "mine"


def test_a_directory_of_the_user_never_becomes_an_added_node(tmp_path: Path) -> None:
    PLAN.save(tmp_path / "cluster.json")
    (tmp_path / "node-4").mkdir()
    (tmp_path / "node-4" / "mine").write_text("mine")
    cluster = DevCluster(tmp_path)
    with pytest.raises(DevError, match="node-4 exists already"):
        cluster.start_joining_node()
    assert cluster.purge()
    assert [path.name for path in tmp_path.iterdir()] == ["node-4"]


@pytest.mark.parametrize("text", ["📦", "é", "a\x7fb", 'a "b" \\ c', "line\nbreak\t\x1b"])
def test_any_text_is_written_as_toml(text: str) -> None:
    assert tomllib.loads(f"text = {toml_text(text)}") == {"text": text}


@pytest.mark.parametrize("value", [True, 7, [1, 2]])
def test_other_values_are_written_as_toml(value: object) -> None:
    assert tomllib.loads(f"value = {toml_text(value)}") == {"value": value}


def test_text_that_no_toml_file_can_contain_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="choose another name"):
        toml_text(os.fsdecode(b"caf\xe9"))


def test_a_cluster_below_a_path_with_an_emoji_has_settings_that_can_be_read(tmp_path: Path) -> None:
    directory = tmp_path / "📦"
    credentials = ClusterCredentials(directory)
    settings = tmp_path / "node.toml"
    settings.write_text(PLAN.node_toml(2, directory, credentials.node_settings(PLAN, 2)))
    assert NodeSettings.load(settings).data == directory
    credentials.write_profile(PLAN.address(1))
    assert read_profiles(credentials.profiles)["profiles"]["dev"]["ca"] == str(directory / "ca.pem")
