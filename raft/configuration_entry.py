"""The body of a configuration entry: the members of a shard, and the sizes that never change for the shard.

`segment_bytes` and the largest entry size are part of the log, so every replica puts each entry at the same position.
A member's incarnation is also part of the log, so a node with a wiped disk is not a member until an operator adds it
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError

from raft.core import Configuration, RaftSettings
from raft.v1 import raft_pb2

INCARNATION_BYTES = 16
MAX_NODE = 0xFFFF_FFFF


class InvalidConfigurationError(ValueError):
    """The body of a configuration entry contains no configuration that a leader writes."""


@dataclass(frozen=True, slots=True)
class ConfiguredMember:
    """A member of a shard, as the configuration entry describes it."""

    # The 16-byte incarnation of the member's data directory.
    incarnation: bytes
    # The address at which other nodes reach the member, "host:port". Empty in clusters that were formed before the
    # configuration had addresses; then the settings of each node name the address.
    address: str = ""


@dataclass(frozen=True, slots=True)
class ShardConfiguration:
    """The content of a configuration entry. A node is either a voter or a learner, never both."""

    cluster: str
    voters: Mapping[int, ConfiguredMember]
    segment_bytes: int
    max_entry_bytes: int
    learners: Mapping[int, ConfiguredMember] = field(default_factory=dict)

    @property
    def core(self) -> Configuration:
        """Return the configuration as the core of a member uses it: the node ids of voters and learners."""
        return Configuration(tuple(sorted(self.voters)), tuple(sorted(self.learners)))

    def core_of(self, server: RaftSettings) -> Configuration:
        """Return the configuration as the core of the server with these settings uses it."""
        member = self.members.get(server.node)
        is_own = member is None or server.incarnation in (b"", member.incarnation)
        return replace(self.core, is_own=is_own)

    @property
    def members(self) -> dict[int, ConfiguredMember]:
        """Return the voters and learners by node id."""
        return dict(sorted({**self.voters, **self.learners}.items()))

    def with_learner(self, node: int, member: ConfiguredMember) -> ShardConfiguration:
        """Return this configuration with `node` as a learner. If `node` was a voter before, it becomes a learner."""
        return replace(self.without(node), learners={**self.without(node).learners, node: member})

    def with_voter(self, node: int) -> ShardConfiguration:
        """Return this configuration with the learner `node` as a voter. Raises KeyError if `node` is not a learner."""
        return replace(self.without(node), voters={**self.voters, node: self.learners[node]})

    def without(self, node: int) -> ShardConfiguration:
        """Return this configuration without the member `node`."""
        return replace(
            self,
            voters={each: member for each, member in self.voters.items() if each != node},
            learners={each: member for each, member in self.learners.items() if each != node},
        )


def encode_configuration(configuration: ShardConfiguration) -> bytes:
    """Return the body of a configuration entry. Equal configurations give equal bytes."""
    message = raft_pb2.Configuration(
        voters=_to_wire(configuration.voters),
        learners=_to_wire(configuration.learners),
        segment_bytes=configuration.segment_bytes,
        max_entry_bytes=configuration.max_entry_bytes,
        cluster=configuration.cluster,
    )
    return message.SerializeToString(deterministic=True)


def decode_configuration(body: bytes) -> ShardConfiguration:
    """Return the configuration in the body of a configuration entry. Raises InvalidConfigurationError."""
    try:
        message = raft_pb2.Configuration.FromString(body)
    except DecodeError as error:
        raise InvalidConfigurationError(f"the body of a configuration entry cannot be decoded: {error}") from error
    _check_members(message)
    return ShardConfiguration(
        cluster=message.cluster,
        voters=_from_wire(message.voters),
        segment_bytes=message.segment_bytes,
        max_entry_bytes=message.max_entry_bytes,
        learners=_from_wire(message.learners),
    )


def _check_members(message: raft_pb2.Configuration) -> None:
    """Raise InvalidConfigurationError if a member is there twice, or if its number or its incarnation is not possible,
    or if there is no voter."""
    members = [*message.voters, *message.learners]
    if not message.voters or len({member.node for member in members}) < len(members):
        raise InvalidConfigurationError(
            f"a configuration has {len(message.voters)} voters and {len(message.learners)} learners, and it needs a "
            "voter and different members"
        )
    for member in members:
        if not 1 <= member.node <= MAX_NODE or len(member.incarnation) != INCARNATION_BYTES:
            raise InvalidConfigurationError(
                f"a configuration has a member {member.node} with an incarnation of {len(member.incarnation)} bytes"
            )


def _to_wire(members: Mapping[int, ConfiguredMember]) -> list[raft_pb2.Member]:
    return [
        raft_pb2.Member(node=node, incarnation=member.incarnation, address=member.address)
        for node, member in sorted(members.items())
    ]


def _from_wire(members: Iterable[raft_pb2.Member]) -> dict[int, ConfiguredMember]:
    return {member.node: ConfiguredMember(member.incarnation, member.address) for member in members}
