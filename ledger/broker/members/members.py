"""The leader changes who belongs to the shard: one node and one step at a time.

    (a new node) ──add──> learner ──promote──> voter ──remove──> gone, and never again with that directory

Each request is judged by the newest configuration and by what the leader knows of its followers, and then becomes one
entry, or a refusal that says what to do first. To ask for what is so already is no error, so a request whose answer
was lost can be made again. Whether a change is safe the core decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import ChangeProposal
from ledger.errors import (
    LastVoterError,
    NodeBehindError,
    NodeExistsError,
    NodeRefusedError,
    UnknownNodeError,
)
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, encode_configuration
from raft.core import ChangeRefused, Refusal
from raft.core.progress import Mode
from store import EntryDraft, EntryKind, StoreError

CAUGHT_UP_BYTES = 8 << 20
"""What a follower that keeps up may lack at any moment: as much as may be in flight to it."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A node's own answer to who it is. `refusal`: why it cannot be added to this shard; empty when it can."""

    node: int
    incarnation: bytes
    empty: bool
    refusal: str


AskJoiningNode = Callable[[int, str, ShardConfiguration], Awaitable[Introduction | None]]
"""Who is node N at that address, which a leader of this configuration asks? None: nobody answers."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """How far a member is, as the leader sees it. The lag is what it lacks of what is committed."""

    node: int
    address: str
    incarnation: bytes
    is_voter: bool
    is_suspect: bool
    lag_entries: int
    lag_bytes: int
    caught_up: bool


class Members:
    """Of one shard, on a node that may lead it. All raise LedgerError."""

    def __init__(self, replica: BrokerReplica, ask: AskJoiningNode) -> None:
        self._replica = replica
        self._ask = ask

    def states(self, configuration: ShardConfiguration) -> list[MemberState]:
        """Each member of that configuration, by node. This node leads."""
        return [
            self._state(node, member, node in configuration.voters) for node, member in configuration.members.items()
        ]

    async def add(self, node: int, address: str) -> ChangeProposal | None:
        """A new node becomes a learner. None: it is a member already."""
        answer = await self._ask(node, address, self._newest())
        configuration = self._newest()
        known = configuration.members.get(node)
        if known is not None and answer is not None and known.incarnation == answer.incarnation:
            self._check_is_there(node, known, address)
            return None
        self._check_is_free(configuration, node, address)
        incarnation = accepted(node, address, answer)
        return self._change(configuration.with_learner(node, ConfiguredMember(incarnation, address)))

    async def promote(self, node: int) -> ChangeProposal | None:
        """A learner becomes a voter. None: it is one already."""
        configuration = self._newest()
        if node in configuration.voters:
            return None
        member = self._member(configuration, node)
        self._check_caught_up(node, member)
        address = self._address(node, member)
        answer = await self._ask(node, address, configuration)
        if answer is None or answer.incarnation != member.incarnation:
            raise NodeBehindError(f"node {node} does not answer at {address}: see that it runs before it is to vote")
        configuration = self._newest()
        if node not in configuration.learners:
            self._member(configuration, node)
            return None
        return self._change(configuration.with_voter(node))

    def remove(self, node: int) -> ChangeProposal:
        """A member is one no more; the leader itself may be that."""
        configuration = self._newest()
        self._member(configuration, node)
        return self._change(configuration.without(node))

    # -- what is so

    def _newest(self) -> ShardConfiguration:
        """In the log, committed or not: while it is not, the core refuses another. Only the leader's counts."""
        if not self._replica.driver.leads:
            raise self._replica.not_leading()
        configuration = self._replica.newest_configuration()
        assert configuration is not None, "who leads has been named by a configuration"
        return configuration

    def _member(self, configuration: ShardConfiguration, node: int) -> ConfiguredMember:
        member = configuration.members.get(node)
        if member is None:
            known = ", ".join(str(each) for each in configuration.members)
            raise UnknownNodeError(f"node {node} is no member of this cluster: its members are {known}")
        return member

    def _check_is_there(self, node: int, member: ConfiguredMember, address: str) -> None:
        at = self._address(node, member)
        if at != address:
            raise NodeExistsError(
                f"node {node} is a member already, at {at}: where it has moved, say so in the `peers` of the others"
            )

    def _check_is_free(self, configuration: ShardConfiguration, node: int, address: str) -> None:
        if node in configuration.members:
            raise NodeExistsError(
                f"node {node} is a member already, with another data directory than the one at {address}: remove it "
                f"first (`ledgermq cluster remove-node {node}`), or give the new node another number"
            )
        addresses = self._replica.membership.addresses()
        for other in configuration.members:
            if addresses.get(other) == address:
                raise NodeExistsError(f"{address} is the address of node {other} already: give another one")
        expected = self._replica.membership.set_address(node)
        if expected and expected != address:
            raise NodeExistsError(
                f"the `peers` of the leader say that node {node} is at {expected}, and they go before: give that "
                f"address, change its `peers`, or give the new node another number"
            )

    def _check_caught_up(self, node: int, member: ConfiguredMember) -> None:
        state = self._state(node, member, is_voter=False)
        if not state.caught_up:
            raise NodeBehindError(
                f"node {node} lacks {state.lag_entries:,} entries ({state.lag_bytes / 1e6:,.1f} MB) of what is "
                "committed: promote it when it has caught up"
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
        )

    # -- the change

    def _change(self, configuration: ShardConfiguration) -> ChangeProposal:
        replica, configuration = self._replica, self._with_addresses(configuration)
        draft = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))
        proposal = ChangeProposal(draft, self._is_committed, replica.not_leading)
        try:
            replica.driver.change(proposal, configuration.core)
        except ChangeRefused as refused:  # what else it may refuse does not come about here
            raise LastVoterError(f"{refused}: add another voter first") from refused
        except (Refusal, StoreError) as trouble:
            raise replica.refusal(trouble) from trouble
        return proposal

    def _is_committed(self, term: int, index: int) -> bool:
        raft = self._replica.driver.raft
        return 0 < index <= raft.commit and raft.log.holds(index, term)

    def _with_addresses(self, configuration: ShardConfiguration) -> ShardConfiguration:
        """A cluster may have begun before addresses were kept in its log; a new node needs those of all."""

        def known(node: int, member: ConfiguredMember) -> ConfiguredMember:
            return member if member.address else replace(member, address=self._replica.membership.set_address(node))

        return replace(
            configuration,
            voters={node: known(node, member) for node, member in configuration.voters.items()},
            learners={node: known(node, member) for node, member in configuration.learners.items()},
        )


def accepted(node: int, address: str, answer: Introduction | None) -> bytes:
    """The incarnation of a node that can be added."""
    if answer is None:
        raise NodeRefusedError(
            f"no node answers at {address}: start node {node} there with `join = true`, then add it again"
        )
    if answer.refusal:
        raise NodeRefusedError(answer.refusal)
    if answer.node != node:
        raise NodeRefusedError(f"at {address} is node {answer.node}, not node {node}")
    if not answer.empty:
        raise NodeRefusedError(
            f"node {node} has data already, perhaps from before it was removed: stop it, remove its data directory, "
            "start it with `join = true`, then add it again"
        )
    return answer.incarnation
