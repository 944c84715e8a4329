"""The commands for users, rights, certificates and profiles, against a secured local cluster."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from tests.cluster.cli.command import run

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[DevCluster]:
    made = DevCluster(directory / "ledgermq-data")
    try:
        run("dev", "start", "--secure", cwd=directory)
        yield made
    finally:
        made.purge()


def test_the_local_cluster_is_used_with_its_first_administrator(cluster: DevCluster, directory: Path) -> None:
    run("topic", "create", "hello", cwd=directory)
    run("produce", "hello", input=b"hi\n", cwd=directory)
    assert run("consume", "hello", "--from", "earliest", "--count", "1", cwd=directory).stdout == b"hi\n"
    assert b"admin" in run("user", "list", cwd=directory).stdout


def test_without_the_profile_a_client_is_refused(cluster: DevCluster, directory: Path, tmp_path: Path) -> None:
    ca = str(cluster.credentials.directory / "ca.pem")
    refused = run("topic", "list", "--bootstrap", cluster.bootstrap, "--ca", ca, cwd=tmp_path, status=1)
    assert b"does not know who this client is" in refused.stderr
    refused = run("topic", "list", "--bootstrap", cluster.bootstrap, cwd=tmp_path, status=1)
    assert refused.stderr.startswith(b"Error: None of the nodes answers")


def test_users_rights_and_their_refusals(cluster: DevCluster, directory: Path, tmp_path: Path) -> None:
    run("topic", "create", "orders", cwd=directory)
    run("user", "add", "alice", "--new-password-file", "-", input=b"alice password\n", cwd=directory)
    run("acl", "grant", "alice", "publish", "topic:orders", cwd=directory)
    (tmp_path / "password").write_text("alice password")
    alice = (
        "--bootstrap", cluster.bootstrap, "--ca", str(cluster.credentials.directory / "ca.pem"),
        "--user", "alice", "--password-file", str(tmp_path / "password"),
    )  # fmt: skip
    run("produce", "orders", *alice, input=b"one\n", cwd=tmp_path)
    refused = run("user", "list", *alice, cwd=tmp_path, status=1)
    assert b"User alice has no right to administer cluster" in refused.stderr
    tested = json.loads(
        run("acl", "test", "alice", "publish", "topic:orders", "--format", "json", cwd=directory).stdout
    )
    assert tested["allowed"]
    assert tested["rule"]["resource"] == "topic:orders"
    assert (
        b"because no rule matches"
        in run("acl", "test", "alice", "delete", "topic:orders", cwd=directory, status=1).stderr
    )
    run("acl", "revoke", "alice", "publish", "topic:orders", cwd=directory)
    assert (
        b"There is no rule" in run("acl", "revoke", "alice", "publish", "topic:orders", cwd=directory, status=1).stderr
    )
    run("user", "rotate", "alice", "--new-password-file", "-", input=b"another password\n", cwd=directory)
    assert b"the user or the password is wrong" in run("topic", "list", *alice, cwd=tmp_path, status=1).stderr
    run("user", "remove", "alice", "--yes", cwd=directory)


def test_a_delegated_token_has_the_rights_that_are_named(cluster: DevCluster, directory: Path, tmp_path: Path) -> None:
    run("topic", "create", "delegated", cwd=directory)
    made = run("user", "token", "--right", "publish", "topic:delegated", "--hours", "1", cwd=directory)
    environment = {"LEDGERMQ_TOKEN": made.stdout.decode().strip()}
    here = ("--bootstrap", cluster.bootstrap, "--ca", str(cluster.credentials.directory / "ca.pem"))
    run("produce", "delegated", *here, input=b"one\n", cwd=tmp_path, environment=environment)
    refused = run("topic", "delete", "delegated", "--yes", *here, cwd=tmp_path, environment=environment, status=1)
    assert b"has no right to delete topic:delegated" in refused.stderr


def test_a_rocketmq_secret_is_printed_once(cluster: DevCluster, directory: Path) -> None:
    run("user", "add", "rocket", "--new-password-file", "-", input=b"rocket password\n", cwd=directory)
    told = run("user", "rocketmq-secret", "rocket", cwd=directory).stdout.decode().split()
    assert told[:3] == ["access", "key:", "rocket"]
    listed = run("user", "list", cwd=directory).stdout.decode()
    assert "password, RocketMQ secret" in listed
    assert told[-1] not in listed
    for log in (directory / "ledgermq-data").rglob("*"):
        assert not log.is_file() or told[-1].encode() not in log.read_bytes(), log
    run("user", "rocketmq-secret", "rocket", "--remove", cwd=directory)
    assert "RocketMQ secret" not in run("user", "list", cwd=directory).stdout.decode()


def test_a_password_is_never_an_argument() -> None:
    assert b"--password " not in run("topic", "list", "--help").stdout
    refused = run("user", "add", "bob", "--bootstrap", "127.0.0.1:1", status=1)
    assert b"the new password is missing: give --new-password-file" in refused.stderr


def test_certificates_are_made_and_never_replaced_by_accident(tmp_path: Path) -> None:
    run("certs", "init", "--cluster", "prod", cwd=tmp_path)
    told = run("certs", "issue", "node", "1", "--cluster", "prod", cwd=tmp_path).stdout
    assert set(tomllib.loads(told.decode())) == {"tls_certificate", "tls_key", "tls_ca"}
    run("certs", "issue", "user", "alice", "--cluster", "prod", cwd=tmp_path)
    run("certs", "issue", "nameserver", "--cluster", "prod", cwd=tmp_path)
    for key in ("ca.key", "node-1.key", "user-alice.key", "nameserver.key"):
        assert stat.S_IMODE(os.stat(tmp_path / "certs" / key).st_mode) == 0o600
    assert b"exists: give another directory, or --force" in run("certs", "init", cwd=tmp_path, status=1).stderr
    run("certs", "issue", "node", "1", "--cluster", "prod", "--force", cwd=tmp_path)
    assert b"node-1.pem" in run("certs", "show", cwd=tmp_path).stdout


def test_settings_are_toml_for_each_name_of_a_directory(tmp_path: Path) -> None:
    strange = tmp_path / 'a "b" \\c'
    strange.mkdir()
    run("certs", "init", "--directory", str(strange))
    told = run("certs", "issue", "node", "1", "--directory", str(strange)).stdout
    assert tomllib.loads(told.decode())["tls_key"] == str(strange / "node-1.key")
    told = run("cluster", "init", cwd=strange).stdout
    assert tomllib.loads(told.decode())["cluster_secret_file"] == str(strange / "cluster.secret")


def test_files_that_no_settings_file_can_name_are_not_made(tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"caf\xe9")
    strange.mkdir()
    assert b"choose another name" in run("cluster", "init", cwd=strange, status=1).stderr
    assert list(strange.iterdir()) == []


def test_a_cluster_secret_is_made_once(tmp_path: Path) -> None:
    run("cluster", "init", cwd=tmp_path)
    for name in ("cluster.secret", "cluster.secrets-key"):
        assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600
    assert b"an existing file is never replaced" in run("cluster", "init", cwd=tmp_path, status=1).stderr


NO_ROOM = ("sh", "-c", 'ulimit -f 0; exec "$0" "$@"')


@pytest.mark.parametrize("command", [("cluster", "init"), ("backup", "new-key", "cluster.secret")])
def test_a_secret_that_cannot_be_written_leaves_no_empty_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A node would not start with an empty file, and the command would not replace it."""
    program = [*NO_ROOM, sys.executable, "-m", "ledgermq", *command]
    told = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (1, "Error: cluster.secret cannot be written: File too large\n")
    assert list(tmp_path.iterdir()) == []
    run(*command, cwd=tmp_path)


def test_the_first_secret_is_not_kept_without_the_second(tmp_path: Path) -> None:
    (tmp_path / "cluster.secrets-key").touch()
    run("cluster", "init", cwd=tmp_path, status=1)
    assert not (tmp_path / "cluster.secret").exists()


def test_profiles(cluster: DevCluster, tmp_path: Path) -> None:
    environment = {"LEDGERMQ_PROFILE_FILE": str(tmp_path / "profiles.toml")}
    password = str(cluster.credentials.password)
    ca = str(cluster.credentials.directory / "ca.pem")
    run(
        "profile", "add", "local", "--servers", cluster.bootstrap, "--ca", ca, "--user", "admin",
        "--password-file", password, environment=environment,
    )  # fmt: skip
    assert stat.S_IMODE(os.stat(tmp_path / "profiles.toml").st_mode) == 0o600
    assert b"as admin" in run("profile", "test", environment=environment).stderr
    run("topic", "list", cwd=tmp_path, environment=environment)
    assert b"local" in run("profile", "list", environment=environment).stdout
    run("profile", "remove", "local", environment=environment)
    assert b"There is no profile 'local'" in run("profile", "show", "local", environment=environment, status=1).stderr


def test_a_profile_may_have_any_name(tmp_path: Path) -> None:
    environment = {"LEDGERMQ_PROFILE_FILE": str(tmp_path / "profiles.toml")}
    for name in ("🚀", "a\x7fb", 'a "b"'):
        run("profile", "add", name, "--servers", "127.0.0.1:1", "--ca", "📦.pem", environment=environment)
        run("profile", "use", name, environment=environment)
        assert b"127.0.0.1:1" in run("profile", "show", name, environment=environment).stdout


def test_running_nodes_are_validated_over_https_by_who_may_read_the_log(cluster: DevCluster, directory: Path) -> None:
    run("topic", "create", "judged", cwd=directory)
    run("produce", "judged", input=b"one\n", cwd=directory)
    sources = [f"https://{state.http}" for state in cluster.status()]
    profile = {"LEDGERMQ_PROFILE_FILE": str(cluster.credentials.profiles)}
    assert b"VALID" in run("validate", *sources, environment=profile).stdout
    ca = str(cluster.credentials.directory / "ca.pem")
    refused = run("validate", "--ca", ca, *sources, status=2)
    assert b"401" in refused.stdout + refused.stderr


def test_an_operator_of_the_machine_needs_no_user(cluster: DevCluster, tmp_path: Path) -> None:
    data = str(cluster.directory / "node-2" / "data")
    table = run("cluster", "info", "--local", data, cwd=tmp_path)
    assert b"local.sock" in table.stdout
    assert b"shows its own node" in table.stderr
    healthy = json.loads(run("cluster", "health", "--local", data, "--format", "json", cwd=tmp_path).stdout)
    assert healthy["sentence"].startswith("healthy, as node 2 sees it: node ")
    assert (
        b"node 2 is not suspect"
        in run("cluster", "recover", "--node", "2", "--local", data, cwd=tmp_path, status=1).stderr
    )
    wrong = run("cluster", "info", "--local", str(tmp_path), cwd=tmp_path, status=2)
    assert b"has no local.sock" in wrong.stderr


def test_many_handshakes_at_the_same_time_end_no_node(cluster: DevCluster) -> None:
    """gRPC crashed when it got the same certificate anew at each handshake."""
    node = cluster.node(1)
    host, _, port = node.address.rpartition(":")
    context = ssl.create_default_context(cafile=str(cluster.credentials.directory / "ca.pem"))
    context.set_alpn_protocols(["h2"])
    before = node.pid

    def shake(_: int) -> bool:
        try:
            with socket.create_connection((host, int(port)), 10) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(16) as strangers:
        assert sum(strangers.map(shake, range(4_000))) > 3_000
    assert node.pid == before is not None


def test_a_stranger_without_tls_fills_no_log(cluster: DevCluster) -> None:
    node = cluster.node(1)
    host, _, port = node.address.rpartition(":")
    before = node.log.stat().st_size
    for _ in range(20):
        with socket.create_connection((host, int(port)), 5) as stranger:
            stranger.sendall(b"neither TLS nor HTTP " * 50)
            stranger.settimeout(5)
            with contextlib.suppress(OSError):
                stranger.recv(100)  # the node closes the connection
    assert node.log.stat().st_size - before < 1_000
