"""What was changed in the directory of a run makes the run void, and what no run writes is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import ChaosError
from chaos.live.judging import judged
from ledger.history import HistoryError
from tests.chaos.live.written_run import SECOND, verdict, write_run


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
        (("promise", "nodes"), "123"), (("promise", "queues"), {"t": 10**12}), (("promise", "holders"), {"t": [[1]]}),
        (("promise", "holders"), {"u": [[1]]}), (("promise", "faults"), -1),
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
