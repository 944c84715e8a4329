"""What a reader learns about lost entries: which messages they had, the worst first, and nothing hidden by a limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.report import out_directory
from ledger.validation.report.report import ValidationReport, first_of_each_kind, some_of_each_kind
from ledger.validation.report.summary import as_text, violation_line
from ledger.validation.validate import validate
from store import EntryKind, Header
from tests.ledger.validation.plants import PLANTS
from tests.ledger.validation.stopped_cluster import (
    ORDERS,
    SEGMENT,
    StoppedCluster,
    StoppedReplica,
    topics_of,
)

K = ViolationKind
AT = 20


@pytest.fixture
def cluster(tmp_path: Path) -> StoppedCluster:
    return StoppedCluster.make(tmp_path)


def judged(cluster: StoppedCluster, **options: object) -> ValidationReport:
    return validate(cluster.sources, PlainEngine(), span_bytes=1024, **options)  # type: ignore[arg-type]


def of_kind(report: ValidationReport, kind: ViolationKind) -> Violation:
    (violation,) = [each for each in report.violations if each.kind is kind]
    return violation


def flip(replica: StoppedReplica, header: Header, byte: int = 90) -> None:
    replica.flip(replica.segment(header.position), header.position % SEGMENT + byte)


def words(header: Header) -> str:
    """The messages of a batch, as reports name them."""
    first = f"{topics_of(0)[header.topic_id]}:{header.queue}:{header.base_offset}"
    return first if header.count == 1 else f"{first} to {header.base_offset + header.count - 1}"


def queues_of(headers: Sequence[Header]) -> set[str]:
    return {f"{topics_of(0)[each.topic_id]}:{each.queue}:" for each in headers if each.kind is EntryKind.BATCH}


def test_a_damaged_entry_names_its_messages_by_topic_queue_and_offsets(
    cluster: StoppedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out_directory, "find_spec", lambda _name: None)  # so the file is JSON lines
    header = next(each for each in cluster.replicas[1].headers()[AT:] if each.count == 3)
    flip(cluster.replicas[1], header)
    report = judged(cluster, out=tmp_path / "out")
    violation = of_kind(report, K.DAMAGED_ENTRY)
    name = topics_of(0)[header.topic_id]
    last = header.base_offset + 2
    assert (violation.topic, violation.queue, violation.offset) == (name, header.queue, header.base_offset)
    assert (violation.last_offset, violation.contents) == (last, words(header))
    assert f"with {name}:{header.queue}:{header.base_offset} to {last}," in as_text(report)
    assert report.fields()["violations"][0]["contents"] == words(header)
    (line,) = (tmp_path / "out" / "violations.jsonl").read_text().splitlines()
    assert json.loads(line) == violation.fields()


def test_an_entry_that_is_damaged_everywhere_has_no_known_messages(cluster: StoppedCluster) -> None:
    for replica in cluster.replicas:
        flip(replica, replica.headers()[AT - 1])
    found = [each for each in judged(cluster).violations if each.kind is K.DAMAGED_ENTRY]
    assert [(each.contents, each.topic) for each in found] == [(None, None)] * 3


def test_a_damaged_command_had_no_messages(cluster: StoppedCluster) -> None:
    header = next(each for each in cluster.replicas[1].headers()[AT:] if each.kind is EntryKind.NO_OP)
    cluster.replicas[1].flip(cluster.replicas[1].segment(header.position), header.position % SEGMENT + 20)
    violation = of_kind(judged(cluster), K.DAMAGED_ENTRY)
    assert (violation.index, violation.contents, violation.topic) == (header.index, "no messages", None)


def test_a_missing_segment_names_the_messages_of_all_its_queues(tmp_path: Path) -> None:
    cluster = StoppedCluster.make(tmp_path, batches=200)
    replica = cluster.replicas[1]
    gone = [each for each in replica.headers() if SEGMENT <= each.position < 2 * SEGMENT]
    replica.segment(SEGMENT).unlink()
    report = judged(cluster)
    violation = of_kind(report, K.MISSING_SEGMENT)
    assert violation.index == gone[0].index
    assert violation.contents is not None
    assert len(violation.contents.split(", ")) == len(queues_of(gone)) == 3
    for name in queues_of(gone):
        assert name in violation.contents
    orders = [each for each in gone if each.kind is EntryKind.BATCH and (each.topic_id, each.queue) == (ORDERS, 0)]
    last = orders[-1].base_offset + orders[-1].count - 1
    assert (violation.topic, violation.queue) == ("orders", 0)
    assert (violation.offset, violation.last_offset) == (orders[0].base_offset, last)
    assert f"orders:0:{orders[0].base_offset} to {last}" in as_text(report)


def test_missing_entries_inside_a_span_name_their_messages_in_the_file_too(
    cluster: StoppedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out_directory, "find_spec", lambda _name: None)
    replica = cluster.replicas[1]
    header = replica.headers()[AT - 1]
    replica.rewritten(AT, lambda each, body: None if each.index == AT else (each, body))
    report = validate(cluster.sources, PlainEngine(), out=tmp_path / "out")  # all in one span
    assert of_kind(report, K.MISSING_ENTRIES).contents == words(header)
    rows = [json.loads(line) for line in (tmp_path / "out" / "violations.jsonl").read_text().splitlines()]
    assert [row["contents"] for row in rows if row["kind"] == K.MISSING_ENTRIES] == [words(header)]


def test_sentences_name_topics_and_not_their_ids(cluster: StoppedCluster) -> None:
    PLANTS["a suffix forked in what is committed"](cluster)
    said = as_text(judged(cluster))
    assert "topic orders" in said or "topic events" in said
    assert "topic 1" not in said
    assert "topic 2" not in said


def test_lost_entries_are_named_to_the_last_one_that_their_messages_are_of(cluster: StoppedCluster) -> None:
    replica = cluster.replicas[1]
    first = next(each for each in replica.headers() if each.position >= SEGMENT)
    path = replica.segment(SEGMENT)
    path.write_bytes(path.read_bytes()[: first.size // 2])
    later = [each for each in cluster.replicas[0].headers() if each.position >= 2 * SEGMENT]
    last = later[0].index - 1 if later else cluster.replicas[0].headers()[-1].index
    found = [each for each in judged(cluster).violations if each.kind is K.DAMAGED_ENTRY and each.contents]
    assert {(each.index, each.last_index) for each in found} == {(first.index, last)}
    assert f"entries {first.index} to {last}, with " in violation_line(found[0])


# -- what was cut, and what was not


def test_damage_at_the_end_is_not_called_a_cut_and_is_about_all_entries_to_the_end(cluster: StoppedCluster) -> None:
    replica = cluster.replicas[1]
    headers = replica.headers()
    for header in headers[-3:]:
        flip(replica, header, 20)
    report = judged(cluster)
    assert {each.kind for each in report.violations if each.kind is K.LOG_CUT} == set()
    violation = of_kind(report, K.DAMAGED_ENTRY)
    assert (violation.index, violation.last_index) == (headers[-3].index, headers[-1].index)
    assert "LOG CUT" not in as_text(report)


def test_a_cut_log_is_called_cut_and_names_what_is_gone(cluster: StoppedCluster) -> None:
    headers = cluster.replicas[1].headers()
    PLANTS["a committed suffix cut off in one replica"](cluster)
    cut = next(each for each in judged(cluster).violations if each.kind is K.LOG_CUT)
    assert (cut.index, cut.last_index) == (56, headers[-1].index)
    assert cut.contents is not None
    for name in queues_of(headers[55:]):
        assert name in cut.contents


def test_a_clean_mark_of_a_shorter_log_is_not_called_a_cut(cluster: StoppedCluster) -> None:
    replica = cluster.replicas[1]
    mark = (replica.shard / "clean").read_bytes()
    replica.rewritten(64, lambda header, body: (replace(header, append_time_ms=header.append_time_ms + 1), body))
    (replica.shard / "clean").write_bytes(mark)  # of the entries before the change
    kinds = {each.kind for each in judged(cluster).violations}
    assert K.CLEAN_MARK_WRONG in kinds
    assert K.LOG_CUT not in kinds


# -- files with strange names


def test_a_directory_beside_the_queues_whose_name_is_no_number_is_no_queue(cluster: StoppedCluster) -> None:
    for name in ("²-1", "x", "1-x", "٣-0"):
        (cluster.replicas[1].shard / "queues" / name).mkdir()
    assert judged(cluster).violations == ()


def test_a_segment_at_a_wrong_position_is_not_right_again_before_it(tmp_path: Path) -> None:
    cluster = StoppedCluster.make(tmp_path, batches=200)
    path = cluster.replicas[1].segment(2 * SEGMENT)
    path.rename(path.with_name(f"{SEGMENT + 100:020}"))
    found = [each for each in judged(cluster).violations if each.kind is K.MISSING_SEGMENT]
    assert found
    assert all(each.end is None or each.end > (each.position or 0) for each in found)


# -- the order, and the limit


def many(kind: ViolationKind, count: int, shard: int = 0) -> list[Violation]:
    return [Violation(kind, shard, "node-2", f"reason {number}", index=number) for number in range(count)]


def test_the_worst_comes_first_whatever_its_shard() -> None:
    found = [
        *many(K.UNIT_WRONG, 1),
        *many(K.DAMAGED_ENTRY, 1),
        *many(K.FORKED_TERM, 1, shard=1),
        *many(K.ACKNOWLEDGED_MISSING, 1, shard=2),
    ]
    ordered = [each.kind for each in first_of_each_kind(found)]
    assert ordered == [K.ACKNOWLEDGED_MISSING, K.FORKED_TERM, K.DAMAGED_ENTRY, K.UNIT_WRONG]


def test_what_names_its_entries_comes_before_what_only_has_a_position() -> None:
    nameless = [replace(each, index=None, position=0) for each in many(K.DAMAGED_ENTRY, 1)]
    ordered = first_of_each_kind([*nameless, *many(K.DAMAGED_ENTRY, 2)])
    assert [each.index for each in ordered] == [0, 1, None]


def test_no_kind_is_hidden_by_another_one() -> None:
    found = [*many(K.ACKNOWLEDGED_MISSING, 100), *many(K.DAMAGED_ENTRY, 3), *many(K.KEY_WRONG, 50)]
    shown = some_of_each_kind(found, 20)
    assert len(shown) == 20
    assert [each for each in found if each in shown] == shown
    counts = {kind: sum(each.kind is kind for each in shown) for kind in {each.kind for each in found}}
    assert counts == {K.ACKNOWLEDGED_MISSING: 9, K.DAMAGED_ENTRY: 3, K.KEY_WRONG: 8}
    assert len(some_of_each_kind([each for kind in K for each in many(kind, 4)], 20)) == len(K)


def test_the_text_has_a_line_of_each_kind_and_says_how_many_more_there_are(cluster: StoppedCluster) -> None:
    found = [*many(K.ACKNOWLEDGED_MISSING, 100), *many(K.KEY_WRONG, 1)]
    counts = (("acknowledged missing", 1_000), ("key wrong", 1))
    report = replace(judged(cluster), violations=tuple(found), counts=counts, written=1_001)
    lines = as_text(report).splitlines()
    assert violation_line(found[-1]) in lines
    first = next(number for number, line in enumerate(lines) if line.startswith("ACKNOWLEDGED MISSING"))
    assert lines[first + 19] == "... and 981 more: acknowledged missing"


# -- replicas that are behind


def test_a_replica_that_is_behind_says_why_its_digest_equals_that_of_the_others(cluster: StoppedCluster) -> None:
    replica = cluster.replicas[1].killed()
    (replica.shard / "checkpoint").unlink()
    replica.rewritten(60, lambda _header, _body: None)
    (shard,) = judged(cluster).shards
    behind = next(each for each in shard.replicas if each.node == 2)
    assert (behind.behind, len({each.state for each in shard.replicas})) == (shard.last_index - 59, 1)
    (note,) = [note for note in shard.notes if "same digest" in note]
    assert note.startswith(f"{replica.path} is behind by {behind.behind} entries")
    assert f"compared after entry {shard.state_index}" in note


def test_a_history_that_ends_in_the_middle_of_a_line_is_told(cluster: StoppedCluster, tmp_path: Path) -> None:
    history = cluster.history(tmp_path / "history.jsonl")
    history.write_bytes(history.read_bytes()[:-20])
    report = judged(cluster, histories=[history])
    assert report.acknowledged is not None
    assert report.acknowledged.acknowledged == len(cluster.written) - 1
    assert f"; {history} ends in the middle of a line, which is not judged" in as_text(report)
    assert report.fields()["acknowledged"]["half_lines"] == (str(history),)


@pytest.mark.parametrize("content", ["", '{"op":"send"'])
def test_a_history_without_a_line_is_not_judged(cluster: StoppedCluster, tmp_path: Path, content: str) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(content)
    report = judged(cluster, histories=[history])
    assert report.not_judged == (f"{history} has no whole line, so the logs are not compared with it",)


def test_one_replica_is_behind(cluster: StoppedCluster) -> None:
    cluster.replicas[1].rewritten(60, lambda _header, _body: None)
    assert "; 1 of 3 is behind" in as_text(judged(cluster))


def test_one_history_and_one_message_are_not_plural(cluster: StoppedCluster, tmp_path: Path) -> None:
    history = cluster.history(tmp_path / "history.jsonl", [cluster.send(cluster.written[0])])
    assert "1 message was acknowledged, as 1 history says" in as_text(judged(cluster, histories=[history]))
