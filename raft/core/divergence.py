"""Divergence: two replicas have different entries at an index that one of the two knows to be committed.

Raft excludes a divergence while every server keeps the entries that it acknowledged. A divergence appears after a
majority was put back to an old copy of its data, or after an operator accepted the loss of entries. Nothing in the two
logs says which log is right, so both servers refuse new entries of clients, and an operator decides.

    the leader's Append contradicts a committed entry      the leader finds another entry at this index in its own log
    follower ------ rejection with the committed entry ------> leader
    both have noted the divergence, and the leader sends no entries to this follower any more

- A server does not vote for a server from which it diverges, and its acknowledgements do not count there. So only
  servers that agree can elect a leader and commit.
- The leader of a majority that agrees still changes members. A divergence ends when the other server is removed.
- A server that diverges from so many voters that the rest is no majority does not lead and does not stand.
- A log that ends early is no divergence. A server that lost only the end of its log is never noticed here.

A divergence is only in memory. After a restart the servers notice it again as soon as one of the two leads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raft.core.configuration import Configuration


@dataclass(frozen=True, slots=True)
class CommittedEntry:
    """An entry that the sender of a rejection knows to be committed, and that the leader contradicts."""

    index: int
    term: int
    # Not 0: the leader's entry has the same term and other bytes. The chain up to this entry in the sender's log.
    chain: int = 0


@dataclass(frozen=True, slots=True)
class Divergence:
    """The proof that the logs of this server and of the server `node` differ at a committed index."""

    node: int
    index: int
    # The terms of the entries at `index`, in this log and in the log of `node`. Equal if only the bytes differ.
    own_term: int
    other_term: int
    # What the server that noticed the divergence knows to be committed.
    committed: CommittedEntry

    def __str__(self) -> str:
        if self.own_term == self.other_term:
            return f"the logs up to entry {self.index} have other bytes here and on node {self.node}"
        return f"entry {self.index} is of term {self.own_term} here, and of term {self.other_term} on node {self.node}"


Divergences = Mapping[int, Divergence]
NONE: Divergences = {}


def that_remain(divergences: Divergences, configurations: Sequence[Configuration]) -> Divergences:
    """Return the divergences from nodes that are members in each of the committed `configurations`. If none has
    ended, return the same object."""
    remain = {
        node: divergence
        for node, divergence in divergences.items()
        if all(node in configuration.members for configuration in configurations)
    }
    return divergences if len(remain) == len(divergences) else remain
