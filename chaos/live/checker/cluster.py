"""Checks the nodes' own reports about leadership and recovery.

A client cannot see every fault, so the nodes' reports are checked too. A cluster may break a guarantee before any
client receives a wrong answer. A cluster that never recovers loses no message, but is useless. Two leaders in one term
and a cluster that never recovers are anomalies. The module is pure: it does no I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.live.checker.anomaly import SHOWN, Anomaly, Finding


@dataclass(frozen=True, slots=True)
class LeaderClaim:
    """A report of a node that it led the shard in the term."""

    shard: int
    term: int
    node: int


def two_leaders(claims: Iterable[LeaderClaim]) -> Finding:
    """Check Election Safety (section 5.2 of the Raft paper): a term has at most one leader."""
    leaders: dict[tuple[int, int], set[int]] = defaultdict(set)
    for claim in claims:
        leaders[claim.shard, claim.term].add(claim.node)
    wrong = [
        f"nodes {' and '.join(map(str, sorted(nodes)))} both led shard {shard} in term {term}"
        for (shard, term), nodes in sorted(leaders.items())
        if len(nodes) > 1
    ]
    return _finding("two leaders", wrong)


def no_recovery(why: str) -> Finding:
    """Return a finding if the cluster did not recover. `why` is the reason, and is empty if the cluster recovered."""
    return _finding("no recovery", [why] if why else [])


def _finding(kind: str, sentences: list[str]) -> Finding:
    return Finding(kind, len(sentences), tuple(Anomaly(kind, sentence, ()) for sentence in sentences[:SHOWN]))
