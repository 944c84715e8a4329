"""The command `ledgermq log verify` prints the flaws and the verdict of each log, and sets the exit status."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from cluster.cli.log.flaws import flaw_fields, flaw_line
from cluster.cli.log.progress import LogProgress
from ledger.validation.replica_check import Checked, check_replica
from ledger.validation.sources.place import LogPlace
from ledger.words import counted
from store import FlawKind

# The exit status of the command is that of the first verdict here which any log has.
_STATUS = {"damaged": 1, "unknown": 2, "whole": 0}


def verify_logs(places: Sequence[LogPlace], *, as_json: bool) -> int:
    verdicts = []
    with LogProgress(places) as progress:
        for number, place in enumerate(places):
            checked, started = Checked(), time.perf_counter()
            for flaw in check_replica(place, checked, lambda done, number=number: progress.update(number, done)):  # type: ignore[misc]
                _write(json.dumps(flaw_fields(flaw)) if as_json else flaw_line(flaw))
            verdicts.append(_verdict(checked))
            seconds = time.perf_counter() - started
            fields = _fields(place, checked, verdicts[-1], seconds)
            _write(json.dumps(fields) if as_json else _line(place, checked, verdicts[-1], seconds))
    return next((status for verdict, status in _STATUS.items() if verdict in verdicts), 0)


def _verdict(checked: Checked) -> str:
    if FlawKind.DAMAGE in checked.kinds:
        return "damaged"
    return "unknown" if FlawKind.UNKNOWN in checked.kinds else "whole"


def _line(place: LogPlace, checked: Checked, verdict: str, seconds: float) -> str:
    what = "no entries"
    if checked.entries:
        what = (
            f"{counted(checked.entries, 'entry') if checked.entries == 1 else f'{checked.entries:,} entries'} "
            f"({checked.first_index} to {checked.last_index}), ends at {checked.end} in term {checked.last_term}, "
            f"committed up to {checked.known_commit} or later"
        )
    if checked.units:
        what += f"; {counted(checked.units, 'unit')} of {counted(checked.queues, 'queue')}"
    if checked.keys:
        what += f"; {counted(checked.keys, 'key')}"
    speed = place.total_bytes / max(seconds, 1e-9) / 1e6
    files = f"{counted(len(place.segments), 'segment')} read in {seconds:.2f} s, {speed:,.0f} MB/s"
    sentence = {
        "whole": "whole",
        "damaged": "DAMAGED",
        "unknown": "UNKNOWN, written by another version of ledgermq: verify it with that version",
    }[verdict]
    return f"{place.path}: {sentence}. {what}; {files}"


def _fields(place: LogPlace, checked: Checked, verdict: str, seconds: float) -> dict[str, Any]:
    return {
        "type": "log",
        "path": str(place.path),
        "verdict": verdict,
        "torn": FlawKind.TORN in checked.kinds,
        "changing": place.holder is not None,
        "segments": len(place.segments),
        "entries": checked.entries,
        "first_index": checked.first_index,
        "last_index": checked.last_index,
        "last_term": checked.last_term,
        "end": checked.end,
        "chain": checked.chain,
        "known_commit": checked.known_commit,
        "queues": checked.queues,
        "units": checked.units,
        "keys": checked.keys,
        "bytes": place.total_bytes,
        "seconds": round(seconds, 3),
    }


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
