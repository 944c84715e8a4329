"""Tests `ledgermq log diff`: a log that is a prefix of the other, a fork in an uncommitted tail, and a fork in
committed entries. The output names both entries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.cli import main
from tests.cluster.stopped_node import StoppedNode, append_batch

Diff = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def node(tmp_path: Path) -> StoppedNode:
    return StoppedNode.make(tmp_path / "a")


@pytest.fixture
def other(node: StoppedNode, tmp_path: Path) -> StoppedNode:
    """A copy of the data directory of `node`."""
    return node.copy(tmp_path / "b")


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Diff:
    def run(*nodes: StoppedNode) -> tuple[int, list[dict[str, Any]]]:
        """Run the command. Return its exit status, and its lines about divergences, prefixes and flaws."""
        with pytest.raises(SystemExit) as ended:
            main(["log", "diff", "--format", "json", *(str(node.path) for node in nodes)])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert isinstance(ended.value.code, int)
        return ended.value.code, [line for line in lines if line["type"] in ("divergence", "prefix", "flaw")]

    return run


def test_the_same(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    before = other.content()
    status, (prefix,) = diff(node, other)
    assert (status, prefix["type"], prefix["same"]) == (0, "prefix", True)
    assert other.content() == before


def test_a_prefix(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    log = other.open()
    log.truncate(17)
    log.close()
    for pair in ((node, other), (other, node)):
        status, (prefix,) = diff(*pair)
        assert (status, prefix["same"]) == (0, False)
        assert (prefix["path"], prefix["of"]) == (str(other.shard), str(node.shard))


def test_an_empty_log_has_no_entry_in_common_with_any(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    log = other.open()
    log.truncate(0)
    log.close()
    status, (prefix,) = diff(node, other)
    assert (status, prefix["path"], prefix["overlap"]) == (2, str(other.shard), False)


def test_logs_without_a_common_entry(node: StoppedNode, other: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
    """One log ends before the other log begins, so nothing says whether they agree."""
    first, last = min(node.log.iterdir()), max(other.log.iterdir())
    with pytest.raises(SystemExit) as ended:
        main(["log", "diff", str(first), str(last)])
    out = capsys.readouterr().out
    assert f"{first} and {last} have no entry in common" in out
    assert out.splitlines()[-1].startswith("not compared: two logs have no entry in common")
    assert ended.value.code == 2


def test_only_replicas_of_one_shard_are_compared(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    log = other.open()
    log.truncate(30)
    append_batch(log, 29, term=2, commit=30)
    log.close()
    _, (found,) = diff(node, other)
    assert found["type"] == "divergence"
    other.shard.rename(other.path / "shard-1")
    assert diff(node, other) == (2, []), "no two logs were compared"


def test_a_fork_in_a_tail_is_no_failure(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    """A leader that was cut off appended entries that no other node has, and knows that none of them is committed."""
    log = other.open()
    log.truncate(30)
    for number in range(29, 34):
        append_batch(log, number, term=2, commit=30)
    log.close()
    status, (divergence,) = diff(node, other)
    assert (status, divergence["type"], divergence["index"], divergence["committed"]) == (0, "divergence", 31, False)
    ours, theirs = divergence["entries"]
    assert (ours["term"], theirs["term"]) == (1, 2)
    assert ours["index"] == theirs["index"] == 31
    assert ours["chain"] != theirs["chain"]


def test_a_fork_in_what_is_committed(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    log = other.open()
    log.truncate(30)
    append_batch(log, 29, term=2)
    append_batch(log, 30, term=2)  # says that 31 was committed
    log.close()
    status, (divergence,) = diff(node, other)
    assert (status, divergence["index"], divergence["committed"]) == (1, 31, True)


def test_a_fork_in_one_term(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    """Two entries of one term at one index: at most one of them is by the leader of the term."""
    for each, number in ((node, 29), (other, 30)):
        log = each.open()
        log.truncate(30)
        append_batch(log, number, term=2, commit=30)
        log.close()
    status, (divergence,) = diff(node, other)
    assert (status, divergence["index"], divergence["committed"], divergence["same_term_index"]) == (1, 31, False, 31)


def test_three_replicas(node: StoppedNode, other: StoppedNode, tmp_path: Path, diff: Diff) -> None:
    third = node.copy(tmp_path / "c")
    log = other.open()
    log.truncate(12)
    log.close()
    log = third.open()
    log.truncate(20)
    append_batch(log, 19, term=3, commit=20)
    log.close()
    status, told = diff(node, other, third)
    assert status == 0
    assert [(each["index"], each["paths"]) for each in told if each["type"] == "divergence"] == [
        (21, [str(node.shard), str(third.shard)])
    ]
    assert [(each["path"], each["of"]) for each in told if each["type"] == "prefix"] == [
        (str(other.shard), str(node.shard)),
        (str(other.shard), str(third.shard)),
    ]


def test_damage_keeps_from_comparing_all(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    header = other.headers()[9]
    other.flip(other.segment(header.position), header.position + 90)
    status, told = diff(node, other)
    assert status == 2
    assert [(each["position"], each["index"]) for each in told if each["type"] == "flaw"] == [(header.position, 10)]
    assert [each["type"] for each in told] == ["flaw", "prefix"], "the others are compared all the same"


def test_logs_that_begin_at_different_places(node: StoppedNode, other: StoppedNode, diff: Diff) -> None:
    log = other.open()
    snapshot = log.snapshot_at(8, configuration=b"", state=b"")
    log.close()
    (other.shard / "snapshot").write_bytes(snapshot.encode())
    status, (prefix,) = diff(node, other)
    assert (status, prefix["same"], prefix["overlap"]) == (0, True, True)


def test_for_a_person(node: StoppedNode, other: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
    log = other.open()
    log.truncate(30)
    append_batch(log, 29, term=2)
    append_batch(log, 30, term=2)
    log.close()
    with pytest.raises(SystemExit) as ended:
        main(["log", "diff", str(node.path), str(other.path)])
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert f"{node.shard} and {other.shard} diverge at entry 31, which is committed in both" in out
    assert f"    {other.shard}: term 2, batch" in out
    assert out.splitlines()[-1].startswith("FORKED")


def test_one_log_is_nothing_to_compare(node: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["log", "diff", str(node.path)])
    assert ended.value.code == 2
    assert "two logs or more" in capsys.readouterr().err
