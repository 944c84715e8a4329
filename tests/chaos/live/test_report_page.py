"""The page of a chaos run, from the files of a run written by hand: no node starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from chaos.live.judging import judged
from chaos.live.load.processes import ClientOfRun
from chaos.live.nemesis import Struck
from chaos.live.options import ChaosOptions
from chaos.live.promise import RunPromise, promised_files
from chaos.live.report.headline import headline
from chaos.live.report.page import write_report
from chaos.live.run_file import RunFile
from ledger.history import HistoryWriter, Operation
from tests.chaos.live.tell import closed, opened, poll, send

pytestmark = pytest.mark.long

SECOND = 1_000_000_000
OPTIONS = ChaosOptions(
    env="local", nodes=3, faults=("kill",), targets=("leader",), seconds=20, rate=2, seed=7, flush="async", shards=1
)
STRUCK = {
    "kind": "kill", "target": "leader", "nodes": [1], "start": 4 * SECOND, "end": 6 * SECOND,
    "evidence": ["process 17 <killed>; it is gone"], "void": "", "leader": 1,
}  # fmt: skip
NODES = (1, 2, 3)
CLIENTS = [
    ClientOfRun(1, "producers", was_killed=False),
    ClientOfRun(2, "consumers", was_killed=False),
    ClientOfRun(3, "final", was_killed=False),
]
LEADERS = [{"at": 0, "leaders": {"0": [[1, 2]]}}, {"at": 5 * SECOND, "leaders": {"0": [[2, 3]]}}]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return a_run(tmp_path)


def a_run(directory: Path, *, lost: int = 0) -> Path:
    """The directory of a run of 20 s. The last `lost` acknowledged messages are in no queue at its end."""
    directory.mkdir(exist_ok=True)
    sends = [send(n, n, at=(n * SECOND // 3, n * SECOND // 3 + 2_000_000 * (1 + n % 5))) for n in range(60)]
    kept = [(n, n) for n in range(60 - lost)]
    after = (21 * SECOND, 22 * SECOND)
    last = [poll(*kept, process=9 + node, node=node, final=True, at=after) for node in NODES]
    files: dict[int, list[Operation]] = {1: [opened(), *sends, closed()], 2: [poll(*kept, at=after)], 3: [*last]}
    for number, operations in files.items():
        with HistoryWriter(directory / f"client-{number}.jsonl") as history:
            for operation in operations:
                history.write(operation)
    (directory / "faults.jsonl").write_text(json.dumps(STRUCK) + "\n")
    (directory / "leaders.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LEADERS))
    promise = RunPromise(promised_files(directory, CLIENTS), NODES, {"t": 1}, 1)
    RunFile(OPTIONS, 0, 20 * SECOND, "", promise).save(directory)
    return directory


def test_the_page_has_the_verdict_the_faults_and_the_command(run: Path) -> None:
    page = write_report(judged(run), run).read_text(encoding="utf-8")
    assert ">valid</span>" in page
    assert "Chaos run, seed 7" in page
    assert "<p><b>1 leader killed, 60 messages acknowledged, none lost, longest pause 0.34 s.</b></p>" in page
    assert page.index("1 leader killed") < page.index("<table>")
    assert "The load lasted 20 s (20 s were asked for)" in page
    assert "<b>60</b>messages acknowledged" in page
    assert "<div>process 17 &lt;killed&gt;</div><div>it is gone</div>" in page
    assert "ledgermq chaos run --env local --nodes 3 --seed 7 --faults kill" in page
    assert page.count("<svg") == 1
    assert (run / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (run / "timeline.svg").read_text(encoding="utf-8")


def test_an_anomaly_is_shown_with_the_operations_of_the_history(tmp_path: Path) -> None:
    run = a_run(tmp_path / "lost", lost=1)
    result = judged(run)
    assert result.verdict.valid is False
    page = write_report(result, run).read_text(encoding="utf-8")
    assert ">not valid</span>" in page
    assert "1 leader killed, 60 messages acknowledged, 1 lost, longest pause 0.34 s." in page
    (anomaly, *_) = [anomaly for finding in result.verdict.findings for anomaly in finding.shown]
    assert f"<b>{anomaly.kind}</b>" in page
    assert page.count("<pre>{") >= len(anomaly.operations) > 0


def struck(kind: str, *nodes: int, leader: int = 1, void: str = "") -> Struck:
    return Struck(kind, "one", nodes, 4 * SECOND, 6 * SECOND, ("seen",), void, leader)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([struck("kill", 1), struck("kill", 1), struck("kill", 1)], "3 leaders killed, "),
        ([struck("kill", 2), struck("kill", 1, 2)], "3 nodes killed (1 leader among them), "),
        ([struck("kill", 2)], "1 node killed, "),
        ([struck("bit-flip", 2), struck("bit-flip", 3)], "2 faults (bit-flip), "),
        ([struck("kill", 2), struck("pause", 3)], "2 faults of 2 kinds, "),
        ([struck("kill", 2, void="nothing was seen")], "no fault, "),
    ],
)
def test_the_first_sentence_says_what_struck(run: Path, faults: list[Struck], words: str) -> None:
    assert headline(replace(judged(run), struck=tuple(faults))).startswith(words)


def test_what_the_nodes_did_about_damage_stands_beside_the_fault(run: Path) -> None:
    damage = replace(struck("bit-flip", 2), repairs=("node 2: shard 0: entries 3 to 5 are repaired",))
    later = replace(struck("kill", 2), start=5 * SECOND)
    page = write_report(replace(judged(run), struck=(damage, later)), run).read_text(encoding="utf-8")
    assert "What the nodes did about the damage:</b></div><div>node 2: shard 0: entries 3 to 5 are repaired<" in page


def test_the_same_run_gives_the_same_files(run: Path) -> None:
    def written() -> list[bytes]:
        page = write_report(judged(run), run)
        return [page.read_bytes(), (run / "timeline.svg").read_bytes()]

    assert written() == written()


def test_nothing_is_loaded_from_a_network(run: Path) -> None:
    page = write_report(judged(run), run).read_text(encoding="utf-8")
    for attribute in ('src="', 'href="http', "url(http", "@import"):
        assert attribute not in page
