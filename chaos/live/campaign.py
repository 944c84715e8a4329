"""A campaign runs every kind of fault several times and records the result of each run in a ledger file.

    LEDGER (JSON lines)   {"fault":"kill","seed":3,"options":{...},"verdict":true,"anomalies":0,"acknowledged":58213,
                           "struck":9,"void":[],"gaps_s":[0.62,...],"commit":"abc","at":"2026-11-21T15:00:00+00:00"}

A campaign takes hours. A campaign can be interrupted at any time: the next start skips the runs that the ledger already
contains. The files of a run are kept only if the run was not valid.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from chaos.errors import ChaosError
from chaos.live.judging import ChaosResult, judged
from chaos.live.options import ChaosOptions, as_arguments, shards_for


@dataclass(frozen=True, slots=True)
class CampaignEntry:
    """The result of one run. `verdict` is None if the run could not be judged. `gaps_s` has the longest time in seconds
    without an acknowledged write of each fault, but no time of a fault that struck and ended in the pause of another
    fault. If there is no verdict, `void` has the reason: evidence was
    missing, or the run could not be made.
    """

    fault: str
    seed: int
    nodes: int
    flush: str
    env: str
    seconds: float
    rate: float
    verdict: bool | None
    anomalies: dict[str, int]
    acknowledged: int
    unknown: int
    struck: int
    gaps_s: list[float]
    void: list[str]
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class CampaignLedger:
    """Reads and writes the ledger file of a campaign. The file is created after the first run."""

    path: Path

    def entries(self) -> list[CampaignEntry]:
        """Return all entries, or an empty list if the file does not exist. Raises ChaosError if the file is not a
        ledger.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        try:
            return [CampaignEntry(**json.loads(line)) for line in lines]
        except (ValueError, TypeError) as error:
            raise ChaosError(f"{self.path} is not the ledger of a campaign: {error}; name another --ledger") from error

    def add(self, entry: CampaignEntry) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")


def runs(
    faults: Sequence[str], count: int, wish: ChaosOptions, done: Iterable[CampaignEntry]
) -> Iterator[ChaosOptions]:
    """Return the runs that the ledger does not contain yet. For each fault, the campaign has runs with the seeds 1 to
    `count`. The faults take turns. A run that could not be judged is made again.
    """
    there = {
        (one.fault, one.seed, one.nodes, one.flush, one.env, one.seconds, one.rate)
        for one in done
        if one.verdict is not None
    }
    for seed in range(1, count + 1):
        for fault in faults:
            if (fault, seed, wish.nodes, wish.flush, wish.env, wish.seconds, wish.rate) not in there:
                yield replace(wish, faults=(fault,), seed=seed, shards=shards_for((fault,)))


def carry_out(
    waiting: Iterable[ChaosOptions],
    ledger: CampaignLedger,
    directory: Path,
    commit: str,
    told: Callable[[CampaignEntry], None],
) -> None:
    """Make one run after another and add each result to `ledger`. Each run writes its files into a subdirectory of
    `directory`; the files of a valid run are removed.
    """
    for options in waiting:
        out = directory / f"{options.faults[0]}-{options.nodes}-{options.flush}-{options.seed}"
        shutil.rmtree(out, ignore_errors=True)
        try:
            entry = _entry(_made(options, out), commit)
        except ChaosError as error:
            entry = _not_made(options, str(error), commit)
        ledger.add(entry)
        told(entry)
        if entry.verdict:
            shutil.rmtree(out, ignore_errors=True)


def _made(options: ChaosOptions, out: Path) -> ChaosResult:
    """Make one run in a separate process, because a run leaves the network of this machine for good."""
    command = [sys.executable, "-m", "chaos", *as_arguments(options), "--out", str(out), "--json"]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in (0, 1) and not (out / "run.json").exists():
        raise ChaosError(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else "the run printed no error")
    return judged(out)


def _entry(result: ChaosResult, commit: str) -> CampaignEntry:
    verdict = result.verdict
    return replace(
        _not_made(result.options, "", commit),
        verdict=verdict.valid,
        anomalies={finding.kind: finding.count for finding in verdict.findings if finding.count},
        acknowledged=verdict.figures["acknowledged"],
        unknown=verdict.figures["unknown"],
        struck=len(result.struck),
        gaps_s=[round(pause.seconds, 3) for pause in result.pauses() if pause is not None],
        void=list(verdict.void),
    )


def _not_made(options: ChaosOptions, why: str, commit: str) -> CampaignEntry:
    return CampaignEntry(
        fault=options.faults[0],
        seed=options.seed,
        nodes=options.nodes,
        flush=options.flush,
        env=options.env,
        seconds=options.seconds,
        rate=options.rate,
        verdict=None,
        anomalies={},
        acknowledged=0,
        unknown=0,
        struck=0,
        gaps_s=[],
        void=[why],
        commit=commit,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def table(entries: Iterable[CampaignEntry]) -> list[dict[str, Any]]:
    """Return the table of docs/RELIABILITY.md. The table has one row for each combination of fault, number of
    nodes, flush mode and environment."""
    rows: dict[tuple[str, int, str, str], list[CampaignEntry]] = {}
    for entry in entries:
        rows.setdefault((entry.fault, entry.nodes, entry.flush, entry.env), []).append(entry)
    return [_row(*key, ones) for key, ones in sorted(rows.items())]


def _row(fault: str, nodes: int, flush: str, env: str, entries: list[CampaignEntry]) -> dict[str, Any]:
    gaps = [gap for entry in entries for gap in entry.gaps_s]
    return {
        "fault": fault,
        "env": env,
        "nodes": nodes,
        "flush": flush,
        "runs": len(entries),
        "struck": sum(entry.struck for entry in entries),
        "acknowledged": sum(entry.acknowledged for entry in entries),
        "anomalies": sum(sum(entry.anomalies.values()) for entry in entries),
        "void": sum(entry.verdict is None for entry in entries),
        **{f"{name}_s": _quantile(gaps, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))},
    }


def _quantile(gaps: list[float], share: float) -> float | None:
    return round(float(np.quantile(gaps, share)), 2) if gaps else None
