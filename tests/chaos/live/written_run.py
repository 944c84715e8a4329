"""A whole and valid chaos run, written by hand: no node starts."""

from __future__ import annotations

import json
from pathlib import Path

from chaos.live.checker.verdict import HistoryVerdict
from chaos.live.judging import judged
from chaos.live.load.processes import ClientOfRun
from chaos.live.options import ChaosOptions
from chaos.live.promise import RunPromise, promised_files
from chaos.live.run_file import RunFile
from ledger.history import HistoryWriter, Operation
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
