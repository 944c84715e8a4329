"""Tests `ledgermq debug bundle`: what is in the file, and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledgermq import Admin, Producer

pytestmark = pytest.mark.real
MESSAGE = b"a message that stays at home"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("bundle") / "cluster")
    cluster.start(3, secure=True)
    with Admin(cluster.bootstrap, **cluster.client_options) as admin:
        admin.create_topic("orders")
        admin.add_user("reader", "the password of reader")
        admin.grant("reader", "describe", "cluster")
        admin.add_user("nobody", "the password of nobody")
    with Producer(cluster.bootstrap, **cluster.client_options) as producer:
        producer.send("orders", MESSAGE)
    yield cluster
    cluster.purge()


def bundled(cluster: DevCluster, out: Path, **environment: str) -> tuple[int, str, dict[str, str]]:
    """Write a bundle. Return the exit status, what the command said, and the files."""
    profiles = str(cluster.directory / "security" / "profiles.toml")
    done = subprocess.run(
        [sys.executable, "-m", "ledgermq", "debug", "bundle", "--out", out],
        env={**os.environ, "LEDGERMQ_PROFILE_FILE": profiles, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if not out.exists():
        return done.returncode, done.stderr, {}
    with zipfile.ZipFile(out) as archive:
        return done.returncode, done.stderr, {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_bundle_has_what_a_helper_needs_and_no_secret(cluster: DevCluster, tmp_path: Path) -> None:
    status, said, files = bundled(cluster, tmp_path / "bundle.zip")
    assert (status, "No answer" in said) == (0, False)
    assert (tmp_path / "bundle.zip").stat().st_mode & 0o077 == 0
    assert "none" in files["README.txt"]
    assert [topic["name"] for topic in json.loads(files["cluster.json"])["topics"]] == ["orders"]
    for node in (1, 2, 3):
        settings = json.loads(files[f"node-{node}/settings.json"])
        assert (settings["node"], settings["cluster"]) == (node, "dev")
        assert "in term" in files[f"node-{node}/log.txt"]
        assert "ledgermq_raft_term" in files[f"node-{node}/metrics.txt"]
        assert any(event["kind"] == "role" for event in json.loads(files[f"node-{node}/events.json"])["events"])
        entries = json.loads(files[f"node-{node}/shard-0.json"])["entries"]
        assert {"index", "chain"} <= entries[0].keys()
    assert any("AddUser" in files[f"node-{node}/audit.txt"] for node in (1, 2, 3))
    everything = "".join(files.values())
    for secret in (cluster.credentials.password.read_text().strip(), "the password of reader", MESSAGE.decode()):
        assert secret not in everything


def test_a_user_with_fewer_rights_gets_a_smaller_bundle_that_says_so(cluster: DevCluster, tmp_path: Path) -> None:
    status, said, files = bundled(
        cluster, tmp_path / "bundle.zip", LEDGERMQ_USER="reader", LEDGERMQ_PASSWORD="the password of reader"
    )
    assert status == 1
    assert "No answer: settings and log of node 1: User reader has no right to administer" in said
    assert "settings and log of node 1" in files["README.txt"]
    assert "node-1/settings.json" not in files
    assert "node-1/events.json" in files


def test_a_user_without_any_right_gets_a_bundle_that_says_what_it_lacks(cluster: DevCluster, tmp_path: Path) -> None:
    status, said, files = bundled(
        cluster, tmp_path / "bundle.zip", LEDGERMQ_USER="nobody", LEDGERMQ_PASSWORD="the password of nobody"
    )
    assert status == 1
    assert "No answer: nodes: User nobody has no right to describe" in said
    assert "nodes: User nobody" in files["README.txt"]


def test_a_file_that_exists_stays(cluster: DevCluster, tmp_path: Path) -> None:
    out = tmp_path / "bundle.zip"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mine", "kept")
    status, said, files = bundled(cluster, out)
    assert (status, files) == (1, {"mine": "kept"})
    assert "exists already" in said
