"""What nodes said of themselves, against what must hold of a cluster whatever its clients see.

A promise may be broken long before a client is harmed; and a cluster that never comes to itself again harms nobody's
messages, and is of no use. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.live.checker.anomaly import SHOWN, Anomaly, Finding


@dataclass(frozen=True, slots=True)
class Claim:
    """A node said that it led that shard in that term."""

    shard: int
    term: int
    node: int


def two_leaders(claims: Iterable[Claim]) -> Finding:
    """Election Safety (section 5.2 of the Raft paper): a term has one leader at most, ever."""
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
    """`why` is empty where the cluster recovered."""
    return _finding("no recovery", [why] if why else [])


def _finding(kind: str, sentences: list[str]) -> Finding:
    return Finding(kind, len(sentences), tuple(Anomaly(kind, sentence, ()) for sentence in sentences[:SHOWN]))
