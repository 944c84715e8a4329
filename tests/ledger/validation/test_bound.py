"""Tests a log with too many violations: the first violations of each kind are reported, and all are counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ledger.validation.judging.bound import MAX_TOLD, Bound
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.replica_check import Checked, check_replica
from ledger.validation.report.report import SHOWN, VIOLATED, ValidationReport
from ledger.validation.report.summary import as_text
from ledger.validation.sources.place import places_of
from ledger.validation.validate import validate
from store import FlawKind
from tests.ledger.validation.stopped_cluster import SEGMENT, StoppedCluster
from tests.ledger.validation.wrong_everywhere import COUNTS, UNITS, write_wrong_log


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> ValidationReport:
    source, history = write_wrong_log(tmp_path_factory.mktemp("wrong"))
    return validate([source], PlainEngine(), histories=[history])


def test_all_are_counted_and_the_first_ones_of_each_kind_told(judged: ValidationReport) -> None:
    assert judged.status == VIOLATED
    assert dict(judged.counts) == {kind.value: count for kind, count in COUNTS.items()}
    assert judged.written == UNITS + MAX_TOLD * (len(COUNTS) - 1)
    told = Counter(violation.kind for violation in judged.violations)
    assert told == dict.fromkeys(COUNTS, SHOWN)
    missing = [violation.offset for violation in judged.violations if violation.kind.value == "acknowledged missing"]
    assert missing == list(range(SHOWN))


def test_text_and_json_say_how_many_there_are(judged: ValidationReport) -> None:
    total = sum(COUNTS.values())
    said = as_text(judged)
    assert f"... and {total - 20:,} violations more, {total - judged.written:,} of which are only counted" in said
    assert f"VIOLATED: {total:,} violations" in said
    fields = judged.fields()
    assert (fields["violation_count"], fields["written"]) == (total, judged.written)
    assert fields["counts"] == dict(judged.counts)


def test_the_page_says_how_many_there_are(judged: ValidationReport, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    from ledger.validation.report.page import write_page

    page = write_page(judged, tmp_path).read_text()
    more = sum(COUNTS.values()) - len(judged.violations)
    assert f"{more:,} violations more, {sum(COUNTS.values()) - judged.written:,} of which are only counted" in page
    assert f"has {judged.written:,}." in page


def test_the_check_of_one_replica_tells_the_first_ones_and_how_many_more_there_are(tmp_path: Path) -> None:
    source, _ = write_wrong_log(tmp_path)
    (place,) = places_of(Path(source))
    checked = Checked()
    flaws = list(check_replica(place, checked))
    counted = [flaw for flaw in flaws if "only counted" in flaw.reason]
    more = COUNTS[ViolationKind.DAMAGED_BATCH] - MAX_TOLD
    assert [flaw.reason.split(" are ")[0] for flaw in counted] == [f"{more:,} more faults of the kind 'damaged batch'"]
    assert len(flaws) == MAX_TOLD + UNITS + 1
    assert checked.kinds == {FlawKind.DAMAGE}


def test_the_check_of_one_replica_counts_its_queues_though_an_entry_is_damaged(tmp_path: Path) -> None:
    replica = StoppedCluster.make(tmp_path).replicas[1]
    header = replica.headers()[-2]
    replica.flip(replica.segment(header.position), header.position % SEGMENT + 90)
    (place,) = places_of(replica.path)
    checked = Checked()
    assert len(list(check_replica(place, checked))) == 1
    assert checked.queues == 3


def test_what_is_left_out_counts_up_to_the_end_of_the_log() -> None:
    """A span does not know where that is."""
    bound = Bound()
    taken = [bound.takes(ViolationKind.SEQUENCE_GAP, position) for position in range(MAX_TOLD + 10)]
    assert sum(taken) == MAX_TOLD
    assert bound.left_out(MAX_TOLD + 4) == {"sequence gap": 4}
    assert bound.left_out() == {"sequence gap": 10}
