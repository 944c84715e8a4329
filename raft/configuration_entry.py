"""The body of a configuration entry: who votes, with which incarnation, and what is fixed for the group for ever.

The one idea: `segment_bytes` and the largest entry stand in the log itself, so every replica lays the same grid,
and a voter's incarnation stands there too, so a node whose disk was wiped is a stranger until it is added again.
"""

from __future__ import annotations

from dataclasses import dataclass

from raft.core import Configuration
from raft.v1 import raft_pb2


@dataclass(frozen=True, slots=True)
class GroupConfiguration:
    """All of a configuration entry. `voters` maps each node to the incarnation (16 bytes) of its data directory."""

    cluster: str
    voters: dict[int, bytes]
    segment_bytes: int
    max_entry_bytes: int

    @property
    def core(self) -> Configuration:
        """What the core needs of it."""
        return Configuration(tuple(sorted(self.voters)))


def encode_configuration(configuration: GroupConfiguration) -> bytes:
    """The entry's body; the same bytes for equal configurations."""
    voters = [
        raft_pb2.Voter(node=node, incarnation=incarnation) for node, incarnation in sorted(configuration.voters.items())
    ]
    message = raft_pb2.Configuration(
        voters=voters,
        segment_bytes=configuration.segment_bytes,
        max_entry_bytes=configuration.max_entry_bytes,
        cluster=configuration.cluster,
    )
    return message.SerializeToString(deterministic=True)


def decode_configuration(body: bytes) -> GroupConfiguration:
    """Reads an entry's body, whose CRC has been checked."""
    message = raft_pb2.Configuration.FromString(body)
    return GroupConfiguration(
        cluster=message.cluster,
        voters={voter.node: voter.incarnation for voter in message.voters},
        segment_bytes=message.segment_bytes,
        max_entry_bytes=message.max_entry_bytes,
    )
