"""Tests the command line without a cluster: help, wrong usage, and the messages if no node answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from cluster.cli import ledgermq, main
from cluster.cli.cluster.log_start import QueuePlaceType, Size, TimeOrAge
from cluster.cli.options import Duration
from cluster.health import ReplicaRow, health_of, rows_of
from ledgermq import AsyncAdmin, Doubt, NodeStatus, ShardStatus


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEDGERMQ_BOOTSTRAP", raising=False)


def status_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


COMMANDS = [
    "dev",
    "server",
    "topic",
    "produce",
    "message",
    "timer",
    "consume",
    "group",
    "dlq",
    "cluster",
    "doctor",
    "profile",
    "completion",
    "log",
    "bench",
    "demo",
]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--help") == 0
    out = capsys.readouterr().out
    assert all(f"\n  {command} " in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(command, "--help") == 0
    assert f"Usage: ledgermq {command}" in capsys.readouterr().out


@pytest.mark.parametrize("operation", ["add-node", "promote", "remove-node", "transfer-leader", "recover"])
def test_every_operation_has_help(operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("cluster", operation, "--help") == 0
    out = capsys.readouterr().out
    assert "--timeout" in out
    assert "--format" in out
    assert ("--wait / --no-wait" in out) == (operation != "recover")


@pytest.mark.real
def test_help_loads_neither_clients_nor_server() -> None:
    script = "\n".join(
        [
            "import sys",
            "from cluster.cli import main",
            "try: main(['--help'])",
            "except SystemExit: pass",
            "heavy = {'grpc', 'numpy', 'pydantic', 'rich', 'aiohttp', 'uvloop'} & sys.modules.keys()",
            "sys.exit(f'loaded {heavy}' if heavy else 0)",
        ]
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topic", "create"],
        ["topic", "create", "t", "--queues", "0", "--bootstrap", "h:1"],
        ["topic", "create", "t", "--queues", "1025", "--bootstrap", "h:1"],
        ["topic", "list", "--format", "xml", "--bootstrap", "h:1"],
        ["topic", "list", "--bootstrap", "nowhere"],
        ["topic", "list", "--bootstrap", "h:1,h:99999"],
        ["produce", "t", "missing-file", "--bootstrap", "h:1"],
        ["produce", "t", "--key", "k", "--key-separator", ":", "--bootstrap", "h:1"],
        ["produce", "t", "--separator", "", "--bootstrap", "h:1"],
        ["consume", "t", "--from", "yesterday", "--bootstrap", "h:1"],
        ["consume", "t", "--from", "-1m", "--bootstrap", "h:1"],
        ["consume", "t", "--count", "-1", "--bootstrap", "h:1"],
        ["topic", "offsets", "t", "--bootstrap", "h:1"],
        ["topic", "offsets", "t", "--time", "soon", "--bootstrap", "h:1"],
        ["topic", "offsets", "t", "--time", "1969-12-31", "--bootstrap", "h:1"],
        ["message", "get", "t", "--bootstrap", "h:1"],
        ["message", "get", "t:1", "--bootstrap", "h:1"],
        ["message", "get", "t:a:0", "--bootstrap", "h:1"],
        ["message", "query", "--topic", "t", "--bootstrap", "h:1"],
        ["message", "query", "--topic", "t", "--key", "k", "--max", "0", "--bootstrap", "h:1"],
        ["dev", "start", "-n", "0"],
        ["server", "run", "--config", "missing.toml"],
        ["demo", "--input", "missing"],
        ["cluster", "add-node", "4", "--bootstrap", "h:1"],
        ["cluster", "add-node", "4", "--address", "nowhere", "--bootstrap", "h:1"],
        ["cluster", "add-node", "0", "--address", "h:1", "--bootstrap", "h:1"],
        ["cluster", "add-node", "4", "--address", "h:1", "--promote", "--no-wait", "--bootstrap", "h:1"],
        ["cluster", "promote", "four", "--bootstrap", "h:1"],
        ["cluster", "remove-node", "--bootstrap", "h:1"],
        ["cluster", "transfer-leader", "--timeout", "0", "--bootstrap", "h:1"],
        ["cluster", "transfer-leader", "--pin", "--bootstrap", "h:1"],
        ["cluster", "transfer-leader", "--to", "1", "--pin", "--unpin", "--bootstrap", "h:1"],
        ["cluster", "transfer-leader", "--to", "1", "--unpin", "--bootstrap", "h:1"],
        ["cluster", "recover", "--accept-loss", "--bootstrap", "h:1"],
        ["cluster", "trim", "--bootstrap", "h:1"],
        ["cluster", "trim", "--keep-bytes", "1", "--before-time", "72h", "--bootstrap", "h:1"],
        ["cluster", "trim", "--keep-bytes", "some", "--bootstrap", "h:1"],
        ["cluster", "trim", "--before-time", "yesterday", "--bootstrap", "h:1"],
        ["cluster", "trim", "--before", "topic:0", "--bootstrap", "h:1"],
        ["cluster", "hold", "--bootstrap", "h:1"],
        ["cluster", "hold", "spark", "--ttl", "24", "--bootstrap", "h:1"],
        ["cluster", "release", "--bootstrap", "h:1"],
        ["consume", "t", "--on-dropped", "weep", "--bootstrap", "h:1"],
        ["dev", "remove-node"],
    ],
)
def test_wrong_usage_is_status_2_and_a_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(*arguments) == 2
    captured = capsys.readouterr()
    assert "Error: " in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["consume", "t"], ["cluster", "info"], ["produce", "t"]], ids=" ".join
)
def test_no_cluster_named_and_none_here(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(*arguments) == 2
    assert "give --bootstrap HOST:PORT, set LEDGERMQ_BOOTSTRAP, or start a local one" in capsys.readouterr().err


@pytest.mark.real
def test_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("topic", "list", "--bootstrap", "127.0.0.1:1") == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert "127.0.0.1:1" in error
    assert "Traceback" not in error


@pytest.mark.real
def test_the_environment_names_the_cluster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LEDGERMQ_BOOTSTRAP", "127.0.0.1:2")
    assert status_of("cluster", "info") == 1
    assert "127.0.0.1:2" in capsys.readouterr().err


def test_settings_that_are_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node.toml").write_text("nod = 1\n")
    assert status_of("server", "run", "--config", "node.toml") == 1
    error = capsys.readouterr().err
    assert "`nod` is not a setting; did you mean `node`?" in error
    assert "Traceback" not in error


def test_dev_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("dev", "status") == 1
    assert "start one with `ledgermq dev start`" in capsys.readouterr().err
    assert status_of("dev", "stop") == 0
    assert status_of("dev", "purge") == 0
    assert not Path("ledgermq-data").exists()


@pytest.mark.parametrize("name", ["empty", "folder"])
def test_a_demo_with_nothing_to_send(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    assert status_of("demo", "--input", name, "--data", "data") == 2
    assert f"nothing to send: {name} contains no line" in capsys.readouterr().err
    assert not Path("data").exists(), "no cluster was started for it"


def node_status(
    node: int, role: str, *, term: int = 3, last_index: int = 100, leader: int = 1, **trouble: Any
) -> NodeStatus:
    shard = ShardStatus(0, role, term, leader, last_index, last_index, last_index, 0, 0, **trouble)
    return NodeStatus(node, f"h:{node}", reachable=True, shards=(shard,))


def test_lag_is_counted_from_the_leader_of_the_highest_term() -> None:
    rows = rows_of(
        [
            node_status(3, "follower", last_index=90),
            node_status(1, "leader"),
            node_status(2, "leader", term=2, last_index=500),  # it does not know yet that it was deposed
            NodeStatus(4, "h:4", reachable=False, error="gone"),
        ]
    )
    assert [row.node for row in rows] == [1, 2, 3, 4]
    assert [row.lag for row in rows] == [0, 0, 10, None]
    assert rows[3] == ReplicaRow(4, "h:4", None, "unreachable", None, None, None, None, None)


@pytest.mark.parametrize(
    ("nodes", "status"),
    [
        ([node_status(1, "leader"), node_status(2, "follower")], "healthy"),
        ([node_status(1, "leader"), NodeStatus(2, "h:2", reachable=False)], "degraded"),
        ([node_status(1, "leader"), node_status(2, "candidate")], "degraded"),
        ([node_status(1, "leader"), node_status(2, "learner")], "healthy"),
        ([node_status(1, "leader"), node_status(2, "follower", suspect=True)], "degraded"),
        ([node_status(1, "leader"), node_status(2, "removed", leader=0)], "degraded"),
        ([node_status(1, "leader"), node_status(2, "follower", diverged="entry 7")], "degraded"),
        ([node_status(1, "leader", diverged="entry 7"), node_status(2, "follower")], "unavailable"),
        ([node_status(1, "leader", unacknowledged_by=(2,)), node_status(2, "follower")], "unavailable"),
        ([node_status(1, "follower"), node_status(2, "candidate")], "unavailable"),
        ([NodeStatus(1, "h:1", reachable=False)], "unavailable"),
    ],
)
def test_health(nodes: list[NodeStatus], status: str) -> None:
    verdict = health_of(rows_of(nodes))
    assert verdict.status == status
    assert verdict.sentence.startswith(status)


def of_shards(node: int, *roles: str) -> NodeStatus:
    """Return the status of a node that has these roles in shard 0, 1, ..."""
    shards = tuple(ShardStatus(shard, role, 3, 0, 100, 100, 100, 0, 0, False) for shard, role in enumerate(roles))
    return NodeStatus(node, f"h:{node}", reachable=True, shards=shards)


def test_health_of_several_shards() -> None:
    led = health_of(rows_of([of_shards(1, "leader", "follower"), of_shards(2, "follower", "leader")]))
    assert led.status == "healthy"
    assert "node 1 leads shard 0 in term 3, node 2 leads shard 1 in term 3; 2 of 2 nodes" in led.sentence
    half = health_of(rows_of([of_shards(1, "leader", "candidate"), of_shards(2, "follower", "follower")]))
    assert half.status == "unavailable"
    assert "no leader in shard 1" in half.sentence


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("15m", 900_000), ("24h", 86_400_000), ("7d", 604_800_000)])
def test_durations(text: str, ms: int) -> None:
    assert Duration().convert(text, None, None) == ms


@pytest.mark.parametrize(
    ("text", "size"), [("500000", 500_000), ("1K", 1024), ("512M", 512 << 20), ("10GiB", 10 << 30), ("2tb", 2 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


def test_moments() -> None:
    for text in ("2023-11-14T22:13:20", "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00"):
        assert TimeOrAge().convert(text, None, None) == 1_700_000_000_000
    ago_ms = time.time_ns() // 1_000_000 - TimeOrAge().convert("2h", None, None)
    assert 2 * 3_600_000 <= ago_ms < 2 * 3_600_000 + 60_000


def test_places() -> None:
    assert QueuePlaceType().convert("orders.new:3:1000", None, None) == ("orders.new", 3, 1000)


@pytest.mark.parametrize(("written", "meant"), [("topc", "topic"), ("docter", "doctor"), ("proudce", "produce")])
def test_a_misspelled_command_is_answered_with_the_nearest_one(
    written: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(written) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_help_shows_whole_sentences() -> None:
    def check(group: click.Group, path: str) -> None:
        context = click.Context(group, info_name=path)
        assert "..." not in group.get_help(context).replace("COMMAND [ARGS]...", ""), path
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                check(command, f"{path} {name}")

    check(ledgermq, "ledgermq")


def test_an_option_before_the_command_is_told_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--bootstrap", "h:1", "topic", "list") == 2
    said = capsys.readouterr().err
    assert "No such option '--bootstrap'. Options stand after the command: ledgermq COMMAND [OPTIONS]." in said


@pytest.mark.parametrize("number", ["inf", "nan", "-inf", "1e300"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "t", "--bootstrap", "h:1", "--timeout"],
        ["produce", "t", "--bootstrap", "h:1", "--rate"],
        ["user", "token", "--right", "subscribe", "topic:t", "--bootstrap", "h:1", "--hours"],
        ["cluster", "promote", "2", "--bootstrap", "h:1", "--timeout"],
        ["mirror", "--rate-mb"],
        ["rocketmq", "mirror", "--until-empty"],
        ["dev", "add-node", "--timeout"],
        ["dev", "remove-node", "1", "--timeout"],
        ["bench", "failover", "--seconds"],
        ["bench", "failover", "--every"],
        ["bench", "produce", "--rate"],
    ],
    ids=" ".join,
)
def test_a_number_without_an_end_is_refused(
    arguments: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*arguments, number) == 2
    assert f"Invalid value for '{arguments[-1]}'" in capsys.readouterr().err


def test_a_node_that_is_suspect_in_two_shards_is_one_json_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def recover_node(_: object, node: int, **__: object) -> list[Doubt]:
        return [Doubt(node, "power loss", 1_000, 7, False, shard) for shard in (0, 3)]

    async def nothing(_: object) -> None:
        pass

    monkeypatch.setattr(AsyncAdmin, "recover_node", recover_node)
    monkeypatch.setattr(AsyncAdmin, "start", nothing)
    assert status_of("cluster", "recover", "--node", "2", "--format", "json", "--bootstrap", "h:1") == 1
    assert [doubt["shard"] for doubt in json.loads(capsys.readouterr().out)] == [0, 3]
