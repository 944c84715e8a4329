"""One node's replica of a shard: its files, the Raft core and driver, and the broker's side.

    log, votes ─> (formation) ─> core ─> driver ─> broker replica
                                  └── transport, disk threads, ticks

`LocalReplica` makes these parts in this order and closes them in the reverse order. `cluster.node.node_shards` and
`cluster.node.node` connect the replicas of a node to its ports.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cluster.node.formation.first_start import (
    ASK_AGAIN_S,
    TELL_EVERY,
    FirstStartRefusedError,
    FormingNode,
    first_configuration,
)
from cluster.node.formation.first_voters import FirstVoters, first_shard, preferred
from cluster.node.metrics.node_metrics import Meters
from cluster.node.process.ticker import Ticker
from cluster.node.repair.scrub import Scrub
from cluster.node.repair.scrub_repairer import ScrubRepairer
from cluster.node.replica.checkpoints import INTERVAL_S, Checkpoints
from cluster.node.replica.disk_threads import DiskThreads
from cluster.node.replica.flush_schedule import FlushSchedule
from cluster.node.replica.opening import Opening
from cluster.node.replica.retention import RetentionWatch
from cluster.node.replica.shard_files import ShardFiles
from cluster.node.replica.shard_log import ShardLog
from cluster.node.replica.stall import Stall
from cluster.node.runtime import PeerTransport, Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.acknowledgements import Acknowledgements
from ledger.broker.consumer_groups.claims import Claims
from ledger.broker.consumer_groups.coordinator import Coordinator
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.members.members import Introduction
from ledger.broker.members.membership import Membership, Standing
from ledger.broker.rpc.consumer_groups import ShardConsumption
from ledger.topics import TOPICS_SHARD
from raft.configuration_entry import ShardConfiguration, encode_configuration
from raft.core import Durable, LogTerms, Raft, TermRun, Timing
from raft.driver import Driver
from raft.held_up import HeldUp
from raft.transport.grpc_transport import Identity, Receiver
from raft.v1 import raft_pb2
from store import (
    CommitLog,
    Disk,
    DiskFullError,
    Draft,
    Flaw,
    Kind,
    NodeDirectory,
    Snapshot,
    StoreError,
    Suspect,
    Vote,
    VoteFile,
)
from store.directory.vote_file import INCARNATION_BYTES

log = logging.getLogger("ledgermq.node.shard")

# The bound on uncommitted entries of all shards of a node together; each shard may always have the least.
MAX_UNCOMMITTED_BYTES = 64 << 20
LEAST_UNCOMMITTED_BYTES = 8 << 20
TRY_FULL_DISK_S = 1.0
# A replica with more committed entries that are not applied yet is catching up, so it is not ready.
BUSY_ENTRIES = 1024


class LocalReplica:
    """This node's replica of one shard. The constructor opens and checks the files, `take_part` starts the replica, and
    `stop` stops it."""

    def __init__(
        self,
        number: int,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        meters: Meters,
        runtime: Runtime,
        ticker: Ticker,
        fetch_waiters: FetchWaiters,
    ) -> None:
        """Read the log, or only the entries after the last checkpoint. If the log is damaged and there are other nodes
        to repair it from, `take_part` repairs it. Raises StoreError, ShardError."""
        self.number = number
        # What serves consumer groups in this shard; None until the replica has started.
        self.shard_consumption: ShardConsumption | None = None
        # The broker's side of this replica; None until the replica has started.
        self.replica: BrokerReplica | None = None
        self._settings = settings
        self._disk = disk
        self._directory = directory
        self._meters = meters
        self._runtime = runtime
        self._vital = runtime.vital
        self._ticker = ticker
        self._fetch_waiters = fetch_waiters
        self._first_voters = first_shard(settings) if number == TOPICS_SHARD else None
        self._tick: Callable[[], None] = lambda: None
        self._stall = Stall(settings.busy_ms, runtime.monotonic_ms)
        self._transport: PeerTransport | None = None
        self._threads: DiskThreads | None = None
        self._tasks: list[asyncio.Task[None]] = []
        incarnation = runtime.chance.randbytes(INCARNATION_BYTES)
        self._votes = VoteFile.open(disk, directory.vote_path(number), new_incarnation=incarnation)
        self._opening = Opening(number, settings, disk, directory, meters, runtime, self._appended)
        self._scrub_repairer: ScrubRepairer | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the log has, or had, any entry. True also for a log that is too damaged to be opened."""
        return self.is_closed or self._log.last_index > 0

    @property
    def is_formed(self) -> bool:
        """Whether this node knows the first voters of the shard."""
        return self._first_voters is not None

    async def take_part(self, first_voters: FirstVoters | None = None) -> None:
        """Start this replica: repair its log if needed, write entry 1 if this node forms the shard, then join elections
        and serve clients. Repair and formation may wait for other nodes without a limit.

        `first_voters` are the first voters of a shard other than shard 0; shard 0 takes them from the settings."""
        await self._opening.finish()
        self._first_voters = self._first_voters or first_voters
        if self._first_voters is not None and self.forming_node.asks:
            await self._first_start()
        replica = self._make_replica()
        threads = self._threads = self._make_threads(replica)
        transport = self._transport = self._make_transport(replica)
        loop, snapshot, found = asyncio.get_running_loop(), self._opened.snapshots.snapshot, self._checkpoints.found
        driver = Driver(
            self._make_core(),
            self._log,
            snapshots=self._opened.snapshots,
            resumed=found.snapshot if found is not None else snapshot,
            transport=transport,
            disk=threads,
            machine=replica,
            now_ms=self._runtime.now_ms,
            soon=lambda work: loop.call_soon(self._vital.event(work)),
            max_uncommitted_bytes=uncommitted_bytes(self._settings),
            stalled=lambda: self._stalled(replica, threads),
            was_held_up=HeldUp(self._runtime.monotonic_ms, self._settings.tick_ms * self._settings.election_ticks),
        )
        replica.attach(driver)
        if found is not None:
            replica.resume(found)
        elif snapshot is not None:
            replica.restore(snapshot)
        self.replica = replica
        threads.start()
        driver.start()
        transport.start()
        coordinator = Coordinator(replica, self._runtime.monotonic_ms, self._vital.spawn)
        self.shard_consumption = ShardConsumption(
            replica, coordinator, Acknowledgements(replica.command), Claims(replica)
        )
        self._tick = self._vital.event(driver.tick)
        self._ticker.add(self._tick)
        self._tasks = [
            self._vital.spawn(self._keep_checkpoints(replica, threads), f"checkpoints of shard {self.number}"),
            self._vital.spawn(self._make_retention(replica).run(), f"retention of shard {self.number}"),
            self._vital.spawn(self._look_after_log(replica, threads), f"scrub of shard {self.number}"),
            self._vital.spawn(coordinator.run(), f"consumer groups of shard {self.number}"),
        ]

    async def stop(self) -> None:
        """Stop in order: all acknowledged entries are on the disk, and a clean mark records that. The caller has closed
        the ports before."""
        await self._end_tasks()
        if self._transport is not None:
            await self._transport.stop()
        if self._threads is not None:
            await self._threads.stop()
        if self.replica is not None:
            self.replica.driver.stop()  # the loop, and so this driver's timers, continue until all shards are stopped
        if self._opening.files is not None:
            self._save_last_checkpoint()
            self._opening.files.close()
        self._votes.close()

    async def _end_tasks(self) -> None:
        self._ticker.remove(self._tick)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_checkpoints(self, replica: BrokerReplica, threads: DiskThreads) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            draft = self._checkpoints.draft(replica)
            if draft is not None:
                await threads.beside(partial(self._checkpoints.write, draft, self._log.sync))

    def _save_last_checkpoint(self) -> None:
        """Write a checkpoint of the whole log, so that the next start does not read the log."""
        draft = self._checkpoints.draft(self.replica) if self.replica is not None else None
        if draft is not None:
            try:
                self._checkpoints.write(draft, self._log.sync)
            except StoreError as failure:
                log.error(
                    "shard %d: the last checkpoint could not be written, so the next start reads more of the log: %s",
                    self.number,
                    failure,
                )

    @property
    def log(self) -> CommitLog:
        """The open log. Must not be used while `is_closed`."""
        return self._opened.log

    @property
    def _log(self) -> CommitLog:
        return self._opened.log

    @property
    def _files(self) -> ShardFiles:
        assert self._opening.files is not None, "the log is being repaired"
        return self._opening.files

    @property
    def _opened(self) -> ShardLog:
        return self._files.opened

    @property
    def _checkpoints(self) -> Checkpoints:
        return self._files.checkpoints

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that the log begins with; None if the log begins at entry 1."""
        return self._opened.snapshots.snapshot

    @property
    def commit(self) -> int:
        """The commit index, as far as this node knows it."""
        return self.replica.driver.raft.commit if self.replica is not None else self._log.known_commit

    @property
    def max_message_bytes(self) -> int:
        return self._settings.max_message_bytes if self.is_closed else self._opened.max_message_bytes

    @property
    def is_closed(self) -> bool:
        """Whether the log is so damaged that it cannot be opened before startup repair has finished."""
        return self._opening.repair is not None

    @property
    def is_damaged(self) -> bool:
        """Whether the log is damaged and a startup repair or scrub repair is not finished."""
        repairs = self._scrub_repairer is not None and bool(self._scrub_repairer.reason)
        return self.is_closed or self._opening.left is not None or repairs

    def not_ready(self) -> str:
        """Why clients should not use this replica; empty if the replica is ready."""
        if self._opening.repair is not None:
            return self._opening.repair.reason
        if self.replica is None:
            return f"shard {self.number} waits for the first start of the cluster"
        if self.number != TOPICS_SHARD and self.replica.membership.standing in (Standing.REMOVED, Standing.JOINING):
            return ""  # this shard has its replicas on other nodes, so it does not make this node unready
        if reason := self.apart():
            return reason
        driver = self.replica.driver
        has_begun = driver.raft.configuration_index > 0  # then a peer that disowns this node is wrong, not this node
        if not has_begun and self._transport is not None and self._transport.disowned:
            return self._transport.disowned
        if self._scrub_repairer is not None and self._scrub_repairer.reason:
            return self._scrub_repairer.reason
        if driver.failure is not None:
            return f"the disk refuses writes: {driver.failure}"
        if driver.raft.leader == 0:
            return f"no leader of shard {self.number} is known"
        if driver.raft.commit - driver.applied > BUSY_ENTRIES:
            return f"applied {driver.applied} of {driver.raft.commit} committed entries"
        return ""

    def apart(self) -> str:
        """Why this node is no member of the shard or of the cluster; empty if it is a member, or does not know."""
        assert self.replica is not None
        node, standing = self._settings.node, self.replica.membership.standing
        if self.number != TOPICS_SHARD:
            return f"node {node} was removed from shard {self.number}" if standing is Standing.REMOVED else ""
        if standing is Standing.REMOVED:
            return (
                f"node {node} was removed from cluster {self._settings.cluster!r}, so it no longer votes or serves "
                f"clients: stop it; to add it again, remove its data directory {self._settings.data} and start it with "
                "`join = true`"
            )
        if standing is Standing.JOINING and self._settings.join:
            return (
                f"node {node} waits to be added to the cluster: run `ledgermq cluster add-node {node} --address "
                "HOST:PORT`"
            )
        return ""

    def retire(self) -> None:
        """Make this replica silent after its node was removed: it stops ticking and sends nothing to its peers."""
        assert self.replica is not None
        self._ticker.remove(self._tick)
        configuration = self.replica.newest_configuration()
        if self._transport is not None and configuration is not None:
            self._transport.configured(replace(configuration, voters={}, learners={}), served=())

    # -- what operators ask (`ledger.broker.rpc.operations.Site`)

    async def ask_joining_node(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        """Ask the node at `address`, which a leader wants to add to this shard, for its introduction. None if the node
        does not answer."""
        request = raft_pb2.IntroduceRequest(
            cluster=configuration.cluster,
            shard=self.number,
            sender=self._settings.node,
            segment_bytes=configuration.segment_bytes,
            max_entry_bytes=configuration.max_entry_bytes,
            adding=True,
        )
        introductions = self._runtime.introductions({node: address})
        try:
            answer = await introductions.ask(node, request)
        finally:
            await introductions.close()
        if answer is None:
            return None
        return Introduction(answer.node, answer.incarnation, answer.empty, answer.refusal)

    def doubt(self) -> Suspect | None:
        """Why this node is a suspect: which acknowledged entries it may have lost. None if it is no suspect."""
        return self._directory.suspect(self.number)

    async def accept_loss(self) -> None:
        """Remove the mark of a suspect durably. This node then votes and counts again."""
        assert self.replica is not None
        assert self._threads is not None
        forgotten = asyncio.get_running_loop().create_future()
        self._threads.trusted(lambda: forgotten.set_result(None))
        await forgotten
        log.error("shard %d: an operator accepted the loss of the entries that this node may have lost", self.number)
        self.replica.driver.accept_loss()

    # -- entries for others

    def read_entries(self, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        """The entries that another node requests to repair its log."""
        return self._opening.read_entries(request, 0 if self.is_closed else self.commit)

    # -- the first start

    @property
    def vote(self) -> Vote:
        """The vote as last written to the vote file."""
        return self._votes.vote

    @property
    def forming_node(self) -> FormingNode:
        """This node's introduction at this moment. A node is `empty` only until the shard has begun on it."""
        settings, vote = self._settings, self._votes.vote
        is_first, voters = self.number == TOPICS_SHARD, self._first_voters.voters if self._first_voters else ()
        return FormingNode(
            cluster=settings.cluster,
            shard=self.number,
            node=settings.node,
            incarnation=vote.incarnation,
            address=settings.peers.get(settings.node, settings.advertised),
            voters=voters,
            segment_bytes=settings.segment_bytes,
            max_entry_bytes=settings.largest_entry_bytes,
            empty=not self.is_closed and self._log.last_index == 0 and vote.term == 0,
            joins=settings.join and is_first,
            may_be_added=not is_first,
        )

    async def _first_start(self) -> None:
        """Write entry 1 after every voter has answered that it is empty."""
        assert self._first_voters is not None
        peers = await self._other_founders(self._first_voters)
        introductions = self._runtime.introductions(peers)
        try:
            configuration = await first_configuration(self.forming_node, peers, introductions)
        except FirstStartRefusedError as refusal:
            log.error("shard %d: this node cannot form the shard: %s", self.number, refusal)
            return
        finally:
            await introductions.close()
        draft = Draft(Kind.CONFIGURATION, encode_configuration(configuration))
        while not self._write_first(draft):  # noqa: ASYNC110 (no event reports that a disk has room again)
            await asyncio.sleep(TRY_FULL_DISK_S)
        self._opened.configurations.append((1, configuration))
        log.info("shard %d: first start, voters %s", self.number, sorted(configuration.voters))

    async def _other_founders(self, first_voters: FirstVoters) -> dict[int, str]:
        """The addresses of the other first voters. Waits until each of them is a member of the cluster."""
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
                    self.number,
                    gone[0],
                )
            await asyncio.sleep(ASK_AGAIN_S)
        return peers

    def _write_first(self, draft: Draft) -> bool:
        """Append and flush entry 1. Returns False if the disk is full."""
        # Term 1 is not saved in the vote file before: a vote file with term 1 and no entry 1, which a kill could leave,
        # would make this node not `empty` for ever.
        try:
            self._log.append([draft], term=1, commit=0, now_ms=self._runtime.now_ms())
        except DiskFullError as full:
            log.error("shard %d: the first start waits for room on the disk: %s", self.number, full)
            return False
        self._log.sync()
        return True

    # -- the parts

    def _make_replica(self) -> BrokerReplica:
        settings, files = self._settings, self._files
        return BrokerReplica(
            shard=self.number,
            commit_log=self._log,
            queues=files.queues,
            keys=files.keys,
            membership=Membership(settings.node, self._votes.vote.incarnation, settings.addresses),
            max_message_bytes=self.max_message_bytes,
            meter=self._meters,
            fetch_waiters=self._fetch_waiters,
            doubt=self.doubt,
        )

    def _make_threads(self, replica: BrokerReplica) -> DiskThreads:
        settings = self._settings
        return DiskThreads(
            self._log,
            self._votes,
            self._runtime,
            flush=settings.flush,
            schedule=FlushSchedule(
                settings.flush_interval_ms,
                settings.flush_pages,
                settings.flush_thorough_ms,
                settings.write_out_interval_ms,
            ),
            stages=settings.write == "staged",
            forget_suspicion=lambda: self._directory.clear_suspect(self.number),
            on_failure=self._vital.event(lambda failure: replica.driver.fail(failure)),
            on_flush=self._meters.flush_seconds.observe,
        )

    async def _look_after_log(self, replica: BrokerReplica, threads: DiskThreads) -> None:
        """Repair the damage that startup repair has left. Then scrub the part of the log that the start did not
        read."""
        segment_bytes, label = self._opened.segment_bytes, str(self.number)
        repaired, damaged = self._meters.repaired_bytes.labels(label).inc, self._meters.log_damaged.labels(label)
        repairer = self._scrub_repairer = ScrubRepairer(replica, self._settings, segment_bytes, self._runtime, repaired)

        async def repair(flaw: Flaw) -> None:
            damaged.set(1)
            await repairer.repair(flaw, threads.beside)
            damaged.set(0)

        if self._opening.left is not None:
            await repair(self._opening.left)
            self._opening.left = None
        await Scrub(self._disk, self._log, segment_bytes, repair).run(threads.beside)

    def _make_retention(self, replica: BrokerReplica) -> RetentionWatch:
        return RetentionWatch(
            replica,
            self._settings,
            self._disk,
            self._directory.log_directory(self.number),
            self._runtime,
            self._meters.disk_use_ratio.set,
        )

    def _appended(self, seconds: float) -> None:
        self._meters.append_seconds.observe(seconds)
        self._stall.appended(seconds)

    def _stalled(self, replica: BrokerReplica, threads: DiskThreads) -> str:
        """Why new sends are refused at this moment; empty if they are accepted. A flush counts only while proposals
        wait for a majority: if the other nodes commit without this node's flush, no send waits for it."""
        waits = self._settings.flush == "sync" and replica.driver.backlog > 0
        return self._stall.reason(threads.flushing_ms if waits else 0.0)

    def _make_transport(self, replica: BrokerReplica) -> PeerTransport:
        settings, vital = self._settings, self._vital
        return self._runtime.make_transport(
            Identity(settings.cluster, self.number, settings.node, self._votes.vote.incarnation),
            self._others(),
            Receiver(
                message=vital.event(lambda message: replica.driver.receive(message)),
                append=vital.event(lambda append, entries: replica.driver.receive_append(append, entries)),
                snapshot=vital.event(lambda chunk, piece: replica.driver.receive_base(chunk, piece)),
                unreachable=vital.event(lambda peer: replica.driver.unreachable(peer)),
            ),
        )

    def _make_core(self) -> Raft:
        settings, vote, chance = self._settings, self._votes.vote, self._runtime.chance
        first, last = self._log.first_index, self._log.last_index
        runs = [TermRun(*run) for run in self._log.term_runs(first, last)]
        return Raft(
            settings.node,
            state=Durable(vote.term, vote.voted_for),
            log=LogTerms(runs, last, base_index=first - 1, base_term=self._log.term(first - 1)),
            configurations=[(index, configuration.core) for index, configuration in self._opened.configurations],
            commit=self._log.known_commit,
            timing=Timing(heartbeat_ticks=settings.heartbeat_ticks, election_ticks=settings.election_ticks),
            jitter=lambda: chance.randrange(settings.election_ticks),
            reach=self._reach,
            max_uncommitted_bytes=uncommitted_bytes(settings),
            suspicion=chance.getrandbits(63) | 1 if self._directory.suspect(self.number) else 0,
            prefer=preferred(self.number, settings),
        )

    def _reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        last = self._log.reach(first, max_bytes)
        return last, self._log.span(first, last)

    def _others(self) -> dict[int, str]:
        return {node: address for node, address in self._settings.peers.items() if node != self._settings.node}


def uncommitted_bytes(settings: NodeSettings) -> int:
    """How many bytes of uncommitted entries one shard may hold in memory."""
    return max(LEAST_UNCOMMITTED_BYTES, MAX_UNCOMMITTED_BYTES // settings.shards)
