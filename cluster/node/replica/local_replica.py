"""One node's replica of a shard, from the opening of its files to its stop.

`LocalReplica` first opens the log and the vote file. If the log is damaged, `LocalReplica` repairs the log. If the
shard does not exist yet, `LocalReplica` forms the shard. After the log is open, `LocalReplica` creates and starts the
objects of the replica, and finally stops these objects.

`builder.py` creates the running objects, `upkeep.py` does the regular work, and `health.py` says whether clients
should use the replica. `cluster.node.node_shards` and `cluster.node.node` connect the replicas of a node to its ports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from cluster.node.formation.first_start import FormingNode
from cluster.node.formation.first_voters import FirstVoters
from cluster.node.formation.shard_formation import ShardFormation
from cluster.node.process.ticker import Ticker
from cluster.node.replica import health
from cluster.node.replica.accepted_loss import accept_loss
from cluster.node.replica.builder import ReplicaBuilder
from cluster.node.replica.disk_threads import DiskThreads
from cluster.node.replica.opening import Opening
from cluster.node.replica.shard_log import ShardLog
from cluster.node.replica.stall import Stall
from cluster.node.replica.upkeep import ReplicaUpkeep
from cluster.node.resources import NodeResources
from cluster.node.runtime import PeerTransport
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.acknowledgements import Acknowledgements
from ledger.broker.consumer_groups.claims import QueueClaims
from ledger.broker.consumer_groups.coordinator import Coordinator
from ledger.broker.consumer_groups.shard_consumption import ShardConsumption
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.members.members import Introduction
from ledger.broker.shared.lease_turns import LeaseTurns
from ledger.broker.timed.delivery import TimedDelivery
from ledger.broker.transactions.checkers import Checkers
from ledger.broker.transactions.checking import CheckSettings
from ledger.broker.transactions.other_shards import OtherShards
from ledger.broker.transactions.shard_transactions import ShardTransactions
from raft.configuration_entry import ShardConfiguration
from raft.v1 import raft_pb2
from store import CommitLog, Snapshot, Suspect, Vote
from store.directory.vote_file import INCARNATION_BYTES


@dataclass(frozen=True, slots=True)
class RunningParts:
    """The objects that a replica has only while it runs."""

    replica: BrokerReplica
    threads: DiskThreads
    transport: PeerTransport
    upkeep: ReplicaUpkeep
    consumption: ShardConsumption
    delivery: TimedDelivery
    transactions: ShardTransactions


@dataclass(frozen=True, slots=True)
class TransactionNeighbours:
    """What the transactions of a shard use beside the shard: the producers that answer checks on this node, the other
    shards, and the numbers of all shards."""

    checkers: Checkers
    others: OtherShards
    shards: Callable[[], list[int]]


class LocalReplica:
    """`LocalReplica` is this node's replica of one shard. The constructor opens and checks the files, `take_part`
    starts the replica, and `stop` stops the replica."""

    def __init__(
        self,
        number: int,
        node: NodeResources,
        ticker: Ticker,
        fetch_waiters: FetchWaiters,
        neighbours: TransactionNeighbours,
    ) -> None:
        """Read the whole log, or only the entries after the last checkpoint. If the log is damaged and other nodes
        can repair it, `take_part` repairs it. Raise StoreError or ShardError if the files cannot be opened."""
        self.number = number
        self._node = node
        self._ticker = ticker
        self._fetch_waiters = fetch_waiters
        self._neighbours = neighbours
        self._running: RunningParts | None = None
        self._tick: Callable[[], None] = lambda: None
        self._tasks: list[asyncio.Task[None]] = []
        self._stall = Stall(node.settings.busy_ms, node.runtime.monotonic_ms)
        incarnation = node.runtime.chance.randbytes(INCARNATION_BYTES)
        self._votes = node.directory.votes(number, new_incarnation=incarnation)
        self._formation = ShardFormation(number, node.settings, node.runtime, self._votes)
        try:
            self._opening = Opening(number, node, self._appended)
        except BaseException:
            self._votes.close()
            raise

    # -- the life cycle

    async def take_part(self, first_voters: FirstVoters | None = None) -> None:
        """Start this replica: repair its log if needed, write entry 1 if this node forms the shard, then take part in
        elections and serve clients. Repair and formation can wait for other nodes without a limit.

        `first_voters` are the first voters of a shard other than shard 0; shard 0 takes them from the settings."""
        files = await self._opening.finish()
        formation = self._formation
        formation.first_voters = formation.first_voters or first_voters
        if formation.first_voters is not None and self.forming_node.asks:
            await formation.form(self.forming_node, files.opened)
        builder = ReplicaBuilder(self.number, self._node, files, self._votes, self._stall)
        replica = builder.replica(self._fetch_waiters)
        replica.rebuilt = files.checkpoints.flaw
        threads = builder.threads(replica)
        transport = builder.transport(replica)
        driver = builder.driver(replica, threads, transport)
        vital = self._node.runtime.vital
        coordinator = Coordinator(
            replica, self._node.runtime.monotonic_ms, vital.spawn, self._node.runtime.shared_wait_s
        )
        upkeep = ReplicaUpkeep(self.number, self._node, self._opening, replica, threads)
        turns = LeaseTurns(replica, self._node.runtime.monotonic_ms)
        consumption = ShardConsumption(
            replica, coordinator, Acknowledgements(replica.command), QueueClaims(replica), turns
        )
        delivery = TimedDelivery(replica, self._node.runtime.monotonic_s)
        transactions = self._make_transactions(replica)
        self._running = RunningParts(replica, threads, transport, upkeep, consumption, delivery, transactions)
        threads.start()
        driver.start()
        transport.start()
        self._tick = vital.event(driver.tick)
        self._ticker.add(self._tick)
        self._tasks = [
            *upkeep.start(),
            vital.spawn(coordinator.run(), f"consumer groups of shard {self.number}"),
            vital.spawn(replica.feature_level.run(), f"feature level of shard {self.number}"),
            vital.spawn(delivery.run(), f"delivery of waiting messages of shard {self.number}"),
            vital.spawn(transactions.run(), f"transactions of shard {self.number}"),
            vital.spawn(turns.run(), f"leases of shard {self.number}"),
        ]

    def _make_transactions(self, replica: BrokerReplica) -> ShardTransactions:
        settings = self._node.settings
        return ShardTransactions(
            replica,
            self._neighbours.checkers,
            self._neighbours.others,
            self._neighbours.shards,
            self._node.runtime.monotonic_s,
            CheckSettings(
                settings.transaction_check_after_s,
                settings.transaction_check_every_s,
                settings.transaction_checks,
                settings.transaction_max_hours * 3600,
            ),
            self._node.runtime.shared_wait_s,
        )

    def retire(self) -> None:
        """Make this replica silent after its node was removed: it stops ticking and sends nothing to its peers."""
        assert self._running is not None
        self._ticker.remove(self._tick)
        configuration = self._running.replica.newest_configuration()
        if configuration is not None:
            self._running.transport.configured(replace(configuration, voters={}, learners={}), served=())

    async def stop(self) -> None:
        """Stop the replica in order: flush all acknowledged entries to the disk, then write a clean mark. The
        caller must close the ports before `stop`."""
        await self._end_work()
        if self._running is not None:
            self._running.upkeep.save_last_checkpoint()
        self.close()

    async def abandon(self) -> None:
        """Stop the replica and close its files, which will be deleted. There is no flush, no checkpoint and no clean
        mark, because the event loop would wait for them while it serves other shards."""
        await self._end_work()
        if self._opening.files is not None:
            self._opening.files.abandon()
        self._votes.close()

    async def _end_work(self) -> None:
        self._ticker.remove(self._tick)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._running is not None:
            await self._running.transport.stop()
            await self._running.threads.stop()
            # The loop, and so this driver's timers, continue until all shards are stopped.
            self._running.replica.driver.stop()

    def close(self) -> None:
        """Close the files of a replica that does not run. The disk is left as after an orderly stop."""
        if self._opening.files is not None:
            self._opening.files.close()
        self._votes.close()

    # -- the parts

    @property
    def replica(self) -> BrokerReplica | None:
        """Return the `BrokerReplica`, through which the broker uses this replica, or None until the replica has
        started."""
        return self._running.replica if self._running is not None else None

    @property
    def shard_consumption(self) -> ShardConsumption | None:
        """Return the object that serves consumer groups in this shard. Return None until the replica has started."""
        return self._running.consumption if self._running is not None else None

    @property
    def shard_transactions(self) -> ShardTransactions | None:
        """Return the transactions of this shard, or None until the replica has started."""
        return self._running.transactions if self._running is not None else None

    @property
    def delivery(self) -> tuple[BrokerReplica, TimedDelivery] | None:
        """The replica, and its delivery of waiting messages, or None before the replica has started."""
        return None if self._running is None else (self._running.replica, self._running.delivery)

    @property
    def log(self) -> CommitLog:
        """Return the open log. Do not use the log while `is_closed` is true."""
        return self._opened.log

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot with which the log begins, or None if the log begins at entry 1."""
        return self._opened.snapshots.snapshot

    @property
    def commit(self) -> int:
        """Return the commit index that this node knows. The leader's commit index can be higher."""
        return self.replica.driver.raft.commit if self.replica is not None else self.log.known_commit

    @property
    def vote(self) -> Vote:
        """Return the vote as last written to the vote file."""
        return self._votes.vote

    @property
    def max_message_bytes(self) -> int:
        return self._node.settings.max_message_bytes if self.is_closed else self._opened.max_message_bytes

    @property
    def _opened(self) -> ShardLog:
        assert self._opening.files is not None, "the log is being repaired"
        return self._opening.files.opened

    def read_entries(self, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        """Return the entries that another node requests to repair its log."""
        return self._opening.read_entries(request, 0 if self.is_closed else self.commit)

    # -- formation

    @property
    def has_begun(self) -> bool:
        """Return True if the log has, or had, an entry. Return True also if the log is too damaged to be opened."""
        return self.is_closed or self.log.last_index > 0

    @property
    def is_formed(self) -> bool:
        """Return True if this node knows the first voters of the shard."""
        return self._formation.first_voters is not None

    @property
    def forming_node(self) -> FormingNode:
        """Return what this node now answers when another node forms this shard or adds this node to it."""
        return self._formation.introduction(is_log_empty=not self.is_closed and self.log.last_index == 0)

    async def ask_introduction(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        """Ask the node at `address`, which a leader wants to add to this shard, for its introduction. Return None
        if the node does not answer."""
        return await self._formation.ask_introduction(node, address, configuration)

    # -- health

    @property
    def is_closed(self) -> bool:
        """Return True if the log is not open, because startup repair must repair its damage first."""
        return self._opening.repair is not None

    @property
    def is_damaged(self) -> bool:
        """Return True if the log is damaged and a startup repair or scrub repair is not finished."""
        repairs = self._running is not None and bool(self._running.upkeep.damage)
        return self.is_closed or self._opening.left is not None or repairs

    def not_ready(self) -> str:
        """Return the reason why clients should not use this replica, or "" if the replica is ready."""
        if self._opening.repair is not None:
            return self._opening.repair.reason
        running = self._running
        if running is None:
            return f"shard {self.number} waits for the first start of the cluster"
        return health.not_ready(running.replica, running.transport, running.upkeep.damage, self._node.settings)

    def no_writes(self) -> str:
        """Return the reason why this replica would take no writes of clients if it led, or "" if it would."""
        return health.no_writes(self._running.replica) if self._running is not None else ""

    def suspect(self) -> Suspect | None:
        """Return the suspect mark, which says which acknowledged entries this node may have lost. Return None if
        this node is no suspect."""
        return self._node.directory.marks(self.number).suspect()

    async def accept_loss(self) -> None:
        """Remove the mark of a suspect durably. After that this node votes again, and its acknowledgements count. The
        removal goes on if the caller is cancelled. Raise RecoveryRefusedError, and keep the mark, if the shard has a
        leader when the log is flushed."""
        assert self._running is not None
        await accept_loss(self._running.replica, self._running.threads)

    def _appended(self, seconds: float) -> None:
        self._node.meters.append_seconds.observe(seconds)
        self._stall.appended(seconds)
