"""`ledgermq log verify`: what is said of each log, and the status that sums it up."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from cluster.cli.log.flaws import flaw_fields, flaw_line
from cluster.cli.log.progress import LogProgress
from cluster.cli.output import counted
from cluster.inspection.verify import Verified, verify
from ledger.validation.sources.place import LogPlace
from store import FlawKind

_STATUS = {"damaged": 1, "unknown": 2, "whole": 0}
"""The first of these that any log has is the status of all."""


def verify_logs(places: Sequence[LogPlace], *, as_json: bool) -> int:
    verdicts = []
    with LogProgress(places) as progress:
        for number, place in enumerate(places):
            verified, started = Verified(), time.perf_counter()
            for flaw in verify(place, verified, lambda done, number=number: progress.update(number, done)):  # type: ignore[misc]
                _write(json.dumps(flaw_fields(flaw)) if as_json else flaw_line(flaw))
            verdicts.append(_verdict(verified))
            seconds = time.perf_counter() - started
            fields = _fields(place, verified, verdicts[-1], seconds)
            _write(json.dumps(fields) if as_json else _line(place, verified, verdicts[-1], seconds))
    return next((status for verdict, status in _STATUS.items() if verdict in verdicts), 0)


def _verdict(verified: Verified) -> str:
    if FlawKind.DAMAGE in verified.kinds:
        return "damaged"
    return "unknown" if FlawKind.UNKNOWN in verified.kinds else "whole"


def _line(place: LogPlace, verified: Verified, verdict: str, seconds: float) -> str:
    what = "no entries"
    if verified.entries:
        what = (
            f"{counted(verified.entries, 'entry') if verified.entries == 1 else f'{verified.entries:,} entries'} "
            f"({verified.first_index} to {verified.last_index}), ends at {verified.end} in term {verified.last_term}, "
            f"{verified.known_commit} and before surely committed"
        )
    if verified.units:
        what += f"; {counted(verified.units, 'unit')} of {counted(verified.queues, 'queue')}"
    if verified.keys:
        what += f"; {counted(verified.keys, 'key')}"
    speed = place.total_bytes / max(seconds, 1e-9) / 1e6
    files = f"{counted(len(place.segments), 'segment')} read in {seconds:.2f} s, {speed:,.0f} MB/s"
    sentence = {
        "whole": "whole",
        "damaged": "DAMAGED",
        "unknown": "not known to this program: use the version that wrote it",
    }[verdict]
    return f"{place.path}: {sentence}. {what}; {files}"


def _fields(place: LogPlace, verified: Verified, verdict: str, seconds: float) -> dict[str, Any]:
    return {
        "type": "log",
        "path": str(place.path),
        "verdict": verdict,
        "torn": FlawKind.TORN in verified.kinds,
        "changing": place.holder is not None,
        "segments": len(place.segments),
        "entries": verified.entries,
        "first_index": verified.first_index,
        "last_index": verified.last_index,
        "last_term": verified.last_term,
        "end": verified.end,
        "chain": verified.chain,
        "known_commit": verified.known_commit,
        "queues": verified.queues,
        "units": verified.units,
        "keys": verified.keys,
        "bytes": place.total_bytes,
        "seconds": round(seconds, 3),
    }


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
