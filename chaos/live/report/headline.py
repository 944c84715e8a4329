"""The first sentence of a report: what struck the cluster, what the clients saw, and the longest pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chaos.live.judging import ChaosResult
from chaos.live.nemesis import Struck
from ledger.words import counted

# What happened to a node, by fault. Faults of links, clocks and the whole cluster are counted as faults.
_DONE = {"kill": "killed", "stop": "stopped", "pause": "paused", "power": "without power", "wipe": "wiped"}


def headline(result: ChaosResult) -> str:
    """Return the sentence, for example `3 leaders killed, 71,304 messages acknowledged, none lost, longest pause
    0.81 s`."""
    found = {finding.kind: finding.count for finding in result.verdict.findings}
    lost = found.get("lost", 0)
    others = result.verdict.anomalies - lost
    parts = [
        _struck([one for one in result.struck if not one.void]),
        f"{counted(result.verdict.figures['acknowledged'], 'message')} acknowledged",
        _lost(lost, is_proven=not result.verdict.void),
        f"{counted(others, 'other anomaly', 'other anomalies')} found" if others else "",
        f"longest pause {result.pause().seconds:.2f} s",
    ]
    return ", ".join(filter(None, parts))


def _lost(lost: int, *, is_proven: bool) -> str:
    if lost:
        return f"{lost:,} lost"
    return "none lost" if is_proven else "no verdict on losses"


def _struck(struck: Sequence[Struck]) -> str:
    if not struck:
        return "no fault"
    kinds = Counter(one.kind for one in struck)
    if len(kinds) > 1:
        return f"{counted(len(struck), 'fault')} of {len(kinds)} kinds"
    (kind,) = kinds
    if kind not in _DONE:
        return f"{counted(len(struck), 'fault')} ({kind})"
    nodes, leaders = sum(len(one.nodes) for one in struck), sum(one.hit_leader for one in struck)
    if nodes == leaders:
        return f"{counted(leaders, 'leader')} {_DONE[kind]}"
    among = f" ({counted(leaders, 'leader')} among them)" if leaders else ""
    return f"{counted(nodes, 'node')} {_DONE[kind]}{among}"
