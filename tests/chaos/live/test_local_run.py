"""A chaos run with nodes in network namespaces: a real cluster, real faults, a verdict, and nothing remains."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.live.judging import judged

PROGRAMS = ("ip", "nsenter", "iptables", "mkfs.ext4")
IN_CI = os.environ.get("CI") == "true"
missing = [program for program in PROGRAMS if shutil.which(program) is None]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts and network namespaces need root"),
    pytest.mark.skipif(bool(missing) and not IN_CI, reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.timeout(240),
]


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chaos", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)


Left = Callable[[], list[str]]


@pytest.fixture
def left(tmp_path: Path) -> Left:
    """Return a function that returns the namespaces of runs that began and ended during the test, and mounts and
    processes that use the test's directory. Other runs may exist beside the test, or have left something before."""
    before = _spaces()

    def look() -> list[str]:
        mounts = Path("/proc/mounts").read_text().splitlines()
        ours = str(tmp_path).encode()
        processes = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if ours in _content(path)]
        return [
            *(space for space in _spaces() - before if not _runs(space)),
            *(line for line in mounts if str(tmp_path) in line),
            *processes,
        ]

    return look


def _spaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
    return {space for space in listed if space.startswith("ledgermq-chaos")}


def _runs(space: str) -> bool:
    """Return whether the run that a namespace is named after still exists."""
    return Path(f"/proc/{space.split('-')[2]}").exists()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_cluster_under_faults_is_judged_valid_and_nothing_is_left(tmp_path: Path, left: Left) -> None:
    out = tmp_path / "run"
    faults = ("--faults", "kill,power,delay", "--targets", "leader")
    ended = chaos("run", *faults, "--seconds", "32", "--rate", "100", "--seed", "1", "--out", str(out), "--json")
    assert ended.returncode == 0, ended.stderr
    verdict = json.loads(ended.stdout)
    assert verdict["valid"] is True
    assert verdict["figures"]["nodes read at the end"] == 3
    result = judged(out)
    assert {struck.kind for struck in result.struck} == {"kill", "power", "delay"}
    assert all(struck.evidence for struck in result.struck)
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert all(struck.kind in page for struck in result.struck)
    assert left() == []
    # The same judgement again, from what it left; and none where a line of a history is not there any more.
    assert chaos("check", str(out)).returncode == 0
    (last,) = (path for path in out.glob("client-*.jsonl") if '"final":true' in path.read_text())
    lines = last.read_text().splitlines(keepends=True)
    gone = next(line for line in lines if '"op":"poll"' in line and json.loads(line)["offsets"])
    last.write_text("".join(line for line in lines if line != gone))
    damaged = chaos("check", str(out))
    assert damaged.returncode == 2
    assert f"{last.name} has {len(lines) - 1} of its {len(lines)} lines" in damaged.stderr


def test_a_node_is_drained_under_load_while_the_leader_of_shard_0_is_killed(tmp_path: Path, left: Left) -> None:
    out = tmp_path / "run"
    ended = chaos(
        "run", "--faults", "drain", "--seconds", "20", "--rate", "60", "--seed", "1", "--out", str(out), "--json"
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["valid"] is True
    (drain,) = judged(out).struck
    assert "replicas in" in drain.evidence[0]
    assert "as the leader of shard 0" in drain.evidence[0]
    # Four nodes, and three replicas of each queue: each node was asked for the queues of which it has a replica.
    holders = json.loads((out / "run.json").read_text())["promise"]["holders"]
    assert {len(nodes) for nodes in [*holders["orders"], *holders["payments"]]} <= {3, 4}
    assert any(len(nodes) == 3 for nodes in holders["orders"])
    assert left() == []


def test_a_secured_cluster_under_faults_is_judged_valid_and_its_secrets_are_removed(tmp_path: Path, left: Left) -> None:
    out = tmp_path / "run"
    faults = ("--secure", "--faults", "kill,membership", "--targets", "leader")
    ended = chaos("run", *faults, "--seconds", "32", "--rate", "60", "--seed", "1", "--out", str(out), "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["valid"] is True
    assert {struck.kind for struck in judged(out).struck} == {"kill", "membership"}
    assert "authentication = true" in (out / "node-1" / "node.toml").read_text()
    assert [*out.rglob("*.key"), *out.rglob("*.password")] == []
    assert left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_leaves_nothing(tmp_path: Path, left: Left, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "chaos", "run", "--faults", "power", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_heeds_interrupts) as run:
        deadline = time.monotonic() + 60
        while not [*(tmp_path / "run").glob("client-*.json")]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        run.send_signal(number)
        run.wait(60)
    deadline = time.monotonic() + 20
    while left():  # a client that was just being started notices by itself
        assert time.monotonic() < deadline, left()
        time.sleep(0.1)


def _heeds_interrupts() -> None:
    """Accept SIGINT, as a program in a terminal does. A shell's background processes ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_what_cannot_be_is_a_sentence_and_status_two(tmp_path: Path, left: Left) -> None:
    def refusal(*arguments: str) -> str:
        ended = chaos("run", "--out", str(tmp_path / "run"), *arguments)
        assert ended.returncode == 2, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended.stderr

    assert "needs --flush sync" in refusal("--faults", "power-all")
    assert "give --nodes 3" in refusal("--faults", "membership", "--nodes", "1")
    assert "give --shards 4" in refusal("--faults", "drain", "--shards", "1")
    assert "too short for a single fault" in refusal("--faults", "kill", "--seconds", "5")
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "something").touch()
    assert "is not empty: name another --out" in refusal("--faults", "kill")
    assert left() == []
