"""Nodes restart with an older vote file. No Raft cluster is safe if nodes lose votes, so a chaos run must report this
fault.

A lost vote is harmful only if the node's log has no entry of the new term, because such an entry also tells the node
the term. Therefore the fault delays the messages of a newly elected leader. First, leadership is transferred to a node
W, and both other nodes vote for W. Both voters are killed before W's first entry reaches them. Last, the fault
restores the vote files that the two killed nodes had before this vote. The two voters start again, cut off from W, and
elect another leader in the same term.

    leader of term 7 ── transfer ──> W        votes of the other nodes: 7
    W leads term 8, its messages 200 ms late  votes of the other nodes: 8, their logs: 7
    killed, votes restored, W cut off         votes of the other nodes: 7, so they elect a second leader of term 8
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from chaos.live.hosts.link_rules import NodeLink, partition
from chaos.live.hosts.link_shaper import LinkShape
from ledger.words import counted
from store.directory.vote_file import examined
from store.disk.disk import PosixReadOnlyDisk

# This delay is much shorter than an election timeout, so W is elected in spite of it.
_LATE = LinkShape(delay_ms=200.0)
_ELECTED_WITHIN_S = 3.0
_AGAIN_WITHIN_S = 30.0
# The time in seconds that the second leader keeps leading, so that the leader watch records it.
_SEEN_S = 1.0
_ASK_EVERY_S = 0.01

Votes = Mapping[Path, bytes]


class StaleVote(Fault):
    """A fault that restores older votes of all nodes but one."""

    def __init__(self) -> None:
        self._down: list[int] = []

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        environment = site.environment
        elected = site.random.choice([node for node in environment.nodes if node not in targets])
        voters = [node for node in environment.nodes if node != elected]
        kept = {node: _votes(environment.data(node)) for node in voters}
        environment.shaper.set([NodeLink(elected, voter) for voter in voters], _LATE)
        _hand_over(site, elected)
        self._down = voters
        for node in voters:
            environment.pause(node)  # pausing is faster than killing, so all nodes stop nearly at once
        for node in voters:
            environment.kill(node)
        forgotten = "; ".join(f"node {node}: {_put_back(votes)}" for node, votes in kept.items())
        environment.shaper.heal()
        environment.links.set(partition(environment.nodes, [[elected], voters]))
        for node in voters:
            environment.start(node)
        return f"node {elected} was elected; {forgotten}; then node {_elected_again(site, elected)} was"

    def heal(self, site: FaultSite) -> str:
        site.environment.shaper.heal()
        dropped = site.environment.links.heal()
        for node in self._down:
            if not site.is_up(node):
                site.environment.start(node)
        return f"{counted(dropped, 'packet')} dropped"


def _hand_over(site: FaultSite, node: int) -> None:
    """Transfer leadership to the node. Return as soon as the node leads."""
    if not site.members.begin_transfer(node):
        raise NoEvidenceError(f"leadership was not transferred to node {node}")
    deadline = time.monotonic() + _ELECTED_WITHIN_S
    while site.members.leader() != node:
        if time.monotonic() > deadline:
            raise NoEvidenceError(f"node {node} was not elected")
        time.sleep(_ASK_EVERY_S)


def _elected_again(site: FaultSite, but: int) -> int:
    """Wait until a node other than `but` leads, and return that node."""
    deadline = time.monotonic() + _AGAIN_WITHIN_S
    while (leader := site.members.leader()) in (0, but):
        if time.monotonic() > deadline:
            raise NoEvidenceError(f"no node was elected without node {but}")
        site.wait(_ASK_EVERY_S)
    site.wait(_SEEN_S)
    return leader


def _votes(data: Path) -> Votes:
    return {path: path.read_bytes() for path in sorted(data.glob("shard-*/vote"))}


def _put_back(votes: Votes) -> str:
    """Restore the older votes. Return the terms that the nodes have forgotten. Raises NoEvidenceError if no vote
    had changed."""
    terms = []
    for path, content in votes.items():
        newer = _term(path)
        path.write_bytes(content)
        if (older := _term(path)) < newer:
            terms.append(f"the vote of {path.parent.name} went back from term {newer} to term {older}")
    if not terms:
        raise NoEvidenceError("no vote had changed")
    return ", ".join(terms)


def _term(path: Path) -> int:
    vote, flaws = examined(PosixReadOnlyDisk(), path)
    if vote is None:
        raise NoEvidenceError(f"{path} holds no vote: {flaws}")
    return vote.term
