"""Creates the objects of one running replica, without starting them.

From the open files of the replica, the builder creates the broker replica. Then the builder creates the disk threads,
the transport, and the driver with its Raft core.
"""

from __future__ import annotations

import asyncio

from cluster.node.formation.first_voters import preferred
from cluster.node.replica.disk_threads import DiskThreads, Flushing
from cluster.node.replica.flush_schedule import FlushSchedule
from cluster.node.replica.shard_files import ShardFiles
from cluster.node.replica.stall import Stall
from cluster.node.resources import NodeResources
from cluster.node.runtime import PeerTransport
from cluster.node.settings import NodeSettings
from ledger.broker.applied_state import AppliedState
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.members.membership import Membership
from ledger.broker.produce.timed_limits import TimedLimits
from raft.core import Durable, LogTerms, Raft, RaftSettings, RaftTiming, RecoveredState, TermRun
from raft.core.transfer import PREFERENCE_PATIENCE
from raft.driver import Driver
from raft.driver_settings import DriverRuntime, ReplicaStorage
from raft.entry_times import REMEMBERED_STEPS, REMEMBERED_WRITES
from raft.held_up import HeldUp
from raft.transport.grpc_transport import Identity, Receiver
from store import VoteFile

# The bound on uncommitted entries of all shards of a node together; each shard may always have the least.
MAX_UNCOMMITTED_BYTES = 64 << 20
LEAST_UNCOMMITTED_BYTES = 8 << 20


class ReplicaBuilder:
    """`ReplicaBuilder` creates the objects of the replica of shard `number` from its open files."""

    def __init__(self, number: int, node: NodeResources, files: ShardFiles, votes: VoteFile, stall: Stall) -> None:
        self.number = number
        self._node = node
        self._settings = node.settings
        self._runtime = node.runtime
        self._files = files
        self._opened = files.opened
        self._log = files.opened.log
        self._votes = votes
        self._stall = stall

    def replica(self, fetch_waiters: FetchWaiters) -> BrokerReplica:
        """Return the `BrokerReplica`, through which the broker uses the replica. The method `driver` later attaches
        the driver to the replica."""
        settings, files = self._settings, self._files
        return BrokerReplica(
            shard=self.number,
            applied=AppliedState(
                self._log, files.queues, files.keys, files.timed, fetch_waiters, self._runtime.latest_level
            ),
            membership=Membership(settings.node, self._votes.vote.incarnation, settings.addresses),
            max_message_bytes=self._opened.max_message_bytes,
            max_entry_bytes=self._opened.max_entry_bytes,
            meter=self._node.meters,
            doubt=lambda: self._node.directory.marks(self.number).suspect(),
            monotonic_s=self._runtime.monotonic_s,
            timed_limits=TimedLimits(
                settings.timed_max_days, settings.timed_waiting_bytes, settings.retention_bytes, settings.shards
            ),
            events=self._node.events,
            preference_ms=PREFERENCE_PATIENCE * settings.election_ticks * settings.tick_ms,
        )

    def threads(self, replica: BrokerReplica) -> DiskThreads:
        """Return the helper threads for votes, flushes and new segments."""
        settings = self._settings
        return DiskThreads(
            self._log,
            self._votes,
            self._runtime,
            flushing_of(settings),
            forget_suspicion=lambda: self._node.directory.marks(self.number).clear_suspect(),
            on_failure=self._runtime.vital.event(lambda failure: replica.driver.fail(failure)),
            on_flush=self._node.meters.flush_seconds.observe,
            on_vote=self._voted,
            on_trusted=lambda why: self._node.events.happened(self.number, "suspect", why),
        )

    def _voted(self, term: int, voted_for: int) -> None:
        if voted_for:
            text = f"vote for node {voted_for}"
            self._node.events.happened(self.number, "vote", text, term=term, subject=voted_for)

    def transport(self, replica: BrokerReplica) -> PeerTransport:
        """Return the transport to the other voters and learners. The transport passes received messages to the
        driver."""
        settings, vital = self._settings, self._runtime.vital
        return self._runtime.make_transport(
            Identity(settings.cluster, self.number, settings.node, self._votes.vote.incarnation),
            self._node.other_peers,
            Receiver(
                message=vital.event(lambda message: replica.driver.receive(message)),
                append=vital.event(lambda append, entries: replica.driver.receive_append(append, entries)),
                snapshot=vital.event(lambda chunk, piece: replica.driver.receive_snapshot(chunk, piece)),
                unreachable=vital.event(lambda peer: replica.driver.unreachable(peer)),
            ),
        )

    def driver(self, replica: BrokerReplica, threads: DiskThreads, transport: PeerTransport) -> Driver:
        """Return the driver with its core, and attach the driver to `replica`. The state of `replica` continues
        from the checkpoint or the snapshot."""
        settings, runtime, vital = self._settings, self._runtime, self._runtime.vital
        loop, snapshot, found = (
            asyncio.get_running_loop(),
            self._opened.snapshots.snapshot,
            self._files.checkpoints.found,
        )
        driver = Driver(
            self._make_core(replica),
            ReplicaStorage(self._log, self._opened.snapshots, found.snapshot if found is not None else snapshot),
            transport=transport,
            disk=threads,
            machine=replica,
            runtime=DriverRuntime(
                now_ms=runtime.now_ms,
                steady_ms=runtime.monotonic_ms,
                soon=lambda work: loop.call_soon(vital.event(work)),
                stalled=lambda: self._stalled(replica, threads),
                was_held_up=HeldUp(runtime.monotonic_ms, settings.tick_ms * settings.election_ticks),
                remembered_writes=max(REMEMBERED_STEPS, REMEMBERED_WRITES // settings.shards),
            ),
        )
        replica.attach(driver)
        if found is not None:
            replica.resume(found)
        elif snapshot is not None:
            replica.restore(snapshot)
        return driver

    def _stalled(self, replica: BrokerReplica, threads: DiskThreads) -> str:
        """Return the reason why new sends are refused at this moment, or "" if they are accepted. A slow flush is a
        reason only while proposals wait for a majority. If the other nodes commit without this node's flush, no
        send waits for the flush."""
        waits = self._settings.flush == "sync" and replica.driver.backlog > 0
        return self._stall.reason(threads.flushing_ms if waits else 0.0)

    def _make_core(self, replica: BrokerReplica) -> Raft:
        settings, vote, chance = self._settings, self._votes.vote, self._runtime.chance
        first, last = self._log.first_index, self._log.last_index
        runs = [TermRun(*run) for run in self._log.reading.term_runs(first, last)]
        raft_settings = RaftSettings(
            settings.node,
            timing=RaftTiming(heartbeat_ticks=settings.heartbeat_ticks, election_ticks=settings.election_ticks),
            jitter=lambda: chance.randrange(settings.election_ticks),
            reach=self._reach,
            max_uncommitted_bytes=uncommitted_bytes(settings),
            prefer=preferred(self.number, settings, lambda: replica.pinned_leader, lambda: replica.balanced_leader),
            feature_level=self._runtime.latest_level,
            catch_up=self._node.catch_up,
            incarnation=vote.incarnation,
        )
        recovered = RecoveredState(
            Durable(vote.term, vote.voted_for),
            LogTerms(runs, last, snapshot_index=first - 1, snapshot_term=self._log.term(first - 1)),
            configurations=[
                (index, configuration.core_of(raft_settings)) for index, configuration in self._opened.configurations
            ],
            commit=self._log.known_commit,
            suspicion=chance.getrandbits(63) | 1 if self._node.directory.marks(self.number).suspect() else 0,
        )
        return Raft(raft_settings, recovered)

    def _reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        last = self._log.reading.reach(first, max_bytes)
        return last, self._log.reading.span(first, last)


def flushing_of(settings: NodeSettings) -> Flushing:
    """Return the settings of this node that say when its logs are flushed."""
    return Flushing(
        settings.flush,
        FlushSchedule(
            settings.flush_interval_ms,
            settings.flush_pages,
            settings.flush_thorough_ms,
            settings.write_out_interval_ms,
        ),
        stages=settings.write == "staged",
    )


def uncommitted_bytes(settings: NodeSettings) -> int:
    """Return how many bytes of uncommitted entries one shard is allowed to keep in memory."""
    return max(LEAST_UNCOMMITTED_BYTES, MAX_UNCOMMITTED_BYTES // settings.shards)
