"""What is missing makes a run void, by name. The runs are written by hand: no node starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.live.judging import judged
from chaos.live.promise import RunPromise, broken_promises, promised_files
from tests.chaos.live.written_run import CLIENTS, NODES, SECOND, fault, verdict, without, write_run


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
    history = out / "client-1.jsonl"
    history.write_text(history.read_text().replace('"offset":3,', '"offset":4,', 1))
    found = verdict(out)
    assert found.valid is False
    assert len(found.void) == 2


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
