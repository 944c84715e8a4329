"""Tests `ledgermq log dump`: it prints entries, batches and messages of a log, of the whole log or of a range."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.cli import main
from tests.cluster.stopped_node import SEGMENT, StoppedNode

Dump = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def node(tmp_path: Path) -> StoppedNode:
    return StoppedNode.make(tmp_path / "node")


@pytest.fixture
def dump(capsys: pytest.CaptureFixture[str]) -> Dump:
    def run(path: Path, *options: str) -> list[dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main(["log", "dump", "--format", "json", *options, str(path)])
        assert ended.value.code == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def indexes(lines: list[dict[str, Any]]) -> list[int]:
    return [line["index"] for line in lines if line["type"] == "entry"]


def test_every_entry_with_all_that_its_header_says(node: StoppedNode, dump: Dump) -> None:
    before = node.content()
    lines = dump(node.path)
    entries = [line for line in lines if line["type"] == "entry"]
    for line, header in zip(entries, node.headers(), strict=True):
        assert line == {
            "type": "entry", "kind": header.kind.name.lower(), "flags": 0, "size": header.size, "count": header.count,
            "index": header.index, "term": 1, "position": header.position, "commit": header.commit,
            "append_time_ms": header.append_time_ms, "base_offset": header.base_offset, "topic_id": header.topic_id,
            "queue": header.queue, "crc": header.crc, "chain": header.chain, "crc_ok": True,
        }  # fmt: skip
    segments = [line for line in lines if line["type"] == "segment"]
    assert [line["position"] for line in segments] == [0, SEGMENT, 2 * SEGMENT]
    assert all(line["bytes"] == SEGMENT for line in segments)
    assert node.content() == before


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "39"], [39, 40, 41]),
        (["--to", "2"], [1, 2]),
        (["--from", "12", "--to", "14"], [12, 13, 14]),
        (["--from", "12", "--limit", "2"], [12, 13]),
        (["--limit", "0"], []),
        (["--from", "99"], []),
    ],
)
def test_from_where_to_where(node: StoppedNode, dump: Dump, options: list[str], expected: list[int]) -> None:
    lines = dump(node.path, *options)
    assert indexes(lines) == expected
    assert not [line for line in lines if line["type"] == "flaw"]


def test_segments_before_the_first_wanted_entry_are_not_read(node: StoppedNode, dump: Dump) -> None:
    node.flip(node.segment(0), 90)
    lines = dump(node.path, "--from", "40")
    assert indexes(lines) == [40, 41]
    assert not [line for line in lines if line["type"] == "flaw"]


@pytest.mark.parametrize("name", [str(SEGMENT), f"{SEGMENT:020}", str(SEGMENT + 17)])
def test_one_segment(node: StoppedNode, dump: Dump, name: str) -> None:
    expected = [header.index for header in node.headers() if header.position // SEGMENT == 1]
    assert indexes(dump(node.path, "--segment", name)) == expected
    assert indexes(dump(node.segment(SEGMENT))) == expected


def test_no_such_segment(node: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["log", "dump", "--segment", "99999999", str(node.path)])
    assert ended.value.code == 2
    assert "has no segment that holds position 99999999" in capsys.readouterr().err


def test_batches(node: StoppedNode, dump: Dump) -> None:
    lines = dump(node.path, "--batches", "--limit", "3")
    batches = [line for line in lines if line["type"] == "batch"]
    assert [(line["index"], line["count"], line["codec"], line["producer_id"]) for line in batches] == [
        (2, 2, "none", 7),
        (3, 2, "none", 7),
    ]
    assert not [line for line in lines if line["type"] == "message"]


def test_messages(node: StoppedNode, dump: Dump) -> None:
    lines = dump(node.path, "--decode", "--from", "5", "--to", "5")
    messages = [line for line in lines if line["type"] == "message"]
    assert [(line["offset"], line["preview"], line["key"], line["tag"]) for line in messages] == [
        (2, "message 3 of term 1", "key", "odd"),
        (3, "xxx", None, None),
    ]


def test_damage_stands_where_it_is(node: StoppedNode, dump: Dump) -> None:
    header = node.headers()[4]
    node.flip(node.segment(0), header.position + 90)
    lines = dump(node.path, "--from", "4", "--limit", "2")
    assert [(line["type"], line.get("index")) for line in lines if line["type"] != "segment"] == [
        ("entry", 4),
        ("flaw", 5),
        ("entry", 6),
    ]


def test_for_a_person(node: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["log", "dump", "--decode", "--limit", "2", str(node.path)])
    out = capsys.readouterr().out.splitlines()
    assert out[0] == str(node.shard)
    assert out[1].split()[:3] == ["index", "term", "kind"]
    assert "no_op" in out[3]
    assert "2023-11-14T22:13:20.000Z" in out[3]
    assert "batch: 2 messages" in out[5]
    assert out[6].strip() == "message 0: 19 bytes, key key, tag even: message 0 of term 1"


@pytest.mark.real
def test_a_reader_that_has_enough(tmp_path: Path) -> None:
    """`ledgermq log dump ... | head -1` ends at once, without an error message."""
    node = StoppedNode.make(tmp_path / "node", 3000)
    command = [sys.executable, "-m", "ledgermq", "log", "dump", "--decode", str(node.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dumping:
        assert dumping.stdout is not None
        assert dumping.stderr is not None
        assert dumping.stdout.readline() == f"{node.shard}\n"
        dumping.stdout.close()
        assert dumping.stderr.read() == ""
        assert dumping.wait(20) == 0
