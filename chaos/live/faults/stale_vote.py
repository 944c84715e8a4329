"""Nodes that start again with a vote file of an earlier moment: what no cluster survives, and what a run must notice.

A vote that is forgotten does harm only where the log has not taken its place, since an entry of the new term tells a
node of that term too. So the newly elected one is heard late: leadership is handed to it, both others vote for it,
and die before its first entry reaches them. Their votes are put back; they start without it, and elect another in the
same term.

    leader of term 7 ── handed to ──> W       votes of the others: 7
    W leads term 8, heard 200 ms late         votes of the others: 8, their logs: 7
    killed, put back, W cut off               votes of the others: 7, so they elect a leader of term 8 once more
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.live.faults.fault import Fault, NoEvidenceError, Site
from chaos.live.hosts.link_rules import Link, partition
from chaos.live.hosts.link_shaper import Shape
from store.directory.vote_file import examined
from store.disk.disk import PosixReadOnlyDisk

# Much less than an election takes, or nobody is elected.
_LATE = Shape(delay_ms=200.0)
_ELECTED_WITHIN_S = 3.0
_AGAIN_WITHIN_S = 30.0
# For so long the one that was elected again leads, so that everybody sees it.
_SEEN_S = 1.0
_ASK_EVERY_S = 0.01

Votes = Mapping[Path, bytes]


class StaleVote(Fault):
    """Of all nodes but one."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: Site, targets: Sequence[int]) -> str:
        environment = site.environment
        elected = site.random.choice([node for node in environment.nodes if node not in targets])
        voters = [node for node in environment.nodes if node != elected]
        kept = {node: _votes(environment.data(node)) for node in voters}
        environment.shaper.set([Link(elected, voter) for voter in voters], _LATE)
        _hand_over(site, elected)
        self._down = voters
        for node in voters:
            environment.pause(node)  # all at once; to kill takes longer
        for node in voters:
            environment.kill(node)
        forgotten = "; ".join(f"node {node}: {_put_back(votes)}" for node, votes in kept.items())
        environment.shaper.heal()
        environment.links.set(partition(environment.nodes, [[elected], voters]))
        for node in voters:
            environment.start(node)
        return f"node {elected} was elected; {forgotten}; then node {_elected_again(site, elected)} was"

    def heal(self, site: Site) -> str:
        site.environment.shaper.heal()
        dropped = site.environment.links.heal()
        for node in self._down:
            if not site.is_up(node):
                site.environment.start(node)
        return f"{dropped} packets dropped"


def _hand_over(site: Site, node: int) -> None:
    """Returns as soon as it leads."""
    if not site.members.begin_transfer(node):
        raise NoEvidenceError(f"leadership was not handed to node {node}")
    deadline = time.monotonic() + _ELECTED_WITHIN_S
    while site.members.leader() != node:
        if time.monotonic() > deadline:
            raise NoEvidenceError(f"node {node} was not elected")
        time.sleep(_ASK_EVERY_S)


def _elected_again(site: Site, but: int) -> int:
    """Who leads the others, once somebody does."""
    deadline = time.monotonic() + _AGAIN_WITHIN_S
    while (leader := site.members.leader()) in (0, but):
        if time.monotonic() > deadline:
            raise NoEvidenceError(f"without node {but} nobody was elected")
        site.wait(_ASK_EVERY_S)
    site.wait(_SEEN_S)
    return leader


def _votes(data: Path) -> Votes:
    return {path: path.read_bytes() for path in sorted(data.glob("shard-*/vote"))}


def _put_back(votes: Votes) -> str:
    """Which terms are forgotten. Raises NoEvidenceError where there is nothing to forget."""
    terms = []
    for path, content in votes.items():
        newer = _term(path)
        path.write_bytes(content)
        if (older := _term(path)) < newer:
            terms.append(f"{path.parent.name} was in term {newer}, and is in term {older} again")
    if not terms:
        raise NoEvidenceError("no vote had changed")
    return ", ".join(terms)


def _term(path: Path) -> int:
    vote, flaws = examined(PosixReadOnlyDisk(), path)
    if vote is None:
        raise NoEvidenceError(f"{path} holds no vote: {flaws}")
    return vote.term
