"""What is missing makes a run void, by name. The runs are written by hand: no node starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.errors import ChaosError
from chaos.live.checker.verdict import HistoryVerdict
from chaos.live.judging import judged
from chaos.live.load.processes import ClientOfRun
from chaos.live.options import ChaosOptions
from chaos.live.promise import RunPromise, broken_promises, promised_files
from chaos.live.run_file import RunFile
from ledger.history import HistoryError, HistoryWriter, Operation
from tests.chaos.live.tell import assign, closed, opened, poll, progress, send

SECOND = 1_000_000_000
NODES = (1, 2, 3)
OPTIONS = ChaosOptions(
    env="local", nodes=3, faults=("kill",), targets=(), seconds=20, rate=1, seed=7, flush="async", shards=1
)
CLIENTS = [
    ClientOfRun(1, "producers", was_killed=False),
    ClientOfRun(2, "producers", was_killed=True),
    ClientOfRun(3, "consumers", was_killed=False),
    ClientOfRun(4, "final", was_killed=False),
]


def fault(start: int, void: str = "") -> dict[str, object]:
    times = {"start": start * SECOND, "end": (start + 1) * SECOND}
    return {"kind": "kill", "target": "one", "nodes": [2], **times, "evidence": ["killed"], "void": void, "leader": 1}


def write_run(
    out: Path,
    faults: tuple[dict[str, object], ...] = (fault(4),),
    *,
    planned: int | None = None,
    load_s: int = 20,
    with_promise: bool = True,
) -> Path:
    """Write a whole and valid run of 40 messages in two queues of topic t."""
    out.mkdir(exist_ok=True)
    sent = [(number, number // 2) for number in range(40)]
    queues = [[(offset, number) for number, offset in sent if number % 2 == queue] for queue in (0, 1)]
    sends = [
        send(number, offset, queue=number % 2, at=(number * SECOND // 2, number * SECOND // 2 + SECOND // 10))
        for number, offset in sent
    ]
    after = (30 * SECOND, 31 * SECOND)
    files: dict[int, list[Operation]] = {
        1: [opened(), *sends, closed()],
        2: [],
        3: [assign(0), poll(*queues[0], at=after), progress(1, 5, 6)],
        4: [
            poll(*queues[queue], queue=queue, process=100 + node, node=node, final=True, at=after)
            for node in NODES
            for queue in (0, 1)
        ],
    }
    for number, operations in files.items():
        with HistoryWriter(out / f"client-{number}.jsonl") as history:
            for operation in operations:
                history.write(operation)
    with (out / "client-2.jsonl").open("a") as file:
        file.write('{"op":"send","proc')  # it was killed in the middle of a line
    (out / "faults.jsonl").write_text("".join(json.dumps(one) + "\n" for one in faults))
    (out / "leaders.jsonl").write_text(json.dumps({"at": 0, "leaders": {"0": [[1, 2]]}}) + "\n")
    count = len(faults) if planned is None else planned
    promise = RunPromise(promised_files(out, CLIENTS), NODES, {"t": 2}, count) if with_promise else None
    RunFile(OPTIONS, 0, load_s * SECOND, "", promise).save(out)
    return out


def verdict(out: Path) -> HistoryVerdict:
    return judged(out).verdict


def without(path: Path, *marks: str) -> None:
    """Remove the lines that contain all marks."""
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not all(mark in line for mark in marks)]
    assert len(kept) < len(lines)
    path.write_text("".join(kept))


def test_a_whole_run_is_valid_and_tells_of_the_line_that_a_killed_client_did_not_finish(tmp_path: Path) -> None:
    whole = verdict(write_run(tmp_path))
    assert (whole.valid, whole.void) == (True, ())
    assert whole.notes == ("client-2.jsonl ends in the middle of a line, which is not judged: its client was killed",)


def cut_last_line(out: Path) -> None:
    path = out / "client-1.jsonl"
    path.write_bytes(path.read_bytes()[:-10])


def lose_reads(out: Path, *nodes: int) -> None:
    for node in nodes:
        without(out / "client-4.jsonl", f'"node":{node}', '"final":true')


def empty_history(out: Path) -> None:
    (out / "client-3.jsonl").write_text("")


TAMPERED: dict[str, Callable[[Path], None]] = {
    "the final readings of node 3 are missing": lambda out: lose_reads(out, 3),
    "the final readings of node 2 are missing": lambda out: lose_reads(out, 2, 3),
    "client-3.jsonl is missing: the history of client 3 (consumers)": lambda out: (out / "client-3.jsonl").unlink(),
    "client-3.jsonl has 0 of its 3 lines: the history of client 3 (consumers) is not whole": empty_history,
    "client-1.jsonl has 41 of its 42 lines: the history of client 1 (producers) is not whole": cut_last_line,
    "faults.jsonl is missing: the record of the faults": lambda out: (out / "faults.jsonl").unlink(),
    "leaders.jsonl is missing: the record of the leaders": lambda out: (out / "leaders.jsonl").unlink(),
}


@pytest.mark.parametrize("sentence", TAMPERED)
def test_what_is_missing_makes_the_run_void_by_name(tmp_path: Path, sentence: str) -> None:
    TAMPERED[sentence](write_run(tmp_path))
    found = verdict(tmp_path)
    assert found.valid is None
    assert sentence in found.void


def test_a_line_added_in_half_is_told_too(tmp_path: Path) -> None:
    with (write_run(tmp_path) / "client-3.jsonl").open("a") as file:
        file.write('{"op":"poll"')
    assert verdict(tmp_path).void == (
        "client-3.jsonl ends in the middle of a line: the history of client 3 (consumers) is not whole",
    )


def test_a_run_that_promises_nothing_is_void_and_its_final_readings_are_those_of_all_its_nodes(tmp_path: Path) -> None:
    out = write_run(tmp_path, with_promise=False)
    nothing = "run.json does not promise any files or final readings: it was changed, or is of an older version"
    assert (verdict(out).valid, verdict(out).void) == (None, (nothing,))
    without(out / "client-4.jsonl", '"node":3')
    assert verdict(out).void == ("the final readings of node 3 are missing", nothing)


def test_a_queue_that_was_not_read_from_one_node_is_no_divergence(tmp_path: Path) -> None:
    out = write_run(tmp_path)
    without(out / "client-4.jsonl", '"node":3', '"queue":1')
    found = verdict(out)
    assert (found.valid, found.anomalies) == (None, 0)
    assert "the final readings of node 3 are missing for t:1" in found.void


def test_messages_of_a_missing_producer_do_not_count_as_phantoms(tmp_path: Path) -> None:
    out = write_run(tmp_path)
    without(out / "client-1.jsonl", '"op":"send"', '"sequence":7,')
    found = verdict(out)
    assert (found.valid, found.anomalies) == (None, 0)
    assert found.notes[0].startswith("phantom: 3 found, which do not count")


def test_an_anomaly_that_does_not_follow_from_what_is_missing_counts(tmp_path: Path) -> None:
    out = write_run(tmp_path)
    (out / "client-3.jsonl").unlink()
    changed(out / "client-1.jsonl", '"offset":3,', '"offset":4,')
    found = verdict(out)
    assert found.valid is False
    assert len(found.void) == 2


def change_run(out: Path, **values: object) -> None:
    told = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**told, **values}))


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def forget_consumers(out: Path) -> None:
    """Remove the history of the consumers, and its promise."""
    promise = json.loads((out / "run.json").read_text())["promise"]
    promise["files"] = [file for file in promise["files"] if file["role"] != "consumers"]
    change_run(out, promise=promise)
    (out / "client-3.jsonl").unlink()


def copy_history(out: Path, name: str) -> None:
    shutil.copy(out / "client-1.jsonl", out / f"{name}.jsonl")


CHANGED: dict[str, Callable[[Path], None]] = {
    "client-1.jsonl was changed after the run: the history of client 1 (producers)": lambda out: changed(
        out / "client-1.jsonl", '"outcome":"ok","topic":"t","queue":0,"bound":true,"offset":0',
        '"outcome":"unknown","topic":"t","queue":0,"bound":true,"offset":null',
    ),
    "client-3.jsonl was changed after the run: the history of client 3 (consumers)": lambda out: changed(
        out / "client-3.jsonl", '"group":"g"', '"group":"h"'
    ),
    "faults.jsonl was changed after the run: the record of the faults": lambda out: changed(
        out / "faults.jsonl", '"killed"', '"wiped"'
    ),
    "run.json was changed after the run": lambda out: change_run(out, ended=19 * SECOND),
    "run.json has no digest of itself: it was changed, or is of an older version": lambda out: change_run(
        out, digest=""
    ),
    "run.json names no client of the role 'consumers'": forget_consumers,
    "run.json does not name the client of client-9.jsonl, so its history is not judged": lambda out: copy_history(
        out, "client-9"
    ),
    "run.json does not name the client of client-x.jsonl, so its history is not judged": lambda out: copy_history(
        out, "client-x"
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CHANGED)
def test_what_was_changed_makes_the_run_void_by_name(tmp_path: Path, sentence: str) -> None:
    CHANGED[sentence](write_run(tmp_path))
    found = verdict(tmp_path)
    assert found.valid is None
    assert sentence in found.void


def test_an_option_with_a_default_value_is_missed_too(tmp_path: Path) -> None:
    told = json.loads((write_run(tmp_path) / "run.json").read_text())
    del told["options"]["secure"]
    (tmp_path / "run.json").write_text(json.dumps(told))
    assert verdict(tmp_path).void == ("run.json was changed after the run",)


RUBBISH: dict[str, tuple[str, str]] = {
    "run.json: options.nodes: Field required": ("run.json", '{"options":{"env":"local"}}'),
    "run.json: Invalid JSON": ("run.json", "[" * 100_000),
    "faults.jsonl:1: kind: Field required": ("faults.jsonl", "{}\n"),
    "faults.jsonl:1: Invalid JSON": ("faults.jsonl", "\0\n"),
    "leaders.jsonl:1: leaders.0.0: Input should be a valid": ("leaders.jsonl", '{"at":1,"leaders":{"0":[3]}}\n'),
    "client-3.jsonl:1: is no operation": ("client-3.jsonl", "[" * 100_000 + "\n"),
}


@pytest.mark.parametrize("sentence", RUBBISH)
def test_a_file_that_no_run_writes_is_refused_by_name_and_line(tmp_path: Path, sentence: str) -> None:
    name, content = RUBBISH[sentence]
    (write_run(tmp_path) / name).write_text(content)
    with pytest.raises((ChaosError, HistoryError)) as refused:
        judged(tmp_path)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("options", "rate"), "x"), (("options", "rate"), float("nan")), (("options", "nodes"), 10**30),
        (("began",), None), (("ended",), 10**30), (("ended",), 0), (("unrecovered",), 3),
        (("promise", "nodes"), "123"), (("promise", "queues"), {"t": 10**12}), (("promise", "faults"), -1),
        (("promise", "files"), [{"name": "../a.jsonl", "what": "", "lines": 1, "digest": ""}]),
    ],
)  # fmt: skip
def test_a_value_that_no_run_writes_is_refused(tmp_path: Path, place: tuple[str, ...], value: object) -> None:
    out = write_run(tmp_path)
    told = json.loads((out / "run.json").read_text())
    inner = told
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    (out / "run.json").write_text(json.dumps(told))
    with pytest.raises(ChaosError, match=r"run\.json"):
        judged(out)


def test_one_weak_fault_among_good_ones_is_a_note(tmp_path: Path) -> None:
    good = tuple(fault(start) for start in range(2, 16, 2))
    found = verdict(write_run(tmp_path, (*good, fault(17, void="nothing was lost"))))
    assert found.valid is True
    assert "kill of node 2 left no evidence: nothing was lost; this fault does not count" in found.notes


def test_weak_faults_that_are_half_of_all_make_the_run_void(tmp_path: Path) -> None:
    found = verdict(write_run(tmp_path, (fault(2), fault(5, void="nothing was lost"))))
    assert found.valid is None
    assert found.void == ("kill of node 2 left no evidence: nothing was lost",)


def test_a_load_that_lasted_longer_and_faults_that_never_struck_are_told(tmp_path: Path) -> None:
    found = verdict(write_run(tmp_path, planned=3, load_s=33))
    assert found.valid is True
    assert "the load lasted 33 s instead of 20 s: faults were healed late" in found.notes
    assert "only 1 of 3 planned faults struck" in found.notes


def test_the_start_of_the_clients_is_not_the_longest_pause(tmp_path: Path) -> None:
    out = write_run(tmp_path)
    result = judged(out)
    assert result.pause().seconds == 0.5  # two messages a second, the first one after 0.1 s
    late = replace(result, began=-7 * SECOND)
    assert late.pause() == result.pause()
    assert (late.first_acknowledged() - late.began) / SECOND == 7.1


def test_a_first_acknowledgement_that_comes_late_is_told(tmp_path: Path) -> None:
    lines = (write_run(tmp_path) / "client-1.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "client-1.jsonl").write_text("".join([lines[0], *lines[17:]]))
    assert "the first message was acknowledged 8.1 s after the load began" in verdict(tmp_path).notes


def test_a_client_that_was_killed_before_its_first_line_promises_nothing(tmp_path: Path) -> None:
    out = write_run(tmp_path)
    (out / "client-2.jsonl").unlink()
    promise = RunPromise(promised_files(out, CLIENTS), NODES, {"t": 2}, 1)
    assert [file.name for file in promise.files if not file.digest] == ["client-2.jsonl"]
    assert broken_promises(out, promise).sentences == ()
    (out / "client-2.jsonl").write_text("")
    assert broken_promises(out, promise).sentences == (
        "client-2.jsonl was changed after the run: the history of client 2 (producers)",
    )
