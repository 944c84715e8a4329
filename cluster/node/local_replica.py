"""One node's replica of a shard: log, vote, Raft core, driver and broker side, from the directory to the running parts.

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

from cluster.node.checkpoints import INTERVAL_S, Checkpoints
from cluster.node.disk_threads import DiskThreads
from cluster.node.flush_schedule import FlushSchedule
from cluster.node.formation.first_start import (
    ASK_AGAIN_S,
    TELL_EVERY,
    FirstStartRefusedError,
    FormingNode,
    first_configuration,
)
from cluster.node.formation.first_voters import FirstVoters, first_shard, preferred
from cluster.node.metrics.node_metrics import Meters
from cluster.node.opening import Opening
from cluster.node.repair.scrub_repairer import ScrubRepairer
from cluster.node.retention import RetentionWatch
from cluster.node.runtime import PeerTransport, Runtime
from cluster.node.scrub import Scrub
from cluster.node.settings import NodeSettings
from cluster.node.shard_files import ShardFiles
from cluster.node.shard_log import ShardLog
from cluster.node.stall import Stall
from cluster.node.ticker import Ticker
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
    EntryDraft,
    EntryKind,
    Flaw,
    NodeDirectory,
    Snapshot,
    StoreError,
    Suspect,
    Vote,
    VoteFile,
)
from store.directory.vote_file import INCARNATION_BYTES

log = logging.getLogger("ledgermq.node.shard")

MAX_UNCOMMITTED_BYTES = 64 << 20
"""Of all shards together, as long as each has more than the least."""
LEAST_UNCOMMITTED_BYTES = 8 << 20
TRY_FULL_DISK_S = 1.0
BUSY_ENTRIES = 1024
"""What a node that keeps up may have left to apply at any moment. With more it is catching up."""


class LocalReplica:
    """Made with its files open and checked; `take_part` begins the rest; `stop` ends it."""

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
        """Reads the log, or what came since the last checkpoint. One that is damaged is repaired by `take_part`, where
        there are other nodes to do that from. Raises StoreError, ShardError."""
        self.number = number
        self.shard_consumption: ShardConsumption | None = None
        """For consumers; None until this shard has started here."""
        self.replica: BrokerReplica | None = None
        """None until the first start is complete."""
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
        """Whether there is anything in its log, or was."""
        return self.is_closed or self._log.last_index > 0

    @property
    def is_formed(self) -> bool:
        """Whether it is known on which nodes it begins."""
        return self._first_voters is not None

    async def take_part(self, first_voters: FirstVoters | None = None) -> None:
        """Repairs the log if it is damaged, however long that takes; goes through the first start where there is none
        yet; and begins to follow, to stand and to serve. `founding`: of any shard but 0, as far as this node may begin
        it or answer whoever does."""
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
        """Orderly: what was acknowledged is on the disk, and the clean mark says so. Nothing may come in any more."""
        await self._end_tasks()
        if self._transport is not None:
            await self._transport.stop()
        if self._threads is not None:
            await self._threads.stop()
        if self.replica is not None:
            self.replica.driver.stop()  # other shards stop after this one, and timers of this one go on until then
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
        """In an orderly stop: the next start has nothing to read."""
        draft = self._checkpoints.draft(self.replica) if self.replica is not None else None
        if draft is not None:
            try:
                self._checkpoints.write(draft, self._log.sync)
            except StoreError as failure:
                log.error("shard %d: no checkpoint, the next start reads more: %s", self.number, failure)

    @property
    def log(self) -> CommitLog:
        """Not while it `is_closed`."""
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
        """Where the log begins; None: at entry 1."""
        return self._opened.snapshots.snapshot

    @property
    def commit(self) -> int:
        """Index up to which a majority surely has the log, as far as this node knows."""
        return self.replica.driver.raft.commit if self.replica is not None else self._log.known_commit

    @property
    def max_message_bytes(self) -> int:
        return self._settings.max_message_bytes if self.is_closed else self._opened.max_message_bytes

    @property
    def is_closed(self) -> bool:
        """Whether the log is so damaged that it cannot be opened before it is repaired from the other nodes."""
        return self._opening.repair is not None

    @property
    def is_damaged(self) -> bool:
        """Whether something of the log is being repaired from the other nodes."""
        mends = self._scrub_repairer is not None and bool(self._scrub_repairer.reason)
        return self.is_closed or self._opening.left is not None or mends

    def not_ready(self) -> str:
        """Why this shard should not be given work here; empty when it should."""
        if self._opening.repair is not None:
            return self._opening.repair.reason
        if self.replica is None:
            return f"shard {self.number} waits for the first start of the cluster"
        if self.number != TOPICS_SHARD and self.replica.membership.standing in (Standing.REMOVED, Standing.JOINING):
            return ""  # it is on other nodes
        if reason := self.apart():
            return reason
        driver = self.replica.driver
        has_begun = driver.raft.configuration_index > 0  # then whoever means another node is the stranger
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
        """Why this node is no member of the cluster; empty where it is one, or nothing is known of that."""
        assert self.replica is not None
        node, standing = self._settings.node, self.replica.membership.standing
        if self.number != TOPICS_SHARD:
            return f"node {node} was removed from shard {self.number}" if standing is Standing.REMOVED else ""
        if standing is Standing.REMOVED:
            return (
                f"node {node} was removed from cluster {self._settings.cluster!r} and takes no part any more: stop it; "
                f"to add it again, remove its data directory {self._settings.data} and start it with `join = true`"
            )
        if standing is Standing.JOINING and self._settings.join:
            return f"node {node} waits to be added: `ledgermq cluster add-node {node} --address HOST:PORT`"
        return ""

    def retire(self) -> None:
        """This node was removed: from now on it says nothing."""
        assert self.replica is not None
        self._ticker.remove(self._tick)
        configuration = self.replica.newest_configuration()
        if self._transport is not None and configuration is not None:
            self._transport.configured(replace(configuration, voters={}, learners={}), served=())

    # -- what operators ask (`ledger.broker.rpc.operations.Site`)

    async def ask_joining_node(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        """Who is there, as asked by a leader of this shard; None where nobody answers."""
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
        """What this node may have lost."""
        return self._directory.marks(self.number).suspect()

    async def accept_loss(self) -> None:
        """Forgets durably that this node may have lost something; then it votes and counts again."""
        assert self.replica is not None
        assert self._threads is not None
        forgotten = asyncio.get_running_loop().create_future()
        self._threads.trusted(lambda: forgotten.set_result(None))
        await forgotten
        log.error("shard %d: what this node lost stays lost: an operator accepts that", self.number)
        self.replica.driver.accept_loss()

    # -- entries for others

    def read_entries(self, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        """What another node's log lacks."""
        return self._opening.read_entries(request, 0 if self.is_closed else self.commit)

    # -- the first start

    @property
    def vote(self) -> Vote:
        """As it was saved last."""
        return self._votes.vote

    @property
    def forming_node(self) -> FormingNode:
        """This node as it introduces itself at this moment: once the cluster has begun, it is not empty any more."""
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
        """Writes entry 1, once every voter has answered that it is empty."""
        assert self._first_voters is not None
        peers = await self._other_founders(self._first_voters)
        introductions = self._runtime.introductions(peers)
        try:
            configuration = await first_configuration(self.forming_node, peers, introductions)
        except FirstStartRefusedError as refusal:
            log.error("this node takes no part: %s", refusal)
            return
        finally:
            await introductions.close()
        draft = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))
        while not self._write_first(draft):  # noqa: ASYNC110 (room on a disk announces itself to nobody)
            await asyncio.sleep(TRY_FULL_DISK_S)
        self._opened.configurations.append((1, configuration))
        log.info("shard %d: first start, voters %s", self.number, sorted(configuration.voters))

    async def _other_founders(self, first_voters: FirstVoters) -> dict[int, str]:
        """Where they are, once each of them is a member of the cluster."""
        others = [node for node in first_voters.voters if node != self._settings.node]
        for attempt in itertools.count():
            peers = {node: first_voters.address(node) for node in others}
            gone = [node for node, address in peers.items() if not address]
            if not gone:
                break
            if attempt % TELL_EVERY == 0:
                log.warning(
                    "shard %d: the first start waits: node %d, on which it is to begin, is no member of the cluster; "
                    "add a node of that number",
                    self.number,
                    gone[0],
                )
            await asyncio.sleep(ASK_AGAIN_S)
        return peers

    def _write_first(self, draft: EntryDraft) -> bool:
        """Whether there was room for it."""
        # Term 1 is known from this entry; a vote file that had it first would hide a first start cut short by a kill.
        try:
            self._log.append([draft], term=1, commit=0, now_ms=self._runtime.now_ms())
        except DiskFullError as full:
            log.error("shard %d: the first start waits: %s", self.number, full)
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
            forget_suspicion=lambda: self._directory.marks(self.number).clear_suspect(),
            on_failure=self._vital.event(lambda failure: replica.driver.fail(failure)),
            on_flush=self._meters.flush_seconds.observe,
        )

    async def _look_after_log(self, replica: BrokerReplica, threads: DiskThreads) -> None:
        """Repairs what the start has left, and reads what it has not read."""
        segment_bytes, label = self._opened.segment_bytes, str(self.number)
        repaired, damaged = self._meters.repaired_bytes.labels(label).inc, self._meters.log_damaged.labels(label)
        mending = self._scrub_repairer = ScrubRepairer(replica, self._settings, segment_bytes, self._runtime, repaired)

        async def mend(flaw: Flaw) -> None:
            damaged.set(1)
            await mending.mend(flaw, threads.beside)
            damaged.set(0)

        if self._opening.left is not None:
            await mend(self._opening.left)
            self._opening.left = None
        await Scrub(self._disk, self._log, segment_bytes, mend).run(threads.beside)

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
        """Why nothing can be appended just now; empty where it can. Where others commit without this node's flush,
        nobody waits for that."""
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
        runs = [TermRun(*run) for run in self._log.reading.term_runs(first, last)]
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
            suspicion=chance.getrandbits(63) | 1 if self._directory.marks(self.number).suspect() else 0,
            prefer=preferred(self.number, settings),
        )

    def _reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        last = self._log.reading.reach(first, max_bytes)
        return last, self._log.reading.span(first, last)

    def _others(self) -> dict[int, str]:
        return {node: address for node, address in self._settings.peers.items() if node != self._settings.node}


def uncommitted_bytes(settings: NodeSettings) -> int:
    """How much of what waits for a majority one shard may have in memory."""
    return max(LEAST_UNCOMMITTED_BYTES, MAX_UNCOMMITTED_BYTES // settings.shards)
