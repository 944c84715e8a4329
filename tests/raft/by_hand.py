"""Tests of a single node: a test builds messages by hand, hands them to the node, and looks at its answers.

The test plays all other nodes. Therefore `step` first discards all messages that are in flight.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.core import Append, AppendResponse, Configuration, RaftMessage, Role, VoteResponse
from tests.raft.network import Entry, Network, Packet, runs_of


def sent(network: Network) -> list[RaftMessage]:
    """Remove all messages from the network and return them."""
    messages = [packet.message for packet in network.wire]
    network.wire.clear()
    return messages


def step(network: Network, message: RaftMessage, entries: tuple[Entry, ...] = ()) -> list[RaftMessage]:
    """Let the receiver handle this message. Return the messages that it sends."""
    network.wire.clear()
    network.deliver(Packet(message, entries))
    return sent(network)


def append(
    network: Network,
    receiver: int,
    term: int,
    prev: tuple[int, int],
    terms: Sequence[int],
    commit: int = 0,
    *,
    sender: int = 1,
    values: Sequence[object] = (),
) -> list[RaftMessage]:
    """Let `receiver` handle an Append of entries with these terms. Return the messages that it sends."""
    first = prev[0] + 1
    named = values or [f"{term}.{index}" for index, term in enumerate(terms, first)]
    entries = tuple(Entry(term, value) for term, value in zip(terms, named, strict=True))
    configurations = tuple((i, e.value) for i, e in enumerate(entries, first) if isinstance(e.value, Configuration))
    last = prev[0] + len(terms)
    return step(
        network, Append(sender, receiver, term, *prev, runs_of(entries, first), last, commit, configurations), entries
    )


def holds(node: int, term: int, match: int, leader: int = 1) -> AppendResponse:
    return AppendResponse(node, leader, term, match=match)


def stand(network: Network, number: int = 1) -> list[RaftMessage]:
    """Let the node's election timeout pass, and let as many voters grant its pre-vote as it needs. Return the messages
    that it sends as a candidate."""
    for _ in range(100):
        if network.raft(number).role is Role.PRE_CANDIDATE:
            break
        network.tick(number)
    sent(network)
    _vote_until(network, number, Role.CANDIDATE)
    return sent(network)


def lead(network: Network, number: int = 1) -> list[RaftMessage]:
    """Let the node win an election with as many votes as it needs. Return the messages that it sends first as the
    leader."""
    stand(network, number)
    _vote_until(network, number, Role.LEADER)
    return sent(network)


def _vote_until(network: Network, candidate: int, role: Role) -> None:
    """Let one voter after the other grant its vote, until the candidate has that role."""
    raft, pre = network.raft(candidate), role is Role.CANDIDATE
    voters = iter(voter for voter in raft.configuration.voters if voter != candidate)
    while network.raft(candidate).role is not role:
        network.deliver(Packet(VoteResponse(next(voters), candidate, raft.term + pre, granted=True, pre=pre)))


def in_role(role: Role, nodes: int = 3) -> Network:
    """Return a network whose node 1 has that role. No messages are in flight."""
    network = Network(nodes)
    match role:
        case Role.FOLLOWER:
            pass
        case Role.PRE_CANDIDATE:
            network.tick(1, 10)
        case Role.CANDIDATE:
            stand(network)
        case Role.LEADER:
            network.elect(1)
    assert network.raft(1).role is role
    network.wire.clear()
    return network
