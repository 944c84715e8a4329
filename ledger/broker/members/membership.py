"""`Membership` has the members of a shard in the newest configuration that this node has applied, and this node's own
standing.

    JOINING ──> LEARNER ──> VOTER ──> REMOVED        one life of a data directory; a voter may become a learner again

Only committed configurations count, so clients and operators never see a change that is undone later. A node counts as
removed if the incarnation of its data directory was in a configuration and is not in the newest configuration. A
removed node may never receive the newest configuration, because no leader sends entries to the node any more. Another
node tells the removed node about its removal (`removed_by`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from raft.configuration_entry import ConfiguredMember, ShardConfiguration


class Standing(Enum):
    """Whether this node is a voter, a learner, not a member yet, or removed from a shard."""

    # The node has been in no configuration so far.
    JOINING = "joining"
    VOTER = "voter"
    LEARNER = "learner"
    REMOVED = "removed"


class Membership:
    """The members of one shard, in the newest configuration that this node has applied."""

    def __init__(self, node: int, incarnation: bytes, addresses: Mapping[int, str]) -> None:
        """`addresses` are the addresses in this node's settings. The addresses in the settings have precedence over
        the addresses in a configuration."""
        self.node = node
        self.incarnation = incarnation
        # The newest configuration that is applied here, and the index of its entry.
        self.configuration: ShardConfiguration | None = None
        self.index = 0
        self.standing = Standing.JOINING
        self._addresses = addresses

    def applied(self, index: int, configuration: ShardConfiguration) -> None:
        """Apply the next configuration, in the order of the log."""
        self.configuration, self.index = configuration, index
        if self._is_me(configuration.voters):
            self.standing = Standing.VOTER
        elif self._is_me(configuration.learners):
            self.standing = Standing.LEARNER
        elif self.standing is not Standing.JOINING:
            self.standing = Standing.REMOVED

    @property
    def is_removed(self) -> bool:
        """True if this node was a member and was removed."""
        return self.standing is Standing.REMOVED

    def resume(self, index: int, configuration: ShardConfiguration, *, removed: bool) -> None:
        """Load the configuration and the standing that an earlier run of this node stored."""
        self.applied(index, configuration)
        if removed:
            self.standing = Standing.REMOVED

    def removed_by(self, incarnations: Mapping[int, bytes]) -> bool:
        """Return True if this node was removed, according to `incarnations`. `incarnations` comes from a node with
        a newer configuration, and has the incarnation of each member."""
        if self.standing is not Standing.JOINING and incarnations.get(self.node) != self.incarnation:
            self.standing = Standing.REMOVED
        return self.is_removed

    def addresses(self) -> dict[int, str]:
        """Return the address of each member. Before a configuration is applied, return the addresses in the
        settings."""
        if self.configuration is None:
            return dict(sorted(self._addresses.items()))
        members = self.configuration.members
        return {node: self._addresses.get(node) or member.address for node, member in members.items()}

    def set_address(self, node: int) -> str:
        """Return the address that this node's settings have for `node`, or an empty string."""
        return self._addresses.get(node, "")

    def address(self, node: int) -> str:
        """Return the address of a node, or an empty string if the address is not known."""
        return self._addresses.get(node) or self.addresses().get(node, "")

    def _is_me(self, members: Mapping[int, ConfiguredMember]) -> bool:
        member = members.get(self.node)
        return member is not None and member.incarnation == self.incarnation
