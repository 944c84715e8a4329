"""The page of a validation: what a reader finds on it, and that it is bounded."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.report.marks import marks_of, without_place
from ledger.validation.report.page import PICTURES, ROWS, console_page, write_page
from ledger.validation.report.plots import REPLICAS_DRAWN, draw, names_of
from ledger.validation.report.report import COURSE_POINTS, ValidationReport
from ledger.validation.validate import validate
from tests.ledger.validation.plants import PLANTS
from tests.ledger.validation.stopped_cluster import StoppedCluster


@pytest.fixture
def cluster(tmp_path: Path) -> StoppedCluster:
    return StoppedCluster.make(tmp_path)


def judged(cluster: StoppedCluster, *plants: str) -> ValidationReport:
    for name in plants:
        PLANTS[name](cluster)
    return validate(cluster.sources, PlainEngine(), span_bytes=1024)


def page_of(report: ValidationReport, path: Path) -> str:
    return write_page(report, path).read_text(encoding="utf-8")


def pictures_in(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def words_of(picture: str) -> str:
    return " | ".join(ElementTree.fromstring(picture).itertext())


def test_a_valid_report_shows_its_replicas_and_no_violation(cluster: StoppedCluster, tmp_path: Path) -> None:
    report = judged(cluster)
    page = page_of(report, tmp_path)
    assert ">valid</span>" in page
    assert "Exit status 0" in page
    for source in cluster.sources:
        assert source in page
    (state,) = {replica.state for replica in report.shards[0].replicas}
    assert page.count(str(state)) == 3
    (picture,) = pictures_in(page)
    said = words_of(picture)
    for name in ("node 1", "node 2", "node 3"):
        assert f"{name}: position in the log, no violation" in said
    assert "replicas differ" not in said


def test_violations_are_in_the_table_and_in_the_picture(cluster: StoppedCluster, tmp_path: Path) -> None:
    report = judged(cluster, "a committed suffix cut off in one replica", "a flipped bit in a body")
    page = page_of(report, tmp_path)
    assert ">violated</span>" in page
    assert "Exit status 1" in page
    assert report.violations
    for violation in report.violations:
        assert escape(violation.reason) in page
        assert violation.kind.value in page
    said = words_of(pictures_in(page)[0])
    assert "damaged entry" in said
    for kind in {kind for kind, _ in report.counts} - without_place(report.shards[0], report.violations).keys():
        assert kind in said
    lacking = [replica for replica in report.shards[0].replicas if replica.behind]
    assert lacking
    for replica in lacking:
        assert f" {replica.behind:,} " in said


def test_a_mark_is_at_its_index_and_position_on_its_own_replica_only(cluster: StoppedCluster) -> None:
    report = judged(cluster, "a flipped bit in a body")
    shard, (violation,) = report.shards[0], report.violations
    marks = {replica.node: marks_of(replica, report.violations) for replica in shard.replicas}
    assert marks[1] == marks[3] == []
    (mark,) = marks[2]
    assert (mark.kind, mark.index, mark.position) == (violation.kind, violation.index, violation.position)


def test_a_mark_is_drawn_in_the_panel_of_its_replica(cluster: StoppedCluster) -> None:
    report = judged(cluster, "a flipped bit in a body")
    (violation,) = report.violations
    figure = draw(report.shards[0], report.violations)
    points = {
        axes.get_title(loc="left"): [
            tuple(np.asarray(line.get_xydata())[0].tolist()) for line in axes.lines if line.get_marker() == "o"
        ]
        for axes in figure.axes
        if "position in the log" in axes.get_title(loc="left")
    }
    assert points == {
        "node 1: position in the log, no violation": [],
        "node 2: position in the log, 1 violation": [(violation.index, violation.position)],
        "node 3: position in the log, no violation": [],
    }


def test_a_violation_of_a_file_beside_the_log_lies_on_the_course_of_the_log(cluster: StoppedCluster) -> None:
    report = judged(cluster)
    shard, replica = report.shards[0], report.shards[0].replicas[0]
    unit = Violation(ViolationKind.UNIT_WRONG, 0, replica.source, "", index=30, position=7_777_777)
    (mark,) = marks_of(replica, [unit])
    header = cluster.replicas[0].headers()[29]
    assert abs(mark.position - header.position) < 1024
    nowhere = Violation(ViolationKind.UNIT_SURPLUS, 0, replica.source, "", position=5)
    assert marks_of(replica, [nowhere]) == []
    assert without_place(shard, [unit, nowhere]) == {"unit surplus": 1}


def test_the_course_of_a_log_is_made_of_its_entries(cluster: StoppedCluster) -> None:
    headers = cluster.replicas[0].headers()
    course = judged(cluster).shards[0].replicas[0].course
    assert course[0] == (1, headers[0].position)
    assert course[-1] == (headers[-1].index, headers[-1].position)
    assert set(course) <= {(header.index, header.position) for header in headers}
    fine = validate(cluster.sources, PlainEngine(), span_bytes=104).shards[0].replicas[0].course
    assert len(fine) <= COURSE_POINTS < 2 * len(headers)
    assert (fine[0], fine[-1]) == (course[0], course[-1])


@pytest.mark.long
def test_the_page_is_bounded_and_says_what_it_leaves_out(cluster: StoppedCluster, tmp_path: Path) -> None:
    report = judged(cluster)
    one, (replica, *_) = report.shards[0], report.shards[0].replicas
    replicas = tuple(replace(replica, source=f"copy {number}") for number in range(REPLICAS_DRAWN + 2))
    shards = tuple(replace(one, shard=number, replicas=replicas[:1]) for number in range(PICTURES + 3))
    wrong = [
        Violation(ViolationKind.DAMAGED_ENTRY, PICTURES + 2, "copy 0", f"reason {number}.", index=1 + number % 60)
        for number in range(ROWS + 5)
    ]
    many = replace(
        report,
        shards=(replace(one, replicas=replicas), *shards[1:]),
        violations=tuple(wrong),
        counts=(("damaged entry", 12_345),),
    )
    page = page_of(many, tmp_path)
    pictures = pictures_in(page)
    assert len(pictures) == PICTURES
    assert "damaged entry" in words_of(
        pictures[-1]
    )  # the shard where something is wrong has one, though it is the last
    assert "2 replicas more are not in the picture" in page
    assert f"reason {ROWS - 1}." in page
    assert f"reason {ROWS}." not in page
    assert f"{12_345 - ROWS:,} violations more" in page
    assert "No picture" in page


def test_a_report_without_shards_says_why(tmp_path: Path) -> None:
    report = validate(["/nowhere/<b>"], PlainEngine())
    page = page_of(report, tmp_path)
    assert "could not be judged" in page
    assert "Exit status 2" in page
    assert "/nowhere/&lt;b&gt;" in page
    assert pictures_in(page) == []


def test_replicas_of_the_same_node_are_told_apart(cluster: StoppedCluster) -> None:
    replica = judged(cluster).shards[0].replicas[0]
    assert names_of([replica, replace(replica, source="copy")]) == [names_of([replace(replica, node=None)])[0], "copy"]
    assert names_of([replica]) == ["node 1"]


@pytest.mark.parametrize(
    ("source", "page"),
    [
        ("http://127.0.0.1:9872/shards/3", "http://127.0.0.1:9872/console/shards/3"),
        ("https://[::1]:9872/shards/3", "https://[::1]:9872/console/shards/3"),
        ("/var/lib/ledgermq/shard-3", ""),
        ("javascript:alert(1)//http://x", ""),
    ],
)
def test_the_replica_of_a_running_node_is_linked_to_its_console(source: str, page: str) -> None:
    assert console_page(source, 3) == page
