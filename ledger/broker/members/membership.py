"""Who belongs to the shard, as this node has applied it, and where it stands in that itself.

    JOINING ──> LEARNER ──> VOTER ──> REMOVED        one life of a data directory; it never goes back to an earlier one
                                                     (but a voter may become a learner)

Only committed configurations count here, so what clients and operators are told never turns out to be undone. A node
that was a member by this very directory and is none any more was removed. It may not hear of that by the log, since
nobody sends it any more: then somebody else tells it (`removed_by`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from raft.configuration_entry import ConfiguredMember, ShardConfiguration


class Standing(Enum):
    JOINING = "joining"
    """In no configuration so far."""
    VOTER = "voter"
    LEARNER = "learner"
    REMOVED = "removed"


class Membership:
    def __init__(self, node: int, incarnation: bytes, addresses: Mapping[int, str]) -> None:
        """`addresses` are those among this node's settings: they go before those in a configuration."""
        self.node = node
        self.incarnation = incarnation
        self.configuration: ShardConfiguration | None = None
        """The newest that is applied here."""
        self.index = 0
        """Of its entry."""
        self.standing = Standing.JOINING
        self._addresses = addresses

    def applied(self, index: int, configuration: ShardConfiguration) -> None:
        """The next configuration, in order of the log."""
        self.configuration, self.index = configuration, index
        if self._is_me(configuration.voters):
            self.standing = Standing.VOTER
        elif self._is_me(configuration.learners):
            self.standing = Standing.LEARNER
        elif self.standing is not Standing.JOINING:
            self.standing = Standing.REMOVED

    @property
    def is_removed(self) -> bool:
        """Whether this node was a member, and is none any more."""
        return self.standing is Standing.REMOVED

    def resume(self, index: int, configuration: ShardConfiguration, *, removed: bool) -> None:
        """As it was when an earlier run of this node had applied that configuration."""
        self.applied(index, configuration)
        if removed:
            self.standing = Standing.REMOVED

    def removed_by(self, incarnations: Mapping[int, bytes]) -> bool:
        """Takes in who the members are, newer than what is applied here. Whether this node was one, and is not."""
        if self.standing is not Standing.JOINING and incarnations.get(self.node) != self.incarnation:
            self.standing = Standing.REMOVED
        return self.is_removed

    def addresses(self) -> dict[int, str]:
        """Where clients reach each member; before there is a configuration, what the settings say."""
        if self.configuration is None:
            return dict(sorted(self._addresses.items()))
        members = self.configuration.members
        return {node: self._addresses.get(node) or member.address for node, member in members.items()}

    def set_address(self, node: int) -> str:
        """Where the settings say that it is; empty where they say nothing."""
        return self._addresses.get(node, "")

    def address(self, node: int) -> str:
        """Where that node is; empty where it is not known."""
        return self._addresses.get(node) or self.addresses().get(node, "")

    def _is_me(self, members: Mapping[int, ConfiguredMember]) -> bool:
        member = members.get(self.node)
        return member is not None and member.incarnation == self.incarnation
