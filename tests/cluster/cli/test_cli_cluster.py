"""Tests the command line as a person uses it: as processes, against a real local cluster whose leader is killed
meanwhile.

All tests share the cluster. Each test has its own topic, and leaves all nodes running.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from tests.cluster.cli.command import TIMEOUT_S, run, start
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

MISSING_PORT = "127.0.0.1:1"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[DevCluster]:
    """A cluster that the command line started as ./ledgermq-data in `directory`."""
    made = DevCluster(directory / "ledgermq-data")
    try:
        # Not the first choice: another cluster on this machine might take it while ours is stopped for a moment.
        run("dev", "start", "-n", "3", "--base-port", str(random.randrange(20_000, 32_000, 10)), cwd=directory)
        yield made
    finally:
        made.purge()


@pytest.fixture
def topic(cluster: DevCluster, directory: Path, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")[:100]
    run("topic", "create", name, cwd=directory)
    return str(name)


def consume(directory: Path, topic: str, *options: str) -> bytes:
    return run("consume", topic, *options, cwd=directory).stdout


def as_objects(lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def nodes_of(directory: Path) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = json.loads(run("dev", "status", "--format", "json", cwd=directory).stdout)["nodes"]
    return nodes


def test_dev_status_as_json(cluster: DevCluster, directory: Path) -> None:
    nodes = nodes_of(directory)
    assert [node["id"] for node in nodes] == [1, 2, 3]
    assert sorted(node["role"] for node in nodes) == ["follower", "follower", "leader"]
    for node in nodes:
        os.kill(node["pid"], 0)
        assert node["address"] in cluster.bootstrap
        assert Path(node["data"]).is_dir()


def test_starting_twice_is_harmless(cluster: DevCluster, directory: Path) -> None:
    before = nodes_of(directory)
    started = run("dev", "start", "-n", "3", cwd=directory)
    assert b"ledgermq topic create" in started.stderr, "it says what to try next"
    assert [node["pid"] for node in nodes_of(directory)] == [node["pid"] for node in before]


def test_starting_after_a_stop_goes_on_with_the_same_data(cluster: DevCluster, directory: Path, topic: str) -> None:
    run("produce", topic, cwd=directory, input=b"before\n")
    addresses = [node["address"] for node in nodes_of(directory)]
    run("dev", "stop", cwd=directory)
    assert [(node["role"], node["pid"]) for node in nodes_of(directory)] == [("stopped", None)] * 3
    refused = run("topic", "list", cwd=directory, status=2)
    assert b"does not run: start it with `ledgermq dev start`" in refused.stderr
    run("dev", "start", cwd=directory)
    assert [node["address"] for node in nodes_of(directory)] == addresses
    assert consume(directory, topic) == b"before\n"


def test_a_port_in_use(cluster: DevCluster, directory: Path) -> None:
    port = cluster.node(1).address.rpartition(":")[2]
    refused = run("dev", "start", "--data", "other", "--base-port", port, cwd=directory, status=1)
    assert b"in use" in refused.stderr


def test_topics(cluster: DevCluster, directory: Path, topic: str) -> None:
    listed = json.loads(run("topic", "list", "--format", "json", cwd=directory).stdout)
    assert topic in [one["name"] for one in listed["topics"]]
    assert topic.encode() in run("topic", "list", cwd=directory).stdout
    run("produce", topic, "--queue", "2", cwd=directory, input=b"1\n2\n3\n")
    described = json.loads(run("topic", "describe", topic, "--format", "json", cwd=directory).stdout)
    assert described["queues"] == 4
    assert [one["end_offset"] for one in described["offsets"]] == [0, 0, 3, 0]
    assert run("topic", "describe", topic, cwd=directory).stdout.splitlines()[3].split() == [
        b"2",
        b"0",
        b"0",
        b"3",
        b"3",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topic", "create", "bad name"], "bad name"),
        (["topic", "create", ".."], ".."),
        (["topic", "create", "x" * 128], "x" * 128),
        (["topic", "describe", "unknown"], "unknown"),
        (["produce", "unknown"], "unknown"),
        (["consume", "unknown"], "unknown"),
        (["topic", "offsets", "unknown", "--time", "0"], "unknown"),
        (["message", "query", "--topic", "unknown", "--key", "k"], "unknown"),
        (["message", "get", "unknown:0:0"], "unknown"),
    ],
    ids=lambda value: "-".join(value)[:30] if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_sentence(
    cluster: DevCluster, directory: Path, arguments: list[str], said: str
) -> None:
    refused = run(*arguments, cwd=directory, status=1)
    assert refused.stdout == b""
    (sentence,) = refused.stderr.decode().splitlines()
    assert sentence.startswith("Error: ")
    assert said in sentence


def test_a_topic_that_exists(cluster: DevCluster, directory: Path, topic: str) -> None:
    assert b"exists already" in run("topic", "create", topic, cwd=directory, status=1).stderr


def test_lines_come_back_byte_for_byte_and_in_order(cluster: DevCluster, directory: Path, topic: str) -> None:
    lines = [b"", b"plain", b"\xff\xfe\x00", b"crlf\r", b"x" * 1_000_000] + [b"%d" % n for n in range(20_000)]
    data = b"\n".join(lines) + b"\n"
    produced = run("produce", topic, "--key", "one queue", "--separator", r"\n", cwd=directory, input=data)
    assert f"{len(lines):,} messages acknowledged".encode() in produced.stderr
    assert produced.stdout == b""
    assert consume(directory, topic) == data


def test_a_file_and_other_separators(cluster: DevCluster, directory: Path, topic: str) -> None:
    (directory / "file").write_bytes(b"k1=a\0k2=b\0k1=c")
    run("produce", topic, "file", "--separator", r"\0", "--key-separator", "=", "--tag", "T", cwd=directory)
    found = as_objects(consume(directory, topic, "--format", "json"))
    assert sorted((one["key"], one["value"], one["tag"]) for one in found) == [
        ("k1", "a", "T"),
        ("k1", "c", "T"),
        ("k2", "b", "T"),
    ]
    assert len({one["queue"] for one in found if one["key"] == "k1"}) == 1
    text = consume(directory, topic, "--key-separator", "->", "--separator", ";")
    assert sorted(text.split(b";")) == [b"", b"k1->a", b"k1->c", b"k2->b"]


def test_binary_messages_in_json(cluster: DevCluster, directory: Path, topic: str) -> None:
    run("produce", topic, cwd=directory, input=b"\xff\n\xc3\xa9\n")
    first, second = as_objects(consume(directory, topic, "--format", "json"))
    assert first["value_base64"] == "/w=="
    assert "value" not in first
    assert second["value"] == "é"


def test_tags_queues_counts_and_offsets(cluster: DevCluster, directory: Path, topic: str) -> None:
    run("produce", topic, "--queue", "1", "--tag", "a", cwd=directory, input=b"1\n2\n")
    run("produce", topic, "--queue", "1", "--tag", "b", cwd=directory, input=b"3\n4\n")
    run("produce", topic, "--queue", "3", cwd=directory, input=b"5\n")
    assert consume(directory, topic, "--tag", "b") == b"3\n4\n"
    assert consume(directory, topic, "--tag", "a", "--tag", "b") == b"1\n2\n3\n4\n"
    assert consume(directory, topic, "--tag", "c") == b""
    assert consume(directory, topic, "--queue", "3") == b"5\n"
    assert consume(directory, topic, "--queue", "1", "--count", "3") == b"1\n2\n3\n"
    assert consume(directory, topic, "--count", "0") == b""
    assert consume(directory, topic, "--queue", "1", "--from", "2") == b"3\n4\n"
    assert consume(directory, topic, "--queue", "1", "--from", "4") == b""
    beyond = run("consume", topic, "--queue", "1", "--from", "5", cwd=directory, status=1)
    assert b"offset 5" in beyond.stderr
    assert b"0 to 4" in beyond.stderr, "the valid range is told"
    assert b"0 to 3" in run("consume", topic, "--queue", "4", cwd=directory, status=1).stderr


def test_messages_by_key_place_and_time(cluster: DevCluster, directory: Path, topic: str) -> None:
    run("produce", topic, "--queue", "1", "--key", "k", cwd=directory, input=b"1\n2\n")
    query = ("message", "query", "--topic", topic, "--key", "k")
    second, first = as_objects(run(*query, "--format", "json", cwd=directory).stdout)
    assert [(one["offset"], one["key"], one["value"]) for one in (first, second)] == [(0, "k", "1"), (1, "k", "2")]
    behind = str(second["append_time_ms"] + 1)
    run("produce", topic, "--queue", "1", "--key", "k", cwd=directory, input=b"3\n")

    table = run(*query, cwd=directory).stdout.decode().splitlines()
    assert [line.split()[0] for line in table] == ["ID", f"{topic}:1:2", f"{topic}:1:1", f"{topic}:1:0"]
    assert run(*query, "--max", "1", cwd=directory).stdout.decode().splitlines()[1:] == table[1:2]
    assert len(as_objects(run(*query, "--from", behind, "--format", "json", cwd=directory).stdout)) == 1
    assert len(as_objects(run(*query, "--to", behind, "--format", "json", cwd=directory).stdout)) == 2
    nothing = run("message", "query", "--topic", topic, "--key", "other", cwd=directory)
    assert (nothing.stdout, b"has the key 'other'" in nothing.stderr) == (b"", True)

    got = run("message", "get", f"{topic}:1:0", cwd=directory)
    assert got.stdout == b"1\n"
    assert b"key k" in got.stderr
    beyond = run("message", "get", f"{topic}:1:3", cwd=directory, status=1)
    assert b"it has the offsets 0 to 2" in beyond.stderr

    offsets = ("topic", "offsets", topic, "--format", "json", "--time")
    there = json.loads(run(*offsets, behind, cwd=directory).stdout)["offsets"]
    assert [one["offset"] for one in there] == [0, 2, 0, 0]
    moment = table[1].split()[1]  # as the table shows it
    assert json.loads(run(*offsets, moment, cwd=directory).stdout)["offsets"][1]["offset"] == 2
    future = run("topic", "offsets", topic, "--time", "2100-01-01", cwd=directory)
    assert b"these are the end offsets" in future.stderr
    assert consume(directory, topic, "--from", moment) == b"3\n"
    assert consume(directory, topic, "--from", "2100-01-01") == b""


def test_lines_over_the_limit_are_named_and_left_out(cluster: DevCluster, directory: Path, topic: str) -> None:
    data = b"first\n" + b"x" * 10_000_000 + b"\nthird\n"
    ended = run("produce", topic, "--key", "k", cwd=directory, input=data, status=1)
    assert b"left out: line 2 of standard input: " in ended.stderr
    assert b"2 messages acknowledged" in ended.stderr
    assert b"1 left out" in ended.stderr
    assert consume(directory, topic) == b"first\nthird\n"


def test_the_account_as_json(cluster: DevCluster, directory: Path, topic: str) -> None:
    lines = ("--format", "json", "--input", "lines")
    account = json.loads(run("produce", topic, *lines, cwd=directory, input=b"12\n3\n").stdout)
    seconds = account.pop("seconds")
    assert account == {"acknowledged": 2, "bytes": 3, "repeated": 0, "left_out": 0, "in_doubt": 0}
    assert seconds > 0


def test_latest_waits_for_what_comes(cluster: DevCluster, directory: Path, topic: str) -> None:
    run("produce", topic, cwd=directory, input=b"old\n")
    reader = start("consume", topic, "--from", "latest", "--count", "1", cwd=directory)
    while reader.poll() is None:  # it may not have begun yet: go on until it has got one
        run("produce", topic, cwd=directory, input=b"new\n")
    out, _ = reader.communicate(timeout=TIMEOUT_S)
    assert out == b"new\n"


def test_each_line_of_a_pipe_goes_out_at_once(cluster: DevCluster, directory: Path, topic: str) -> None:
    reader = start("consume", topic, "--follow", cwd=directory)
    writer = start("produce", topic, cwd=directory, stdin=subprocess.PIPE)
    assert writer.stdin is not None
    assert reader.stdout is not None
    for line in (b"one\n", b"two\n"):
        writer.stdin.write(line)
        writer.stdin.flush()
        assert reader.stdout.readline() == line  # while the writer's input is still open
    reader.send_signal(signal.SIGINT)
    _, err = reader.communicate(timeout=TIMEOUT_S)
    assert reader.returncode == 130
    assert b"2 messages" in err
    writer.send_signal(signal.SIGINT)
    _, err = writer.communicate(timeout=TIMEOUT_S)
    assert writer.returncode == 130
    assert b"2 messages acknowledged" in err
    assert b"Traceback" not in err


def test_a_reader_that_leaves_is_no_error(cluster: DevCluster, directory: Path, topic: str) -> None:
    run("produce", topic, "--key", "k", cwd=directory, input=b"some line\n" * 50_000)
    reader = start("consume", topic, "--follow", cwd=directory)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"some line\n"
    reader.stdout.close()
    assert reader.wait(TIMEOUT_S) == 0
    assert reader.stderr is not None
    assert reader.stderr.read() == b""
    reader.stderr.close()


def test_bootstrap_by_option_and_environment(cluster: DevCluster, directory: Path, topic: str, tmp_path: Path) -> None:
    one_of_them = cluster.node(2).address
    listed = run("topic", "list", "--bootstrap", f"{MISSING_PORT},{one_of_them}", cwd=tmp_path)
    assert topic.encode() in listed.stdout
    listed = run("topic", "list", cwd=tmp_path, environment={"LEDGERMQ_BOOTSTRAP": one_of_them})
    assert topic.encode() in listed.stdout


def test_no_colour_in_a_pipe(cluster: DevCluster, directory: Path) -> None:
    assert b"\x1b" not in run("cluster", "info", cwd=directory).stdout


def test_cluster_info_and_health(cluster: DevCluster, directory: Path) -> None:
    info = json.loads(run("cluster", "info", "--format", "json", cwd=directory).stdout)
    assert sorted(node["role"] for node in info["nodes"]) == ["follower", "follower", "leader"]
    assert len({node["term"] for node in info["nodes"]}) == 1
    table = run("cluster", "health", cwd=directory)
    assert table.stdout.split()[:4] == [b"NODE", b"ADDRESS", b"SHARD", b"ROLE"]
    assert b"healthy: node " in table.stderr


def test_the_log_is_held_trimmed_and_released(cluster: DevCluster, directory: Path, topic: str) -> None:
    def asked(*arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(run("cluster", *arguments, "--format", "json", cwd=directory).stdout)
        return answer

    assert b"There are no holds." in run("cluster", "holds", cwd=directory).stderr
    held = run("cluster", "hold", "spark/job-1", "--ttl", "2h", cwd=directory).stderr
    assert b"The hold spark/job-1 keeps the whole log until 20" in held
    (hold,) = asked("holds")["holds"]
    assert (hold["name"], hold["expires_ms"] - hold["taken_ms"]) == ("spark/job-1", 2 * 3_600_000)
    assert b"NAME" in run("cluster", "holds", cwd=directory).stdout

    told = run("cluster", "trim", "--keep-bytes", "1G", "--dry-run", cwd=directory).stderr
    assert b"Nothing to remove: every whole segment" in told, "all is in the first segment"
    assert b"held by spark/job-1" in told
    cut = asked("trim", "--before", f"{topic}:0:0")
    assert (cut["entries"], cut["held_by"]) == (0, ["spark/job-1"])
    beyond = run("cluster", "trim", "--before", f"{topic}:0:7", cwd=directory, status=1).stderr
    assert b"offset 7 is after the end" in beyond

    assert asked("release", "spark/job-1") == {"name": "spark/job-1", "released": True}
    assert b"There is no hold spark/job-1." in run("cluster", "release", "spark/job-1", cwd=directory).stderr


def test_a_node_that_is_gone_is_shown(cluster: DevCluster, directory: Path) -> None:
    follower = next(state.id for state in cluster.status() if state.role == "follower")
    cluster.kill(follower)
    try:
        assert {node["id"]: node["role"] for node in nodes_of(directory)}[follower] == "stopped"
        health = json.loads(run("cluster", "health", "--format", "json", cwd=directory, status=1).stdout)
        assert health["status"] == "degraded"
        assert {node["node"]: node["role"] for node in health["nodes"]}[follower] == "unreachable"
    finally:
        cluster.restart(follower)


def test_the_leader_is_killed_while_producing(cluster: DevCluster, directory: Path, topic: str) -> None:
    lines = [b"%07d %s" % (number, b"x" * 100) for number in range(400_000)]
    data = b"\n".join(lines) + b"\n"
    writer = start("produce", topic, "--key", "k", cwd=directory, stdin=subprocess.PIPE)
    assert writer.stdin is not None
    killed = cluster.leader()
    writer.stdin.write(data[: len(data) // 2])
    killing = threading.Thread(target=cluster.kill, args=(killed,))
    killing.start()
    _, err = writer.communicate(data[len(data) // 2 :], timeout=TIMEOUT_S)
    killing.join()
    cluster.restart(killed)
    assert writer.returncode == 0, err.decode()
    assert b"400,000 messages acknowledged" in err
    assert consume(directory, topic) == data, "nothing lost, nothing twice, nothing out of order"


def wait_until_all_have_applied(directory: Path) -> None:
    """Wait until every node has applied all committed entries, so every node knows every topic."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        nodes = json.loads(run("cluster", "info", "--format", "json", cwd=directory).stdout)["nodes"]
        if len({(node["applied"], node["last_index"]) for node in nodes} | {(nodes[0]["last_index"],) * 2}) == 1:
            return
    raise AssertionError(f"they do not all apply what is committed: {nodes}")


def test_without_a_majority_nothing_hangs(cluster: DevCluster, directory: Path, topic: str) -> None:
    wait_until_all_have_applied(directory)  # a node that does not know the topic asks a leader, and says that none is
    killed = [1, 2]
    for node in killed:
        cluster.kill(node)
    try:
        ended = run("produce", topic, "--timeout", "1", cwd=directory, input=b"x\n", status=1)
        assert b"0 messages acknowledged" in ended.stderr
        assert b"Error: " in ended.stderr
        assert b"No node is known to lead" in run("topic", "create", "other", cwd=directory, status=1).stderr
        health = run("cluster", "health", cwd=directory, status=1)
        assert b"unavailable: no shard has a leader" in health.stderr
    finally:
        run("dev", "start", cwd=directory)
    assert run("cluster", "health", cwd=directory).returncode == 0


def test_a_second_process_on_the_same_data(cluster: DevCluster, directory: Path) -> None:
    node = cluster.node(1)
    refused = run("server", "run", "--config", str(node.config), cwd=directory, status=1)
    assert refused.stdout == b""
    assert str(node.data).encode() in refused.stderr


def test_server_run_from_the_environment(tmp_path: Path) -> None:
    port = free_base_port(1)
    environment = {
        "LEDGERMQ_NODE": "1",
        "LEDGERMQ_DATA": str(tmp_path / "data"),
        "LEDGERMQ_LISTEN": f"127.0.0.1:{port}",
        "LEDGERMQ_HTTP": "",
        "LEDGERMQ_PEERS": f"1=127.0.0.1:{port}",
        "LEDGERMQ_SEGMENT_BYTES": str(8 << 20),
        "LEDGERMQ_BOOTSTRAP": f"127.0.0.1:{port}",
    }
    server = start("server", "run", cwd=tmp_path, environment=environment)
    try:
        while server.poll() is None:
            asked = start("topic", "create", "alone", cwd=tmp_path, environment=environment)
            asked.communicate(timeout=TIMEOUT_S)
            if asked.returncode == 0:
                break
    finally:
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=TIMEOUT_S)
    assert server.returncode == 0, err.decode()
    assert asked.returncode == 0


def test_purge_removes_everything(tmp_path: Path) -> None:
    told = run("dev", "start", "-n", "1", "--data", "over here", cwd=tmp_path).stderr.decode()
    assert f"ledgermq dev stop --data {quote(str(tmp_path / 'over here'))}\n" in told
    node = DevCluster(tmp_path / "over here").node(1)
    command = Path(f"/proc/{node.pid}/cmdline")
    assert b"node.toml" in command.read_bytes()
    run("dev", "purge", "--data", "over here", cwd=tmp_path)
    assert not (tmp_path / "over here").exists()
    assert not command.exists() or command.read_bytes() == b"", "the process is gone"


@pytest.mark.parametrize("security", [(), ("--secure",)], ids=["plain", "secured"])
def test_the_demo_on_a_small_folder(security: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    for name in range(30):
        (folder / f"file-{name}").write_bytes(b"".join(b"%d of %d\n" % (line, name) for line in range(500)))
    (folder / "a large one").write_bytes(b"small\n" + b"x" * 5_000_000 + b"\n")
    ended = run("demo", "--input", str(folder), "--data", "data", *security, "--format", "json", cwd=tmp_path)
    outcome = json.loads(ended.stdout)
    assert outcome["holds"] is True
    assert outcome["replicas_identical"] is True
    assert outcome["messages"] == 30 * 500 + 1
    assert outcome["nodes_read"] == 3
    assert outcome["leader_before"] != outcome["leader_after"]
    assert outcome["outage_ms"] > 0
    assert len(outcome["refused"]) == 1
    assert "line 2 of" in outcome["refused"][0]
    assert {state.role for state in DevCluster(tmp_path / "data").status()} == {"stopped"}
