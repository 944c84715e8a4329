"""docker-compose.yml: its content, and the three containers that it creates."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.models.containers import Container

from cluster.local.containers import CLUSTER_LABEL
from cluster.local.engine import connect
from cluster.node.settings import NodeSettings
from ledgermq import Admin
from tests.cluster.ports import free_base_port

ROOT = Path(__file__).resolve().parents[3]
OPERATING = (ROOT / "docs" / "OPERATING.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
NAME = f"ledgermq-test-{os.getpid()}"


def test_every_variable_of_a_node_is_a_setting() -> None:
    block = COMPOSE.partition("x-environment:")[2].partition("services:")[0]
    named = re.findall(r"^  LEDGERMQ_(\w+):", block, re.MULTILINE)
    assert {"DATA", "PEERS", "OUTSIDE"} < set(named)
    assert {name.lower() for name in named} <= NodeSettings.model_fields.keys()


def test_the_example_names_every_variable_with_its_default() -> None:
    taken = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", COMPOSE))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert dict(re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE)) == taken


def test_the_defaults_of_settings_are_those_of_the_settings() -> None:
    for name, default in re.findall(r"^  LEDGERMQ_(\w+): \$\{LEDGERMQ_\1:-([^}]*)\}", COMPOSE, re.MULTILINE):
        meant = NodeSettings.model_fields[name.lower()].default
        told = default == "true" if isinstance(meant, bool) else type(meant)(default)
        assert name == "CLUSTER" or told == meant, name


def test_the_project_has_one_name_whatever_the_directory_is_called() -> None:
    script = (ROOT / "scripts" / "compose").read_text(encoding="utf-8")
    assert re.findall(r"^name: (.*)$", COMPOSE, re.MULTILINE) == ["ledgermq"]
    assert "project=${COMPOSE_PROJECT_NAME:-ledgermq}" in script


def servers(directory: Path) -> str:
    profiles = tomllib.loads((directory / "profiles.toml").read_text())["profiles"]
    return str(profiles[NAME]["servers"])


def compose(*arguments: str) -> str:
    done = subprocess.run([ROOT / "scripts/compose", *arguments], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def running(node_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three containers. Return the directory of what clients on this machine need."""
    base = free_base_port(3)
    ports = {f"LEDGERMQ_PORT_{node}": base + 2 * node - 2 for node in (1, 2, 3)}
    http = {f"LEDGERMQ_HTTP_PORT_{node}": base + 2 * node - 1 for node in (1, 2, 3)}
    off = dict.fromkeys((f"LEDGERMQ_DISK_{what}_RATIO" for what in ("CLEAN", "FORCE", "REFUSE")), 0)
    bin = Path(sys.executable).parent
    profiles = tmp_path / "clients" / "profiles.toml"
    monkeypatch.setenv("LEDGERMQ_PROFILE_FILE", str(profiles))
    settings = {"COMPOSE_PROJECT_NAME": NAME, "LEDGERMQ_CLUSTER": NAME, "BIN": bin, "LEDGERMQ_IMAGE": node_image}
    for name, value in {**settings, **ports, **http, **off, "LEDGERMQ_SEGMENT_BYTES": 16 << 20}.items():
        monkeypatch.setenv(name, str(value))
    try:
        compose("up")
        yield profiles.parent
    finally:
        compose("down", "--volumes")
    assert not (profiles.parent / f"docker-{NAME}").exists(), "the secrets go with the volumes"


def assert_secrets_are_nowhere(containers: list[Container], directory: Path) -> None:
    """A secret is in files that only their owner can read."""
    secret = (directory / f"docker-{NAME}" / "admin.password").read_text().strip()
    assert len(secret) > 20
    for path in directory.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    for container in containers:
        assert secret not in json.dumps(container.attrs)
        assert secret.encode() not in container.logs()
        seen = container.exec_run(
            ["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; ls -l /etc/ledgermq"]
        ).output
        assert secret.encode() not in seen
        assert seen.count(b"\n-rw------- ") == 5, "four keys and a password"
        assert container.exec_run(["touch", "/etc/ledgermq/anything"]).exit_code != 0


def health(node: int) -> str:
    """Return what the health check of a node's container says."""
    engine = connect()
    (container,) = engine.containers.list(
        filters={"label": [f"{CLUSTER_LABEL}={NAME}", f"ledgermq.node={node}"]}, all=True
    )
    found = str(container.attrs["State"]["Health"]["Status"])
    engine.close()
    return found


def bring_back_a_lost_volume(directory: Path) -> None:
    """Lose the volume of node 2, and follow the three commands of docs/OPERATING.md. Healthy means ready meanwhile."""
    (runbook,) = re.findall(r"^### A lost volume\n.*?^```sh\n(.*?)^```", OPERATING, re.DOTALL | re.MULTILINE)
    commands = runbook.replace("docker compose ", f"{ROOT}/scripts/compose with ").splitlines()
    assert len(commands) == 3
    compose("with", "rm", "-s", "-f", "node-2")
    engine = connect()
    engine.volumes.get(f"{NAME}_node-2").remove()
    engine.close()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "LEDGERMQ_PROFILE": NAME}
    for number, command in enumerate(commands):
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if number == 1:
            assert health(2) != "healthy", "it runs, and waits to be added"
    deadline = time.monotonic() + 60
    while health(2) != "healthy":
        assert time.monotonic() < deadline, health(2)
        time.sleep(0.5)
    with Admin(servers(directory), profile=NAME) as admin:
        member = admin.members().get(2)
    assert member is not None
    assert member.voter


@pytest.mark.timeout(300)
def test_three_containers_lose_nothing_when_the_leaders_is_killed(running: Path, tmp_path: Path) -> None:
    with Admin(servers(running), profile=NAME) as admin:
        assert [each.name for each in admin.list_users()] == ["admin"]
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "of text").write_bytes(b"".join(b"line %d\n" % number for number in range(20_000)))
    engine = connect()
    containers = engine.containers.list(filters={"label": f"{CLUSTER_LABEL}={NAME}"})
    assert len(containers) == 3
    assert_secrets_are_nowhere(containers, running)
    for container in containers:
        assert container.exec_run(["id", "-u"]).output == b"10001\n"
        assert container.exec_run(["touch", "/anywhere"]).exit_code != 0, "the root file system is read-only"
        assert container.exec_run(["python3", "-I", "-S", "/opt/ledgermq/alive.py"]).exit_code == 0

    outcome = json.loads(compose("demo", "--input", str(tmp_path / "lines"), "--format", "json"))
    assert (outcome["holds"], outcome["messages"], outcome["nodes_read"]) == (True, 20_000, 3)
    assert outcome["leader_after"] != outcome["leader_before"]

    bring_back_a_lost_volume(running)
    containers = engine.containers.list(filters={"label": f"{CLUSTER_LABEL}={NAME}"})
    assert len(containers) == 3

    for container in containers:
        container.stop(timeout=30)
        assert engine.api.inspect_container(container.id)["State"]["ExitCode"] == 0, "SIGTERM ends it in order"
    engine.close()
