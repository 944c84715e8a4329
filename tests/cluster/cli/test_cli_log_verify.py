"""Tests `ledgermq log verify`: it reports each kind of planted damage at its exact place, and reports nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cluster.cli import main
from ledgermq import AsyncAdmin, AsyncProducer
from store import Checkpoint, Header, PosixDisk
from store.index.key_file import ENTRY_BYTES, HEADER
from tests.cluster.fleet import MakeFleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import is_ready
from tests.cluster.stopped_node import SEGMENT, StoppedNode, append_batch
from tests.cluster.waiter import eventually

FIELDS = {
    "magic": 0, "size": 8, "count": 12, "index": 16, "term": 24, "position": 32, "commit": 40, "append_time_ms": 48,
    "base_offset": 56, "topic_id": 64, "queue": 68, "crc": 72, "chain": 76, "body": 90,
}  # fmt: skip

Verify = Callable[..., tuple[int, list[dict[str, Any]], dict[str, Any]]]


@pytest.fixture
def node(tmp_path: Path) -> StoppedNode:
    return StoppedNode.make(tmp_path / "node")


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(*paths: Path | str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
        """Run the command. Return its exit status, the flaws, and the line about the last log."""
        with pytest.raises(SystemExit) as ended:
            main(["log", "verify", "--format", "json", *map(str, paths)])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert isinstance(ended.value.code, int)
        return ended.value.code, [line for line in lines if line["type"] == "flaw"], lines[-1] if lines else {}

    return run


def key_files(node: StoppedNode) -> list[Path]:
    """Return the two files of the key index that hold entries."""
    return sorted(path for path in node.keys.iterdir() if not path.suffix)


def place(flaw: dict[str, Any]) -> tuple[str, str, int, int | None, int | None]:
    return flaw["kind"], flaw["path"], flaw["position"], flaw["index"], flaw["end"]


def test_a_node_that_was_stopped_in_order_is_whole(node: StoppedNode, verify: Verify) -> None:
    before = node.content()
    status, flaws, log = verify(node.path)
    assert (status, flaws, log["verdict"], log["torn"]) == (0, [], "whole", False)
    headers = node.headers()
    assert (log["entries"], log["first_index"], log["last_index"], log["known_commit"]) == (41, 1, 41, 40)
    assert (log["end"], log["chain"]) == (headers[-1].end, headers[-1].chain)
    assert (log["queues"], log["units"], log["keys"]) == (2, 80, 40)
    assert log["segments"] == 3
    assert node.content() == before
    assert {path.name for path in node.path.iterdir()} == {"shard-0", "identity.json", "lock", "reserve"}


@pytest.mark.parametrize("which", ["shard-0", "shard-0/log"])
def test_every_kind_of_path(node: StoppedNode, verify: Verify, which: str) -> None:
    node.flip(node.segment(0), 90)
    status, flaws, _ = verify(node.path / which)
    assert status == 1
    assert place(flaws[0])[:4] == ("damage", str(node.segment(0)), 80, 2)


def test_a_segment_alone(node: StoppedNode, verify: Verify) -> None:
    path = node.segment(SEGMENT)
    status, flaws, log = verify(path)
    assert (status, flaws) == (0, [])
    assert log["first_index"] > 1
    node.flip(path, 90)
    assert verify(path)[0] == 1
    assert verify(node.segment(0))[0] == 0


@pytest.mark.parametrize("index", [1, 5, 14, 40, 41])
@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_bit_in_an_entry(node: StoppedNode, verify: Verify, field: str, index: int) -> None:
    headers = node.headers()
    header = headers[index - 1]
    if field == "body" and header.size <= FIELDS["body"]:
        pytest.skip("it has no body")
    path, position = node.segment(header.position), header.position
    node.flip(path, position % SEGMENT + FIELDS[field])
    status, flaws, log = verify(node.path)
    assert status == 1
    again = header.end if field == "chain" or has_next(headers, index) else None
    assert place(flaws[0]) == ("damage", str(path), position, index, again)
    behind = [flaw for flaw in flaws[1:] if flaw["path"].startswith(str(node.log))]
    # The very last entry is also missing to the mark of the orderly stop.
    assert (len(behind) == 1 and "the last orderly stop" in behind[0]["reason"]) if index == 41 else not behind
    assert log["entries"] == (41 if field == "chain" else 40)


def has_next(headers: list[Header], index: int) -> bool:
    """Return whether entry `index` has a next entry in the same segment."""
    return index < len(headers) and headers[index].position // SEGMENT == headers[index - 1].position // SEGMENT


def test_swapped_entries(node: StoppedNode, verify: Verify) -> None:
    headers = node.headers()
    one = next(h for h, after in pairwise(headers) if h.index > 2 and h.size == after.size)
    other = headers[one.index]
    data = node.segment(0).read_bytes()
    swapped = data[other.position : other.end] + data[one.position : one.end]
    node.overwrite(node.segment(0), one.position, swapped)
    status, flaws, _ = verify(node.path)
    assert status == 1
    assert [place(flaw) for flaw in flaws] == [
        ("damage", str(node.segment(0)), one.position, one.index, other.end),
    ]
    assert flaws[0]["last_index"] == other.index


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_segment(node: StoppedNode, verify: Verify, number: int) -> None:
    first = next(header for header in node.headers() if header.position >= number * SEGMENT)
    node.segment(number * SEGMENT).unlink()
    status, flaws, _ = verify(node.path)
    assert status == 1
    path = str(node.segment(number * SEGMENT))
    assert [place(flaw) for flaw in flaws] == [("damage", path, number * SEGMENT, first.index, (number + 1) * SEGMENT)]


def test_the_last_segment_is_missing(node: StoppedNode, verify: Verify) -> None:
    """After an orderly stop the clean mark shows that entries are missing. After a kill the indexes show it."""
    lost = next(header for header in node.headers() if header.position >= 2 * SEGMENT)
    node.segment(2 * SEGMENT).unlink()
    status, flaws, _ = verify(node.path)
    assert status == 1
    assert flaws[0]["index"] == lost.index
    assert "the last orderly stop" in flaws[0]["reason"]
    status, flaws, _ = verify(node.killed().path)
    assert status == 1
    assert {flaw["path"] for flaw in flaws} == {str(node.units(0)), str(node.units(1)), str(key_files(node)[1])}
    assert "the log has no messages for the units" in flaws[0]["reason"]


def test_an_old_copy_of_a_segment(node: StoppedNode, tmp_path: Path, verify: Verify) -> None:
    old = StoppedNode.make(tmp_path / "old", 4)
    following = next(header.index for header in node.headers() if header.position >= SEGMENT)
    node.segment(0).write_bytes(old.segment(0).read_bytes())
    status, flaws, _ = verify(node.path)
    assert status == 1
    end = old.headers()[-1].end
    assert [place(flaw) for flaw in flaws] == [("damage", str(node.segment(0)), end, 6, SEGMENT)]
    assert flaws[0]["last_index"] == following - 1


def test_a_resurrected_tail(node: StoppedNode, verify: Verify) -> None:
    """The bytes of entries that were cut stand again after the entries of a newer term."""
    last = node.headers()[-1]
    path = node.segment(last.position)
    before = path.read_bytes()
    log = node.open()
    log.truncate(39)
    fresh = append_batch(log, 38, term=5)
    log.close()
    assert fresh.end == last.position
    node.overwrite(path, last.position % SEGMENT, before[last.position % SEGMENT : last.end % SEGMENT])
    status, flaws, _ = verify(node.path)
    assert status == 1
    assert place(flaws[0]) == ("damage", str(path), last.position, 41, last.end)
    assert "term 1 follows the higher term 5" in flaws[0]["reason"]


def test_a_torn_end_is_told_and_no_damage(node: StoppedNode, verify: Verify) -> None:
    """An entry without its first word is what a killed write leaves. After an orderly stop the same bytes are
    damage."""
    last = node.headers()[-1]
    path, at = node.segment(last.position), last.end % SEGMENT
    node.overwrite(path, at + 8, b"torn")
    status, flaws, _ = verify(node.path)
    assert status == 1
    status, flaws, log = verify(node.killed().path)
    assert (status, log["verdict"], log["torn"]) == (0, "whole", True)
    assert [place(flaw) for flaw in flaws] == [("torn", str(path), last.end + 8, 42, None)]


def test_a_shortened_segment(node: StoppedNode, verify: Verify) -> None:
    path = node.segment(SEGMENT)
    os.truncate(path, 1000)
    status, flaws, _ = verify(node.path)
    assert status == 1
    assert place(flaws[0])[:3] == ("damage", str(path), SEGMENT + 1000)
    assert f"1000 bytes, but segments of this log have {SEGMENT}" in flaws[0]["reason"]


class TestUnits:
    @pytest.mark.parametrize(("offset", "byte"), [(0, 0), (7, 9), (7, 12), (39, 19)])
    def test_a_wrong_one(self, node: StoppedNode, verify: Verify, offset: int, byte: int) -> None:
        node.flip(node.units(1), offset * 20 + byte)
        status, flaws, log = verify(node.path)
        assert status == 1
        index = offset // 2 * 2 + 1 + 2
        assert [place(flaw) for flaw in flaws] == [
            ("damage", str(node.units(1)), offset * 20, index, offset * 20 + 20),
        ]
        assert f"the unit of offset {offset}" in flaws[0]["reason"]
        assert log["units"] == 79

    def test_a_run_of_wrong_ones_is_one_flaw(self, node: StoppedNode, verify: Verify) -> None:
        node.overwrite(node.units(0), 5 * 20, b"\xff" * 140)
        status, flaws, _ = verify(node.path)
        assert status == 1
        assert [(flaw["position"], flaw["end"]) for flaw in flaws] == [(100, 240)]

    def test_some_are_missing(self, node: StoppedNode, verify: Verify) -> None:
        os.truncate(node.units(0), 30 * 20)
        status, flaws, _ = verify(node.path)
        assert status == 1
        assert place(flaws[0])[:3] == ("damage", str(node.units(0)), 600)
        assert verify(node.killed().path)[0] == 0, "a node that was killed may not have come to write them"

    def test_some_are_too_many(self, node: StoppedNode, verify: Verify) -> None:
        path = node.units(0)
        path.write_bytes(path.read_bytes() + path.read_bytes()[:23])
        status, flaws, _ = verify(node.path)
        assert status == 1
        assert [(flaw["kind"], flaw["position"]) for flaw in flaws] == [("torn", 820), ("damage", 800)]


@pytest.mark.parametrize(("name", "position"), [("vote", 4096), ("clean", 0), ("boot", 0)])
def test_a_damaged_small_file(node: StoppedNode, verify: Verify, name: str, position: int) -> None:
    path = node.shard / name
    node.flip(path, position + 5 if name == "vote" else 1)
    status, flaws, _ = verify(node.path)
    assert status == 1
    assert [place(flaw)[:3] for flaw in flaws] == [("damage", str(path), position)]


def test_a_missing_vote(node: StoppedNode, verify: Verify) -> None:
    (node.shard / "vote").unlink()
    status, flaws, _ = verify(node.path)
    assert status == 1
    assert "vote twice" in flaws[0]["reason"]


class TestBases:
    @pytest.fixture
    def base(self, node: StoppedNode) -> Path:
        """Write a snapshot of entry 8 for a later move of the log start."""
        log = node.open()
        path = node.shard / "snapshots" / f"{8:020}"
        path.write_bytes(log.snapshot_at(8, configuration=b"", state=b"state").encode())
        log.close()
        return path

    def test_a_whole_one(self, node: StoppedNode, base: Path, verify: Verify) -> None:
        assert verify(node.path)[:2] == (0, [])

    def test_a_damaged_one(self, node: StoppedNode, base: Path, verify: Verify) -> None:
        node.flip(base, 20)
        status, flaws, _ = verify(node.path)
        assert (status, flaws[0]["path"]) == (1, str(base))

    def test_one_of_another_log(self, node: StoppedNode, base: Path, tmp_path: Path, verify: Verify) -> None:
        log = StoppedNode.make(tmp_path / "other", 3).open()
        other = append_batch(log, 3, term=2)
        while other.index < 8:
            other = append_batch(log, other.index - 1, term=2)
        base.write_bytes(log.snapshot_at(8, configuration=b"", state=b"").encode())
        log.close()
        status, flaws, _ = verify(node.path)
        assert (status, flaws[0]["path"], flaws[0]["index"]) == (1, str(base), 8)

    def test_the_log_begins_behind_one(self, node: StoppedNode, base: Path, verify: Verify) -> None:
        base.rename(node.shard / "snapshot")
        status, flaws, log = verify(node.path)
        assert (status, flaws, log["first_index"]) == (0, [], 9)
        node.flip(node.shard / "snapshot", 20)
        status, flaws, log = verify(node.path)
        assert (status, log["entries"]) == (1, 41), "where the log begins is not known then, and all of it is read"
        assert flaws[0]["path"] == str(node.shard / "snapshot")

    def test_files_of_the_log_that_a_snapshot_replaced_may_be_left(self, node: StoppedNode, verify: Verify) -> None:
        log = node.open()
        place = next(header for header in node.headers() if header.position > 2 * SEGMENT)
        snapshot = log.snapshot_at(place.index, configuration=b"", state=b"")
        log.close()
        (node.shard / "snapshot").write_bytes(snapshot.encode())
        node.segment(SEGMENT).unlink()
        status, flaws, found = verify(node.path)
        assert (status, flaws, found["first_index"], found["segments"]) == (0, [], place.index + 1, 1)


class TestKeys:
    """The key index has two files: the keys of the first 16 batches with their slots, and the keys of 24 more
    batches."""

    @pytest.mark.parametrize("field", range(0, ENTRY_BYTES, 4))
    @pytest.mark.parametrize(("file", "entry"), [(0, 0), (0, 15), (1, 0), (1, 11), (1, 23)])
    def test_a_wrong_one(self, node: StoppedNode, verify: Verify, file: int, entry: int, field: int) -> None:
        path = key_files(node)[file]
        node.flip(path, HEADER.size + entry * ENTRY_BYTES + field)
        status, flaws, log = verify(node.path)
        assert status == 1
        assert {flaw["path"] for flaw in flaws} <= {str(path), f"{path}.slots"}
        assert flaws[0]["position"] == HEADER.size + entry * ENTRY_BYTES
        linked_only = field == ENTRY_BYTES - 4
        assert log["keys"] >= (40 if linked_only else 24), "those behind it are found again"

    @pytest.mark.parametrize("offset", [0, 7, 15])
    def test_a_wrong_slot(self, node: StoppedNode, verify: Verify, offset: int) -> None:
        path = key_files(node)[0].with_suffix(".slots")
        node.flip(path, offset)
        status, flaws, _ = verify(node.path)
        assert (status, [(flaw["path"], flaw["position"]) for flaw in flaws]) == (1, [(str(path), offset)])

    def test_slots_that_are_missing(self, node: StoppedNode, verify: Verify) -> None:
        path = key_files(node)[0].with_suffix(".slots")
        path.unlink()
        status, flaws, _ = verify(node.path)
        assert (status, [flaw["path"] for flaw in flaws]) == (1, [str(path)])

    @pytest.mark.parametrize("file", [0, 1])
    def test_a_file_that_is_missing_or_unreadable(self, node: StoppedNode, verify: Verify, file: int) -> None:
        path = key_files(node)[file]
        for is_there in (True, False):
            node.flip(path, 1) if is_there else path.unlink()
            status, flaws, log = verify(node.path)
            assert status == 1
            assert any("missing" in flaw["reason"] for flaw in flaws)
            assert log["keys"] == (24, 16)[file]

    def test_the_end_is_missing(self, node: StoppedNode, verify: Verify) -> None:
        """A kill may leave a key file without its end. An orderly stop never does."""
        path = key_files(node)[1]
        os.truncate(path, HEADER.size + 10 * ENTRY_BYTES + 3)
        status, flaws, log = verify(node.path)
        assert (status, [flaw["kind"] for flaw in flaws]) == (1, ["damage"])
        assert log["keys"] == 26
        status, flaws, _ = verify(node.killed().path)
        assert (status, [flaw["kind"] for flaw in flaws]) == (0, ["torn"])

    def test_a_batch_in_the_midst_is_missing(self, node: StoppedNode, verify: Verify) -> None:
        path = key_files(node)[1]
        data = path.read_bytes()
        at = HEADER.size + 5 * ENTRY_BYTES
        path.write_bytes(data[:at] + data[at + ENTRY_BYTES :])
        status, flaws, log = verify(node.path)
        assert (status, flaws[0]["path"], flaws[0]["position"]) == (1, str(path), at)
        assert log["keys"] == 39

    def test_what_lies_before_the_log_is_passed_over(self, node: StoppedNode, verify: Verify) -> None:
        log = node.open()
        snapshot = log.snapshot_at(20, configuration=b"", state=b"")
        log.close()
        (node.shard / "snapshot").write_bytes(snapshot.encode())
        status, flaws, found = verify(node.path)
        assert (status, flaws) == (0, [])
        assert 0 < found["keys"] < 40


class TestIndexesElsewhere:
    @pytest.fixture
    def indexes(self, node: StoppedNode, tmp_path: Path) -> Path:
        """Move the indexes to a directory of their own."""
        directory = tmp_path / "indexes"
        (directory / "shard-0").mkdir(parents=True)
        for name in ("queues", "keys"):
            (node.shard / name).rename(directory / "shard-0" / name)
        (directory / "indexes.json").write_bytes((node.path / "identity.json").read_bytes())
        return directory

    def test_they_are_looked_at_where_they_are_named(self, node: StoppedNode, indexes: Path, verify: Verify) -> None:
        status, flaws, log = verify(node.path, "--index-data", indexes)
        assert (status, flaws, log["units"], log["keys"]) == (0, [], 80, 40)
        for path in (*indexes.rglob("keys/*.slots"), *indexes.rglob("3-1/*")):
            before = path.read_bytes()
            node.flip(path, 5)
            status, flaws, _ = verify(node.path, "--index-data", indexes)
            assert (status, {flaw["path"] for flaw in flaws}) == (1, {str(path)})
            path.write_bytes(before)

    @pytest.mark.real
    async def test_of_a_real_node(self, make_fleet: MakeFleet, tmp_path: Path, verify: Verify) -> None:
        fleet = make_fleet(1, index_data=tmp_path / "elsewhere")
        await fleet.start()
        await fleet.leader()
        await fleet.create_topic()
        async with AsyncProducer(fleet.bootstrap) as producer:
            for number in range(500):
                producer.send_nowait("topic", b"value", key=f"key-{number}")
        await fleet.stop()
        status, flaws, log = verify(fleet.data(1), "--index-data", tmp_path / "elsewhere")
        assert (status, flaws, log["units"], log["keys"]) == (0, [], 500, 500)

    def test_without_a_name_they_are_no_damage_but_said(
        self, node: StoppedNode, indexes: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["log", "verify", str(node.path)])
        assert ended.value.code == 0
        assert "give their directory with --index-data" in capsys.readouterr().err

    def test_those_of_another_node_are_refused(self, node: StoppedNode, indexes: Path, verify: Verify) -> None:
        (indexes / "indexes.json").write_text('{"format": 1, "cluster": "test", "node": 2}')
        assert verify(node.path, "--index-data", indexes)[0] == 2
        assert verify(indexes)[0] == 2


class TestCheckpoint:
    """Damage of a checkpoint that was taken at entry 20."""

    def test_a_damaged_one(self, node: StoppedNode, verify: Verify) -> None:
        path = node.shard / "checkpoint"
        node.flip(path, 30)
        status, flaws, _ = verify(node.path)
        assert (status, [flaw["path"] for flaw in flaws]) == (1, [str(path)])

    def test_one_of_another_log(self, node: StoppedNode, tmp_path: Path, verify: Verify) -> None:
        path = node.shard / "checkpoint"
        other = StoppedNode.make(tmp_path / "other", 50).open()
        other.truncate(19)
        append_batch(other, 18, term=2)
        place = other.snapshot_at(20, configuration=b"", state=b"")
        other.close()
        path.write_bytes(Checkpoint(place, 0, False, ()).encode())
        status, flaws, _ = verify(node.path)
        assert (status, [(flaw["path"], flaw["index"]) for flaw in flaws]) == (1, [(str(path), 20)])

    def test_one_that_the_log_does_not_reach(self, node: StoppedNode, verify: Verify) -> None:
        log = node.open()
        log.truncate(12)
        log.close()
        status, flaws, _ = verify(node.path)
        assert status == 1
        missing = [(flaw["path"], flaw["index"], flaw["last_index"]) for flaw in flaws]
        assert (str(node.shard / "checkpoint"), 13, 20) in missing

    def test_wrong_positions(self, node: StoppedNode, verify: Verify) -> None:
        path = node.shard / "positions" / f"{0:020}"
        node.flip(path, 5 * 20 + 3)
        node.overwrite(path, 8 * 20, b"\xff" * 60)
        status, flaws, _ = verify(node.path)
        assert status == 1
        assert [place(flaw) for flaw in flaws] == [
            ("damage", str(path), 100, 5, 120),
            ("damage", str(path), 160, 8, 220),
        ]
        path.unlink()
        status, flaws, _ = verify(node.path)
        assert [(flaw["index"], flaw["last_index"]) for flaw in flaws] == [(1, 20)]


class TestUnreadable:
    def say(self, capsys: pytest.CaptureFixture[str], *paths: Path) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["log", "verify", *map(str, paths)])
        assert ended.value.code == 2
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return captured.err

    def test_an_empty_directory(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert f"{tmp_path} is empty" in self.say(capsys, tmp_path)

    def test_another_directory(self, node: StoppedNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = self.say(capsys, tmp_path)
        assert "neither a node's data directory" in error
        assert "in it are node: name those" in error

    def test_another_file(self, node: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
        assert "is no segment" in self.say(capsys, node.shard / "vote")

    def test_nothing_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "does not exist" in self.say(capsys, tmp_path / "nowhere")

    def test_another_version_of_the_directory(self, node: StoppedNode, capsys: pytest.CaptureFixture[str]) -> None:
        node.set_format(9)
        assert "directory format 9" in self.say(capsys, node.path)

    def test_entries_of_another_version(self, node: StoppedNode, verify: Verify) -> None:
        data = bytearray(node.segment(0).read_bytes())
        for header in node.headers():
            if header.position < SEGMENT:
                data[header.position + 4] = 2
        path = node.path.parent / f"{0:020}"
        path.write_bytes(data)
        status, flaws, log = verify(path)
        assert (status, log["verdict"]) == (2, "unknown")
        assert "entry version 2 is not known" in flaws[0]["reason"]


@pytest.mark.real
def test_progress_on_a_terminal_leaves_the_data_on_standard_output(node: StoppedNode) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "ledgermq", "log", "verify", str(node.path)]
    try:
        wide = os.environ | {"COLUMNS": "300"}  # the whole path fits on a line
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=30, env=wide, check=False
        )
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"{node.shard}: whole. 41 entries (1 to 41)")
    assert str(node.shard) in shown.replace("\r\n", "")


@pytest.mark.real
async def test_a_real_node_running_killed_and_stopped(
    make_fleet: MakeFleet, verify: Verify, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = make_fleet(1)
    with NodeProcess(fleet.write_toml(1)) as process:
        await eventually(lambda: is_ready(fleet.http(1)), "the node serves")
        async with AsyncAdmin(fleet.bootstrap) as admin:
            await admin.create_topic("topic", 2)
        async with AsyncProducer(fleet.bootstrap) as producer:
            await producer.send_many("topic", [bytes([number % 256]) * 1000 for number in range(5000)])
        status, flaws, log = verify(fleet.data(1))
        assert (status, flaws, log["changing"]) == (0, [], True)
        os.kill(process.pid, 9)
        await process.ended()
    status, flaws, log = verify(fleet.data(1))
    assert (status, flaws, log["changing"], log["units"]) == (0, [], False, 5000)
    await fleet.start()
    await fleet.leader()
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", [b"more"] * 10)
    await fleet.stop()
    status, flaws, log = verify(fleet.data(1))
    assert (status, flaws, log["units"]) == (0, [], 5010)
    lock = PosixDisk().lock(fleet.data(1) / "lock")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["log", "verify", str(fleet.data(1))])
    captured = capsys.readouterr()
    assert f"a node runs here (process {os.getpid()})" in captured.err
    assert ": whole. " in captured.out
    lock.release()


@pytest.mark.real
def test_a_reader_that_leaves_early_gets_no_good_verdict(tmp_path: Path) -> None:
    """`set -o pipefail; ledgermq log verify ... | head -1` must not succeed if the log is damaged."""
    node = StoppedNode.make(tmp_path / "node", 1500)
    for header in node.headers():
        node.flip(node.segment(header.position), header.position % SEGMENT + 90)
    command = [sys.executable, "-m", "ledgermq", "log", "verify", "--format", "json", str(node.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verifying:
        assert verifying.stdout is not None
        assert verifying.stderr is not None
        assert json.loads(verifying.stdout.readline())["kind"] == "damage"
        verifying.stdout.close()
        assert verifying.stderr.read() == ""
        assert verifying.wait(20) == 141


@pytest.mark.real
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_reader_that_leaves_at_the_end_changes_no_verdict(node: StoppedNode, is_damaged: bool) -> None:
    """The output is short and buffered, so the closed pipe is noticed only when the verdict is known."""
    if is_damaged:
        node.flip(node.segment(0), 90)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ledgermq", "log", "verify", str(node.path)]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=buffered, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (int(is_damaged), b"")


@pytest.mark.real
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_output_that_cannot_be_written_is_no_damage(node: StoppedNode, is_damaged: bool, buffered: bool) -> None:
    if is_damaged:
        node.flip(node.segment(0), 90)
    command = [sys.executable, "-m", "ledgermq", "log", "verify", str(node.path)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    assert ended.returncode == (1 if is_damaged and buffered else 2)
    assert ended.stderr.endswith(b"No space left on device\n")
    assert ended.stderr.startswith(b"Error: standard output cannot be written: ") or not buffered


@pytest.mark.real
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_path_that_is_not_utf_8_is_printed_with_escapes(tmp_path: Path, form: str) -> None:
    node = StoppedNode.make(tmp_path / os.fsdecode(b"caf\xe9"))
    command = [sys.executable, "-m", "ledgermq", "log", "verify", "--format", form, str(node.path)]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    ended = subprocess.run(command, capture_output=True, env=strict, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rb"caf\udce9" in ended.stdout
