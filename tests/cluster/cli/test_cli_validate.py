"""Tests the output, the files and the exit status of `ledgermq validate`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.cli import main
from ledger.validation.report import out_directory
from tests.ledger.validation.stopped_cluster import StoppedCluster


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["validate", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def cluster(tmp_path: Path) -> StoppedCluster:
    return StoppedCluster.make(tmp_path, 12)


def test_replicas_that_agree_are_valid(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = cluster.history(tmp_path / "history.jsonl")
    assert run(*cluster.sources, "--acked", str(history)) == 0
    said = capsys.readouterr()
    assert "no replica is behind" in said.out
    assert f"{len(cluster.written)} messages were acknowledged" in said.out
    assert said.out.splitlines()[-1].startswith("VALID")
    assert said.err == ""


def test_a_fault_of_its_own_is_no_violation(
    cluster: StoppedCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("ledger.validation.validate.validate", broken)
    assert run(*cluster.sources) == 2
    said = capsys.readouterr().err
    assert "in broken" in said
    assert "a bug of its own, so nothing is judged; please report it: ZeroDivisionError('a bug')" in said


def test_a_disk_that_cannot_be_written_is_told_in_one_sentence(
    cluster: StoppedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_report: object, out: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(out / "verdict.json"))

    monkeypatch.setattr(out_directory, "write_verdict", full)
    assert run(*cluster.sources, "--out", str(tmp_path / "out")) == 2
    assert capsys.readouterr().err == f"Error: {tmp_path}/out/verdict.json: No space left on device\n"


def test_a_violation_is_told_with_its_place_and_written_out(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = cluster.replicas[1]
    header = replica.headers()[7]
    replica.flip(replica.segment(header.position), header.position + 90)
    out = tmp_path / "out"
    assert run(*cluster.sources, "--format", "json", "--out", str(out)) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "violated"
    (violation,) = told["violations"]
    assert (violation["kind"], violation["index"], violation["position"]) == ("damaged entry", 8, header.position)
    assert violation["source"] == str(replica.path)
    assert json.loads((out / "verdict.json").read_text()) == told
    assert list(out.glob("violations.*"))
    assert ">violated</span>" in (out / "index.html").read_text()


def test_what_an_earlier_validation_left_is_not_mixed_with_this_one(cluster: StoppedCluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "violations.parquet").mkdir(parents=True)  # as Spark leaves it
    (out / "index.html").write_text("an old page")
    (out / "violations.jsonl").write_text("an old violation")
    (out / "mine.txt").write_text("")
    assert run("/nowhere", "--out", str(out)) == 2
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "mine.txt", "verdict.json"]
    assert "could not be judged" in (out / "index.html").read_text()


def test_what_is_not_installed_is_told_in_a_line_each_and_is_no_failure(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {"pyarrow", "jinja2", "matplotlib"}
    monkeypatch.setattr(out_directory, "find_spec", lambda name: None if name in absent else find_spec(name))
    out = tmp_path / "out"
    replica = cluster.replicas[1]
    replica.flip(replica.segment(0), 90)
    assert run(*cluster.sources, "--out", str(out)) == 1
    parquet, page = capsys.readouterr().err.splitlines()
    assert "pip install 'ledgermq[spark]'" in parquet
    assert str(out / "violations.jsonl") in parquet
    assert "pip install 'ledgermq[bench]'" in page
    assert "jinja2 and matplotlib" in page
    assert sorted(path.name for path in out.iterdir()) == ["verdict.json", "violations.jsonl"]
    (line,) = (out / "violations.jsonl").read_text().splitlines()
    assert json.loads(line)["kind"] == "damaged entry"


def test_a_directory_that_cannot_be_written_is_told_before_anything_is_read(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(*cluster.sources, "--out", str(tmp_path / "file" / "out")) == 2
    said = capsys.readouterr()
    assert "cannot be written" in said.err
    assert said.out == ""


@pytest.mark.real
def test_a_source_that_cannot_be_read_is_not_judged_and_hides_no_violation(
    cluster: StoppedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = cluster.replicas[0]
    replica.flip(replica.segment(0), 90)
    assert run(cluster.sources[0], "/nowhere", "http://127.0.0.1:1") == 2
    said = capsys.readouterr().out
    assert "NOT JUDGED: /nowhere" in said
    assert "NOT JUDGED: http://127.0.0.1:1" in said
    assert "DAMAGED ENTRY" in said


def test_sources_of_two_clusters_are_not_judged(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = StoppedCluster.make(tmp_path / "other", 3, cluster="another")
    assert run(cluster.sources[0], other.sources[1]) == 2
    assert "different clusters" in capsys.readouterr().out


def test_sources_without_a_shard_in_common_are_not_judged(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = StoppedCluster.make(tmp_path / "other", 3, shard=1)
    assert run(cluster.sources[0], other.sources[1]) == 2
    assert "no shard in common" in capsys.readouterr().out


def test_a_cluster_of_the_same_name_with_other_members_is_told(
    cluster: StoppedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = StoppedCluster.make(tmp_path / "other", 12, incarnation=9)
    assert run(cluster.sources[0], other.sources[1]) == 1
    said = capsys.readouterr().out
    assert "they diverge at entry 1" in said
    assert "so they belong to two clusters" in said


def test_without_java_one_sentence_says_what_to_install(
    cluster: StoppedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run(cluster.sources[0], "--master", "local[2]") == 2
    assert "install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--spark-conf", "spark.executor.memory=2g"), "--spark-conf needs --master"),
        (("--master", "local[1]", "--spark-conf", "memory=2g"), "write it as spark.KEY=VALUE"),
    ],
)
@pytest.mark.real
def test_a_setting_of_spark_that_cannot_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert run("/nowhere", *options) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.real
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_report_that_cannot_be_printed_is_no_violation(cluster: StoppedCluster, form: str) -> None:
    with open("/dev/full", "wb") as full:
        ended = _process([*cluster.sources, "--format", form], full.fileno())
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr == b"Error: standard output cannot be written: No space left on device\n"


@pytest.mark.real
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_reader_that_leaves_does_not_change_the_verdict(cluster: StoppedCluster, form: str, is_damaged: bool) -> None:
    if is_damaged:
        replica = cluster.replicas[1]
        replica.flip(replica.segment(0), 90)
    reader, writer = os.pipe()
    os.close(reader)
    ended = _process([*cluster.sources, "--format", form], writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (int(is_damaged), b"")


@pytest.mark.real
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_source_whose_name_is_not_utf_8_is_printed_with_escapes(tmp_path: Path, form: str) -> None:
    cluster = StoppedCluster.make(tmp_path / os.fsdecode(b"caf\xe9"), 12)
    ended = _process([*cluster.sources, "--format", form], subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rb"caf\udce9" in ended.stdout
    if form == "json":
        assert json.loads(ended.stdout)["sources"] == cluster.sources
    replica = cluster.replicas[1]
    replica.flip(replica.segment(0), 90)
    ended = _process([*cluster.sources, "/nowhere", "--format", form], subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (2, b"")
    assert rb"caf\udce9" in ended.stdout


@pytest.mark.real
def test_files_are_written_for_names_that_are_not_utf_8(tmp_path: Path) -> None:
    cluster = StoppedCluster.make(tmp_path / os.fsdecode(b"caf\xe9"), 12)
    replica = cluster.replicas[1]
    replica.flip(replica.segment(0), 90)
    out = tmp_path / os.fsdecode(b"out\xe9")
    ended = _process([*cluster.sources, "--out", str(out)], subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (1, b"")
    assert r"caf\udce9" in (out / "index.html").read_text()
    with (out / "violations.parquet").open("rb") as file:
        assert r"caf\udce9" in pq.read_table(file).column("source")[0].as_py()


def _process(arguments: list[str], stdout: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ledgermq", "validate", *arguments]
    # As most users have them: a full disk is noticed when the output is flushed, and the encoding is strict.
    environment = {**os.environ, "PYTHONUNBUFFERED": "", "PYTHONIOENCODING": "utf-8:strict"}
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False)
