"""Tests the nodes of a chaos run in containers: every action has its effect, and the run removes all containers,
networks and disks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from chaos.errors import ChaosError
from chaos.live.hosts.container_engine import DIRECTORY_LABEL, RUN_LABEL
from chaos.live.hosts.containers import ContainerEnvironment
from chaos.live.hosts.environment import EnvironmentSetup
from chaos.live.hosts.link_rules import LinkLoss, NodeLink
from chaos.live.operator import ClusterOperator
from chaos.live.options import ChaosOptions
from chaos.live.run import run
from cluster.local.engine import connect

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and network namespaces need root")
SEGMENT_BYTES = 16 << 20


def setup(directory: Path, nodes: int = 1) -> EnvironmentSetup:
    return EnvironmentSetup(directory, nodes, settings={"segment_bytes": SEGMENT_BYTES}, disks=True, clocks=True)


@pytest.fixture
def environment(node_image: str, tmp_path: Path) -> Iterator[ContainerEnvironment]:
    environment = ContainerEnvironment(setup(tmp_path), node_image)
    try:
        environment.up()
        yield environment
    finally:
        environment.down()


def left() -> list[str]:
    """Return the names of the containers and networks of chaos runs that the engine still has."""
    engine, made = connect(), {"label": RUN_LABEL}
    names = [container.name for container in engine.containers.list(all=True, filters=made)]
    names += [network.name for network in engine.networks.list(filters=made)]
    engine.close()
    return [name for name in names if f"-{os.getpid()}" in name]


def mounted(directory: Path) -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if str(directory) in line]


def test_a_node_is_killed_paused_and_forgets_and_nothing_of_it_stays(
    environment: ContainerEnvironment, tmp_path: Path
) -> None:
    operator = ClusterOperator(environment)
    operator.ready(60)
    pid = environment.pid(1)
    assert pid is not None
    assert b"/opt/ledgermq/bin/ledgermq" in Path(f"/proc/{pid}/cmdline").read_bytes(), "the node's, not its init's"
    assert environment.pause(1) == "node 1 is paused"
    assert environment.resume(1) == "node 1 is running again"

    environment.set_clock(1, 3600.0)
    deadline = time.monotonic() + 20
    while (operator.wall_clock_ms(1) or 0) / 1000 - time.time() < 3_500:  # it looks at its clock's file once a second
        assert time.monotonic() < deadline
    environment.set_clock(1, 0)
    assert "exit status 137" in environment.kill(1)
    assert (environment.pid(1), Path(f"/proc/{pid}").exists()) == (None, False)
    environment.start(1)
    operator.ready(60)
    (environment.data(1) / "never-synced").write_text("gone")
    assert "unsynced data is lost: 1 of" in environment.cut_power(1)
    assert not (environment.data(1) / "never-synced").exists()
    environment.start(1)
    operator.ready(60)
    assert "exit status 0" in environment.stop(1)
    operator.close()

    assert left()
    assert mounted(tmp_path)
    environment.down()
    environment.down()
    assert left() == mounted(tmp_path) == []
    assert "leader in term" in environment.log(1).read_text()


def test_rules_are_there_again_after_a_restart(environment: ContainerEnvironment) -> None:
    environment.links.set([LinkLoss(NodeLink(2, 1), 1.0)])
    environment.kill(1)
    environment.start(1)
    namespace = Path(f"/proc/{environment.pid(1)}/ns/net")
    listed = subprocess.run(["nsenter", f"--net={namespace}", "iptables", "-S"], capture_output=True, text=True)
    assert f"-s {environment.address(2).partition(':')[0]}/32 -j DROP" in listed.stdout


def test_what_a_run_that_was_killed_left_goes_with_the_next_one(node_image: str, tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from chaos.live.hosts.containers import ContainerEnvironment\n"
        "from chaos.live.hosts.environment import EnvironmentSetup\n"
        f"ContainerEnvironment(EnvironmentSetup(Path(sys.argv[1]), 1, disks=True), {node_image!r}).up()\n"
        "os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "killed")], timeout=90)
    assert killed.returncode == -9
    assert mounted(tmp_path / "killed")
    environment = ContainerEnvironment(setup(tmp_path / "next"), node_image)
    try:
        environment.up()
        assert mounted(tmp_path / "killed") == []
        engine = connect()
        killed_runs = {"label": f"{DIRECTORY_LABEL}={tmp_path / 'killed'}"}
        assert engine.containers.list(all=True, filters=killed_runs) == []
        assert engine.networks.list(filters=killed_runs) == []
        engine.close()
    finally:
        environment.down()


def test_an_image_that_is_not_there_is_named_and_nothing_is_made(node_image: str, tmp_path: Path) -> None:
    environment = ContainerEnvironment(setup(tmp_path), "ledgermq:never-built")
    with pytest.raises(
        ChaosError, match="the Docker engine has no image ledgermq:never-built: build it with `make image`"
    ):
        environment.up()
    environment.down()
    assert left() == []


class Listener:
    """Records the progress reports of a run."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def say(self, sentence: str) -> None:
        self.heard.append(sentence)

    def passed(self, seconds: float) -> None:
        pass


@pytest.mark.timeout(400)  # beside other runs in containers, the clients need minutes to read everything back
def test_a_secured_run_in_containers_is_valid(node_image: str, tmp_path: Path) -> None:
    options = ChaosOptions(
        "docker", 3, ("kill",), ("leader",), 20.0, 100.0, seed=6, flush="async", shards=1, secure=True
    )
    listener = Listener()
    result = run(options, tmp_path / "run", partial(ContainerEnvironment, image=node_image), listener)
    assert result.verdict.valid, (result.verdict, listener.heard)
    assert result.struck
    assert all("exit status 137" in struck.evidence[0] for struck in result.struck)
    assert left() == mounted(tmp_path) == []
