"""The body of a configuration entry: who the members are, with which incarnation and address, and what is fixed for the
shard for ever.

`segment_bytes` and the largest entry size are part of the log, so every replica lays entries at the same positions. A
member's incarnation is part of it too, so a node whose disk was wiped is no member until it is added again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from raft.core import Configuration
from raft.v1 import raft_pb2


@dataclass(frozen=True, slots=True)
class ConfiguredMember:
    """`incarnation`: 16 bytes, of its data directory. `address`: where the others reach it, "host:port"; empty in
    clusters that began before addresses were kept here, and then each node's settings say."""

    incarnation: bytes
    address: str = ""


@dataclass(frozen=True, slots=True)
class ShardConfiguration:
    """All of a configuration entry. No node is both a voter and a learner."""

    cluster: str
    voters: Mapping[int, ConfiguredMember]
    segment_bytes: int
    max_entry_bytes: int
    learners: Mapping[int, ConfiguredMember] = field(default_factory=dict)

    @property
    def core(self) -> Configuration:
        """What the core needs of it."""
        return Configuration(tuple(sorted(self.voters)), tuple(sorted(self.learners)))

    @property
    def members(self) -> dict[int, ConfiguredMember]:
        """Voters and learners, by node."""
        return dict(sorted({**self.voters, **self.learners}.items()))

    def with_learner(self, node: int, member: ConfiguredMember) -> ShardConfiguration:
        """The same and that learner; a voter of this number becomes one."""
        return replace(self.without(node), learners={**self.without(node).learners, node: member})

    def with_voter(self, node: int) -> ShardConfiguration:
        """That learner, which must be there, votes."""
        return replace(self.without(node), voters={**self.voters, node: self.learners[node]})

    def without(self, node: int) -> ShardConfiguration:
        return replace(
            self,
            voters={each: member for each, member in self.voters.items() if each != node},
            learners={each: member for each, member in self.learners.items() if each != node},
        )


def encode_configuration(configuration: ShardConfiguration) -> bytes:
    """The entry's body; the same bytes for equal configurations."""
    message = raft_pb2.Configuration(
        voters=_to_wire(configuration.voters),
        learners=_to_wire(configuration.learners),
        segment_bytes=configuration.segment_bytes,
        max_entry_bytes=configuration.max_entry_bytes,
        cluster=configuration.cluster,
    )
    return message.SerializeToString(deterministic=True)


def decode_configuration(body: bytes) -> ShardConfiguration:
    """Reads an entry's body, whose CRC has been checked."""
    message = raft_pb2.Configuration.FromString(body)
    return ShardConfiguration(
        cluster=message.cluster,
        voters=_from_wire(message.voters),
        segment_bytes=message.segment_bytes,
        max_entry_bytes=message.max_entry_bytes,
        learners=_from_wire(message.learners),
    )


def _to_wire(members: Mapping[int, ConfiguredMember]) -> list[raft_pb2.Member]:
    return [
        raft_pb2.Member(node=node, incarnation=member.incarnation, address=member.address)
        for node, member in sorted(members.items())
    ]


def _from_wire(members: Iterable[raft_pb2.Member]) -> dict[int, ConfiguredMember]:
    return {member.node: ConfiguredMember(member.incarnation, member.address) for member in members}
