"""The formation of one shard on this node: this node's introduction, and the writing of entry 1.

This module defines:

    this node writes entry 1   `form`: asks the other first voters, then appends and flushes the entry
    another node writes it     `introduction`: this node's answer to the node that asks
    a leader adds a node       `ask_introduction`: the leader asks the node to be added
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging

from cluster.node.formation.allowed_nodes import is_allowed
from cluster.node.formation.first_start import (
    ASK_AGAIN_S,
    TELL_EVERY,
    FirstStartRefusedError,
    FormingNode,
    first_configuration,
)
from cluster.node.formation.first_voters import FirstVoters, first_shard
from cluster.node.replica.shard_log import ShardLog
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.members.members import Introduction
from ledger.errors import NodeRefusedError
from ledger.topics import TOPICS_SHARD
from raft.cluster_clock import ClusterClock, believable
from raft.configuration_entry import ShardConfiguration, encode_configuration
from raft.v1 import raft_pb2
from store import EntryDraft, EntryKind, NoSpaceError, VoteFile

log = logging.getLogger("ledgermq.node.formation")

TRY_FULL_DISK_S = 1.0
# How long a leader waits for the answer of a node that it is to add, because the command that adds a node often follows
# the command that starts the node. Less than the 5 s that a client waits for the leader.
STARTS_WITHIN_S = 4.0


class ShardFormation:
    """`ShardFormation` forms one shard on this node, together with the other first voters of the shard."""

    def __init__(self, number: int, settings: NodeSettings, runtime: Runtime, votes: VoteFile) -> None:
        # The nodes that the shard begins on; None if this node does not know them.
        self.first_voters: FirstVoters | None = first_shard(settings) if number == TOPICS_SHARD else None
        self._number = number
        self._settings = settings
        self._runtime = runtime
        self._votes = votes

    def introduction(self, *, is_log_empty: bool) -> FormingNode:
        """Return the present introduction of this node. The introduction says `empty` until the shard has begun on
        this node."""
        settings, vote = self._settings, self._votes.vote
        is_first = self._number == TOPICS_SHARD
        return FormingNode(
            cluster=settings.cluster,
            shard=self._number,
            node=settings.node,
            incarnation=vote.incarnation,
            address=settings.peers.get(settings.node, settings.advertised),
            voters=self.first_voters.voters if self.first_voters else (),
            segment_bytes=settings.segment_bytes,
            max_entry_bytes=settings.largest_entry_bytes,
            empty=is_log_empty and vote.term == 0,
            joins=settings.join and is_first,
            may_be_added=not is_first,
            latest_level=self._runtime.latest_level,
            wall_ms=believable(self._runtime.now_ms()),
        )

    async def form(self, forming_node: FormingNode, opened: ShardLog) -> None:
        """Write entry 1 after every first voter has answered that its data directory is empty. If a first voter
        refuses, log the reason and return without writing entry 1."""
        assert self.first_voters is not None
        peers = await self._other_first_voters(self.first_voters)
        introductions = self._runtime.introductions(peers)
        clock = ClusterClock(self._settings.node, self._runtime.now_ms, self._runtime.monotonic_ms)
        try:
            configuration = await first_configuration(forming_node, peers, introductions, clock.heard)
        except FirstStartRefusedError as refusal:
            log.error("shard %d: this node cannot form the shard: %s", self._number, refusal)
            return
        finally:
            await introductions.close()
        draft = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))
        voters = self.first_voters.voters
        while not self._write_first(draft, opened, clock.now_ms(voters)):  # noqa: ASYNC110 (no event reports that a disk has room again)
            await asyncio.sleep(TRY_FULL_DISK_S)
        opened.configurations.append((1, configuration))
        log.info("shard %d: first start, voters %s", self._number, sorted(configuration.voters))

    async def ask_introduction(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        """Ask the node at `address`, which a leader wants to add to this shard, for its introduction. Ask again for a
        while, because the node may be starting. Return None if the node does not answer. Raises NodeRefusedError if the
        settings do not allow this address."""
        if not is_allowed(address, self._settings.allowed_nodes):
            raise NodeRefusedError(
                f"the settings of node {self._settings.node} do not allow a node at {address}: add its host, or its "
                "range of IP addresses, to `allowed_nodes`"
            )
        request = raft_pb2.IntroduceRequest(
            cluster=configuration.cluster,
            shard=self._number,
            sender=self._settings.node,
            segment_bytes=configuration.segment_bytes,
            max_entry_bytes=configuration.max_entry_bytes,
            adding=True,
        )
        introductions, answer = self._runtime.introductions({node: address}), None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STARTS_WITHIN_S):
                    while (answer := await introductions.ask(node, request)) is None:  # noqa: ASYNC110 (no event tells)
                        await asyncio.sleep(ASK_AGAIN_S)
        finally:
            await introductions.close()
        if answer is None:
            return None
        return Introduction(answer.node, answer.incarnation, answer.empty, answer.refusal, answer.feature_level)

    async def _other_first_voters(self, first_voters: FirstVoters) -> dict[int, str]:
        """Wait until each other first voter is a member of the cluster, and return their addresses."""
        others = [node for node in first_voters.voters if node != self._settings.node]
        for attempt in itertools.count():
            peers = {node: first_voters.address(node) for node in others}
            gone = [node for node, address in peers.items() if not address]
            if not gone:
                break
            if attempt % TELL_EVERY == 0:
                log.warning(
                    "shard %d: the first start waits for node %d, which is to be a voter and is no member of the "
                    "cluster: add a node of that number",
                    self._number,
                    gone[0],
                )
            await asyncio.sleep(ASK_AGAIN_S)
        return peers

    def _write_first(self, draft: EntryDraft, opened: ShardLog, now_ms: int) -> bool:
        """Append and flush entry 1, with the append time `now_ms`. Return False if the disk is full."""
        # Term 1 is not saved in the vote file before: a vote file with term 1 and no entry 1, which a kill could leave,
        # would make this node not `empty` for ever.
        try:
            opened.log.append([draft], term=1, commit=0, now_ms=now_ms)
        except NoSpaceError as full:
            log.error("shard %d: the first start waits for room on the disk: %s", self._number, full)
            return False
        opened.log.sync()
        return True
