"""Changes the members of a shard, on the shard's leader. Each change adds, promotes or removes one node.

    add        a new node becomes a learner
    promote    a learner becomes a voter
    remove     a voter or learner leaves the shard; its data directory cannot be added again

The leader checks a request against the newest configuration and against the progress of its followers. If the check
succeeds, the leader appends one entry. Otherwise the leader refuses the request with an error that says what to do
first. Requests are idempotent, so a client can repeat a request whose response was lost. The Raft core decides whether
a change of the configuration is safe.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import ChangeProposal
from ledger.errors import (
    InvalidArgumentError,
    LastVoterError,
    NodeBehindError,
    NodeExistsError,
    NodeRefusedError,
    NodeSilentError,
    NotSuspectError,
    RecoveryRefusedError,
    ShardShortError,
    UnknownNodeError,
)
from ledger.state.placement_table import PlacementTable
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, encode_configuration
from raft.core import ChangeRefused, Refusal
from raft.core.progress import Mode
from raft.core.quorum import majority
from store import EntryDraft, EntryKind, StoreError, Suspect

# A follower that lacks at most this much counts as caught up. As much may be in flight to it.
CAUGHT_UP_BYTES = 8 << 20
# A member that was not heard for so many election timeouts is lost, until it is heard again.
LOST_TIMEOUTS = 6


@dataclass(frozen=True, slots=True)
class Introduction:
    """The answer of a node when a shard's leader asks it before adding or promoting it. `refusal` says why the node
    cannot be added, and is "" if the node can be added. `empty` means that the node has no data of the shard.
    `feature_level` is the highest level that the node's program supports."""

    node: int
    incarnation: bytes
    empty: bool
    refusal: str
    feature_level: int = 0


# (node, address, configuration of the leader) -> the introduction of the node at that address, or None without an
# answer.
AskJoiningNode = Callable[[int, str, ShardConfiguration], Awaitable[Introduction | None]]


class SuspectShard(Protocol):
    """The interface to one shard of this node, for requests that concern a suspect: this node may have lost entries
    that it acknowledged in the shard."""

    async def ask_introduction(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        """Ask the node at this address for its introduction. Return None if the node does not answer."""

    def suspect(self) -> Suspect | None:
        """The suspect mark on this node's disk, or None if this node is no suspect."""

    async def accept_loss(self) -> None:
        """Remove the suspect mark of this node, although the node may have lost entries. Return when the mark is
        removed from the disk. Raise RecoveryRefusedError if the shard has a leader by then."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """What the leader knows about one member of the shard. `lag_entries` and `lag_bytes` count the committed
    entries that the member does not have."""

    node: int
    address: str
    incarnation: bytes
    is_voter: bool
    is_suspect: bool
    lag_entries: int
    lag_bytes: int
    caught_up: bool
    # The leader heard the member within an election timeout.
    answers: bool = True

    @property
    def counts(self) -> bool:
        """Return True if the shard can rely on the member: it answers, has the log, and is no suspect."""
        return self.answers and self.caught_up and not self.is_suspect


class MemberChanges:
    """Adds, promotes and removes members of one shard, on the shard's leader. Every method can raise LedgerError."""

    def __init__(self, replica: BrokerReplica, ask: AskJoiningNode) -> None:
        self._replica = replica
        self._ask = ask

    def states(self, configuration: ShardConfiguration) -> list[MemberState]:
        """Return the state of each member of a configuration. Call `states` only on the leader."""
        return [
            self._state(node, member, node in configuration.voters) for node, member in configuration.members.items()
        ]

    async def add(self, node: int, address: str) -> ChangeProposal | None:
        """Add a new node as a learner. Returns None if the node is a member already."""
        validate_address(address)
        validate_node(node)
        answer = await self._ask(node, address, self._newest())
        configuration = self._newest()
        known = configuration.members.get(node)
        if known is not None and answer is not None and known.incarnation == answer.incarnation:
            self._check_is_there(node, known, address)
            return None
        self._check_is_free(configuration, node, address)
        incarnation = accepted(node, address, answer)
        if answer is not None:
            self._replica.check_leads(0)  # a new leader may not have applied the entry that raised the level
            self._replica.feature_level.check_new_member(node, answer.feature_level)
        return self._change(configuration.with_learner(node, ConfiguredMember(incarnation, address)))

    async def promote(self, node: int) -> ChangeProposal | None:
        """Promote a learner to a voter. Returns None if the node is a voter already."""
        validate_node(node)
        configuration = self._newest()
        if node in configuration.voters:
            return None
        member = self._member(configuration, node)
        self._check_caught_up(node, member)
        address = self._address(node, member)
        answer = await self._ask(node, address, configuration)
        if answer is None or answer.incarnation != member.incarnation:
            raise NodeBehindError(f"node {node} does not answer at {address}: start it, then promote it again")
        configuration = self._newest()
        if node not in configuration.learners:
            self._member(configuration, node)
            return None
        return self._change(configuration.with_voter(node))

    def remove(self, node: int, *, placement: PlacementTable | None = None, force: bool = False) -> ChangeProposal:
        """Remove a member. The leader can remove itself. `placement` says how many replicas the shard shall have, and
        which move it has under way; None: one replica, and no move. Raise ShardShortError, unless `force` is given, if
        the voters that are left could not commit at once, or if fewer voters that count would be left than
        `PlacementTable.needed_without` says and the node is not lost already."""
        validate_node(node)
        configuration = self._newest()
        self._member(configuration, node)
        if node in configuration.voters and not force:
            placement = placement or PlacementTable(replicas=1)
            needed = placement.needed_without(self._replica.shard, node, configuration.voters)
            self._check_rest(configuration, node, needed)
        return self._change(configuration.without(node))

    # -- checks

    def _newest(self) -> ShardConfiguration:
        """Return the newest configuration in the leader's log, committed or not. The core refuses a change while an
        earlier change is not committed."""
        if not self._replica.driver.leads:
            raise self._replica.not_leading()
        configuration = self._replica.newest_configuration()
        assert configuration is not None, "a leader has a configuration"
        return configuration

    def _member(self, configuration: ShardConfiguration, node: int) -> ConfiguredMember:
        member = configuration.members.get(node)
        if member is None:
            known = ", ".join(str(each) for each in configuration.members)
            raise UnknownNodeError(
                f"node {node} is not a member of shard {self._replica.shard}: its members are {known}"
            )
        return member

    def _check_is_there(self, node: int, member: ConfiguredMember, address: str) -> None:
        at = self._address(node, member)
        if at != address:
            raise NodeExistsError(
                f"node {node} is a member already, at {at}: if it has moved, change `peers` in the "
                f"settings of the other nodes"
            )

    def _check_is_free(self, configuration: ShardConfiguration, node: int, address: str) -> None:
        if node in configuration.members:
            raise NodeExistsError(
                f"node {node} is a member already, with another data directory than the node at {address}: remove it "
                f"first (`ledgermq cluster remove-node {node}`), or give the new node another number"
            )
        addresses = self._replica.membership.addresses()
        for other in configuration.members:
            if addresses.get(other) == address:
                raise NodeExistsError(f"{address} is the address of node {other}: give the new node another address")
        expected = self._replica.membership.set_address(node)
        if expected and expected != address:
            raise NodeExistsError(
                f"the `peers` setting of the leader says that node {node} is at {expected}: give that "
                f"address, change the "
                f"setting, or give the new node another number"
            )

    def _check_rest(self, configuration: ShardConfiguration, node: int, replicas: int) -> None:
        counts = {each.node: each.counts for each in self.states(configuration) if each.is_voter}
        rest = [each for each in counts if each != node]
        left = [each for each in rest if counts[each]]
        shard = f"shard {self._replica.shard}"
        if rest and len(left) < majority(rest):
            raise ShardShortError(
                f"{shard} would take no writes without node {node}: of its other voters {_listed(rest)}, only "
                f"{_listed(left) or 'none'} would answer with the whole log; start the others and wait until they have "
                "caught up, or force the removal (`--force`)"
            )
        if len(left) < replicas and not self._is_lost(node):
            raise ShardShortError(
                f"{shard} would have {len(left)} of {replicas} replicas without node {node}: add a node first "
                "(`ledgermq cluster add-node`), or force the removal (`--force`)"
            )

    def _is_lost(self, node: int) -> bool:
        """Return True if the shard has already lost this voter: it is silent, a suspect, or diverges."""
        raft = self._replica.driver.raft
        progress = raft.progress.get(node)
        if node == raft.node or progress is None:
            return False
        return progress.suspicion is not None or progress.diverges or not raft.hears(node, within=LOST_TIMEOUTS)

    def _check_caught_up(self, node: int, member: ConfiguredMember) -> None:
        state = self._state(node, member, is_voter=False)
        if not state.caught_up:
            raise NodeBehindError(
                f"node {node} lacks {state.lag_entries:,} committed entries "
                f"({state.lag_bytes / 1e6:,.1f} MB): promote it when "
                "it has caught up"
            )

    def _address(self, node: int, member: ConfiguredMember) -> str:
        return self._replica.membership.set_address(node) or member.address

    def _state(self, node: int, member: ConfiguredMember, is_voter: bool) -> MemberState:
        replica = self._replica
        raft, log = replica.driver.raft, replica.log
        progress = raft.progress.get(node)
        match = raft.commit if node == raft.node else progress.match if progress else 0
        lag_bytes = log.reading.span(max(match + 1, log.first_index), raft.commit) if match < raft.commit else 0
        is_suspect = progress is not None and progress.suspicion is not None
        streams = progress is not None and progress.mode is Mode.REPLICATE and not is_suspect
        return MemberState(
            node=node,
            address=self._address(node, member),
            incarnation=member.incarnation,
            is_voter=is_voter,
            is_suspect=is_suspect,
            lag_entries=max(0, raft.commit - match),
            lag_bytes=lag_bytes,
            caught_up=node == raft.node or (streams and lag_bytes <= CAUGHT_UP_BYTES),
            answers=node == raft.node or raft.hears(node),
        )

    # -- the change

    def _change(self, configuration: ShardConfiguration) -> ChangeProposal:
        replica, configuration = self._replica, self._with_addresses(configuration)
        draft = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))
        proposal = ChangeProposal(draft, self._is_committed, replica.not_leading)
        try:
            replica.driver.change(proposal, configuration.core)
        except ChangeRefused as refused:  # its only other reasons were checked before
            raise LastVoterError(f"{refused}: add another voter first") from refused
        except (Refusal, StoreError) as trouble:
            raise replica.refusal(trouble) from trouble
        return proposal

    def _is_committed(self, term: int, index: int) -> bool:
        raft = self._replica.driver.raft
        return 0 < index <= raft.commit and raft.log.holds(index, term)

    def _with_addresses(self, configuration: ShardConfiguration) -> ShardConfiguration:
        """Return the configuration with the addresses of all members, because a new node needs them. Configurations
        that early versions wrote have no addresses."""

        def known(node: int, member: ConfiguredMember) -> ConfiguredMember:
            return member if member.address else replace(member, address=self._replica.membership.set_address(node))

        return replace(
            configuration,
            voters={node: known(node, member) for node, member in configuration.voters.items()},
            learners={node: known(node, member) for node, member in configuration.learners.items()},
        )


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))


def accepted(node: int, address: str, answer: Introduction | None) -> bytes:
    """Check that a new node can be added, and return the node's incarnation. Raises NodeRefusedError, or
    NodeSilentError without an answer."""
    if answer is None:
        raise NodeSilentError(
            f"no node answers at {address}: start node {node} there with `join = true`, then add it again"
        )
    if answer.refusal:
        raise NodeRefusedError(answer.refusal)
    if answer.node != node:
        raise NodeRefusedError(
            f"the node at {address} is node {answer.node}, not node {node}: correct the number or the address"
        )
    if not answer.empty:
        raise NodeRefusedError(
            f"node {node} has data already, perhaps from before it was removed: stop it, remove its data directory, "
            "start it with `join = true`, then add it again"
        )
    return answer.incarnation


def doubt_of(replica: BrokerReplica, shard: SuspectShard, node: int) -> Suspect:
    """Return the suspect mark of this node, which says why the node is a suspect. Raises InvalidArgumentError if
    `node` is another node, and NotSuspectError if this node is no suspect."""
    validate_node(node)
    own = replica.driver.raft.node
    if node != own:
        raise InvalidArgumentError(f"this is node {own}, not node {node}: ask the suspect node itself")
    doubt = shard.suspect()
    if doubt is None or not replica.driver.raft.is_suspect:
        raise NotSuspectError(f"node {node} is not suspect: it has every entry that it acknowledged")
    return doubt


async def recover(replica: BrokerReplica, shard: SuspectShard) -> None:
    """Accept that this suspect node may have lost entries, and remove its suspect mark. Raises RecoveryRefusedError
    if the shard has a leader, because the leader sends the lost entries again."""
    raft = replica.driver.raft
    if raft.leader:
        raise not_lost(raft.node, raft.leader)
    await shard.accept_loss()


def not_lost(node: int, leader: int) -> RecoveryRefusedError:
    """Return the refusal for a suspect node that has a leader."""
    return RecoveryRefusedError(
        f"node {node} follows node {leader}, which sends it the missing entries: wait until it has caught up, and "
        "nothing is lost"
    )


def validate_node(node: int) -> None:
    """Raise InvalidArgumentError if `node` cannot be the number of a node."""
    if node < 1:
        raise InvalidArgumentError(f"{node} cannot be the number of a node: numbers begin at 1")


def validate_address(address: str) -> None:
    """Raise InvalidArgumentError unless the address has the form host:port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise InvalidArgumentError(f"{address!r} is not an address of the form host:port")
