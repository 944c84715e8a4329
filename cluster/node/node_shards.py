"""The shards of one node, from the first start to the stop, and the objects that these shards share.

    data directory               ──> the shards that this node already has
    the shard table of shard 0   ──> new shards with a replica on this node; on its leader: shards still to be added
    a leader that adds this node ──> one more shard
    a removal from a shard       ──> one shard less, and its files are deleted

Shard 0 stores the table of shards, and every node follows that table. Therefore a node needs to know only shard 0 when
it starts. When shard 0 has committed an entry that places a shard on this node, this node starts its replica of that
shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from cluster.node.formation.first_voters import FirstVoters, in_turn
from cluster.node.metrics.node_metrics import Meters
from cluster.node.process.ticker import Ticker, stride_of
from cluster.node.replica.discarding import DiscardedReplicas
from cluster.node.replica.local_replica import LocalReplica, TransactionNeighbours
from cluster.node.replica.removal import RemovalWatch
from cluster.node.replica.shard_log import ShardError
from cluster.node.resources import NodeResources, catch_up_limit
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from cluster.node.shard_calls import ShardCalls
from cluster.node.transaction_calls import TransactionCalls
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.members.handover import hand_over
from ledger.broker.node_events import NodeEvents
from ledger.broker.placement.keeper import PlacementKeeper
from ledger.broker.replicas import Replicas
from ledger.broker.timed.delivery import TimedDelivery
from ledger.broker.topics.topic_commands import add_shard
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.broker.transactions.checkers import Checkers
from ledger.broker.transactions.shard_transactions import ShardTransactions
from ledger.errors import LedgerError
from ledger.topics import TOPICS_SHARD
from raft.v1 import raft_pb2
from store import Disk, NodeDirectory, StoreError

log = logging.getLogger("ledgermq.node.shards")

RETRY_S = 0.5
TRY_AGAIN_S = 30.0
MOST_REASONS = 3


class NodeShards:
    """The replicas of one node, which run from `start` to `stop`."""

    def __init__(
        self,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        meters: Meters,
        runtime: Runtime,
        *,
        on_start: Callable[[BrokerReplica], None],
    ) -> None:
        """Open and check the files of all shards in the data directory. `on_start` is called with each replica that
        has started. Raise StoreError or ShardError if the files of a shard cannot be opened; then no file is open."""
        self.replicas = Replicas(lambda shard: self.local[shard].not_ready() if shard in self.local else "")
        self.fetch_waiters = FetchWaiters()
        self._calls = ShardCalls(self._addresses, runtime)
        self.opening = TopicOpening(self.replicas, self._calls, runtime.vital.spawn)
        self.deletion = TopicDeletion(self.replicas, self._calls, runtime.shared_wait_s)
        self.placement = PlacementKeeper(
            self.replicas,
            self._calls,
            runtime.monotonic_s,
            replace_after_s=settings.replace_after_ms / 1000,
            shared_wait_s=runtime.shared_wait_s,
        )
        self.checkers = Checkers()
        self._neighbours = TransactionNeighbours(
            self.checkers, TransactionCalls(lambda: self.local, self._calls), self._shard_numbers
        )
        # The replicas of this node by shard number.
        self.local: dict[int, LocalReplica] = {}
        self.events = NodeEvents(runtime.now_ms)
        self._node = NodeResources(settings, disk, directory, meters, runtime, self.events, catch_up_limit(settings))
        self._settings = settings
        self._runtime = runtime
        self._on_start = on_start
        self._ticker = Ticker(
            runtime.vital,
            settings.tick_ms,
            settings.heartbeat_ticks,
            stride_of(settings.heartbeat_ticks, settings.election_ticks),
            meters.loop_lag_seconds.observe,
            runtime.monotonic_s,
        )
        self._starts: dict[int, asyncio.Task[None]] = {}
        self._watches: list[asyncio.Task[None]] = []
        self._discarding = DiscardedReplicas(directory, runtime, self._take_out, self._may_open_again)
        # Set when the shard table, or the leader of shard 0, may have changed.
        self._news = asyncio.Event()
        try:
            for number in sorted({TOPICS_SHARD, *directory.shards()}):
                self._open(number)
        except BaseException:
            self.close()
            raise

    @property
    def first(self) -> LocalReplica:
        """Return this node's replica of shard 0."""
        return self.local[TOPICS_SHARD]

    def start(self) -> None:
        """Start all shards, and return at once. Formation and elections continue in the background."""
        self._ticker.add(self._node.catch_up.tick)
        for number, shard in self.local.items():
            if number == TOPICS_SHARD or shard.has_begun:
                self._begin(number)
        self._watches.append(self._runtime.vital.spawn(self._follow(), "shard 0's table"))
        self._watches.append(self._runtime.vital.spawn(self.deletion.run(), "deleted topics"))
        self._watches.append(self._runtime.vital.spawn(self.placement.run(), "placement of replicas"))

    async def stop(self) -> None:
        """Stop all replicas in order and flush all acknowledged entries. The caller must have closed the ports
        before."""
        tasks = [*self._starts.values(), *self._watches]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._discarding.stop()
        await self.opening.stop()
        await self._calls.stop()
        await self._ticker.stop()
        for shard in [*self.local.values()]:
            await shard.stop()

    def close(self) -> None:
        """Close the files of all replicas, none of which has started."""
        for shard in self.local.values():
            shard.close()

    async def hand_over(self) -> None:
        """Hand leadership of every shard that this node leads to another voter. After a handover, clients can write
        to the shard at once. Without a handover, the clients' writes would wait at least for an election timeout."""
        within_s = self._settings.tick_ms * self._settings.election_ticks / 1000
        led = [replica for replica in self.replicas if replica.driver.leads]
        leaders = await asyncio.gather(*(hand_over(replica, within_s) for replica in led))
        for replica, leader in zip(led, leaders, strict=True):
            if leader:
                log.info("shard %d: handed leadership to node %d", replica.shard, leader)
            else:
                log.info("shard %d: no other node took over leadership in time", replica.shard)

    def not_ready(self) -> str:
        """Return the reason why clients should not use this node, or "" if this node is ready."""
        return _joined(shard.not_ready() for shard in self.local.values())

    def no_writes(self) -> str:
        """Return the reason why this node takes no writes in some of its shards, although clients can read from it.
        Return "" if it takes writes in all shards that it leads."""
        return _joined(shard.no_writes() for shard in self.local.values())

    def deliveries(self) -> list[tuple[BrokerReplica, TimedDelivery]]:
        """Return the replicas that have started, with their delivery of waiting messages."""
        return [found for shard in self.local.values() if (found := shard.delivery) is not None]

    def transactions(self) -> list[ShardTransactions]:
        """Return the transactions of the replicas that have started."""
        return [found for shard in self.local.values() if (found := shard.shard_transactions) is not None]

    def introduce(self, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
        """Return this node's introduction, for a node that forms a shard or adds this node to a shard. Return None
        if this node cannot answer yet.

        If a leader adds this node to a shard, create the replica on this node. The shard must be in this node's own
        copy of the shard table, because the request alone does not prove that the shard exists."""
        shard = self.local.get(request.shard)
        if shard is None and request.adding and self._may_open(request.shard):
            shard = self._try_open(request.shard)
            self._news.set()
        if shard is None or not (request.adding or shard.is_formed or shard.has_begun):
            return None
        return shard.forming_node.introduce(request)

    def _may_open(self, number: int) -> bool:
        """Return True if this node may get a replica of the shard: the shard table lists it, and this node is not
        still deleting an earlier replica."""
        first = self.replicas.first
        is_listed = first is not None and number in first.state.shards
        is_going = number in self._starts or self._node.directory.discard_marks(number).is_under_way
        return is_listed and not is_going

    def read_entries(self, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        """Return the entries that another node requests to repair its log of the shard."""
        if not self.replicas.lists_node(request.sender):
            return raft_pb2.ReadEntriesResponse(refusal=f"node {request.sender} is no node of this cluster any more")
        shard = self.local.get(request.shard)
        if shard is None:
            refusal = f"node {self._settings.node} has no replica of shard {request.shard}"
            return raft_pb2.ReadEntriesResponse(refusal=refusal)
        return shard.read_entries(request)

    # -- new shards

    def _open(self, number: int) -> LocalReplica:
        shard = self.local[number] = LocalReplica(
            number, self._node, self._ticker, self.fetch_waiters, self._neighbours
        )
        return shard

    def _try_open(self, number: int) -> LocalReplica | None:
        """Open a shard that is new on this node. If the disk fails or is full, return None and try again later; the
        other shards continue."""
        try:
            return self._open(number)
        except (StoreError, ShardError) as trouble:
            log.error("shard %d cannot begin on this node, which will try again: %s", number, trouble)
            asyncio.get_running_loop().call_later(TRY_AGAIN_S, self._news.set)
            return None

    def _begin(self, number: int, first_voters: FirstVoters | None = None) -> None:
        work = self._take_part(self.local[number], first_voters)
        self._starts[number] = self._runtime.vital.spawn(work, f"start of shard {number}")

    async def _take_part(self, shard: LocalReplica, first_voters: FirstVoters | None) -> None:
        await shard.take_part(first_voters)
        replica = shard.replica
        assert replica is not None
        if shard.number == TOPICS_SHARD:
            replica.on_change = self._first_changed
        self.replicas.add(replica)
        self._on_start(replica)
        self._first_changed()
        self._watches.append(self._runtime.vital.spawn(self._watch(shard), f"removal from shard {shard.number}"))

    async def _watch(self, shard: LocalReplica) -> None:
        """Wait until this node is removed from the shard. If it is still a node of the cluster, delete its replica, so
        that the shard can get a new replica here later. A replica that diverges is kept, because an operator may want
        to compare it."""
        await RemovalWatch(shard, self._settings, self._runtime).run()
        if shard.number != TOPICS_SHARD:
            await self._discarding.discard(shard, lambda: self._may_discard(shard))

    def _may_discard(self, shard: LocalReplica) -> bool:
        replica = shard.replica
        return (
            replica is not None
            and not replica.driver.raft.divergences
            and self.replicas.lists_node(self._settings.node)
        )

    def _take_out(self, number: int) -> None:
        """Forget a replica, which is about to be stopped."""
        self.replicas.remove(number)
        del self.local[number]

    def _may_open_again(self, number: int) -> None:
        """Let this node get a new replica of the shard. The files of the old replica are deleted."""
        del self._starts[number]
        self._news.set()

    # -- shard 0

    def _first_changed(self) -> None:
        self._news.set()
        self.opening.look()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            replica = self.replicas.first
            if replica is not None:
                self._begin_those_named(replica)
                await self._add_those_missing(replica)

    def _begin_those_named(self, replica: BrokerReplica) -> None:
        """Start each shard of the shard table that has not started on this node yet. The shard must begin on this
        node, or have a replica on this node."""
        for number, _ in replica.state.shards:
            if number in self._starts:
                continue
            first_voters = _first_voters(number, replica)
            if first_voters is not None and self._node.directory.discard_marks(number).was_discarded:
                first_voters = None  # the shard began before, and this node was removed from it
            is_new = number not in self.local and first_voters is not None
            if number in self.local or (is_new and self._try_open(number) is not None):
                self._begin(number, first_voters)

    async def _add_those_missing(self, replica: BrokerReplica) -> None:
        """If this node leads shard 0, add shards until their number equals the setting `shards`."""
        try:
            while replica.knows_the_end and len(replica.state.shards.numbers) < self._settings.shards:
                await add_shard(replica, rooms=self._calls.rooms())
        except LedgerError as error:
            log.info("shards are still to be added: %s", error)
            asyncio.get_running_loop().call_later(RETRY_S, self._news.set)

    def _shard_numbers(self) -> list[int]:
        return [*self.replicas.topics.state.shards.numbers]

    def _addresses(self) -> list[str]:
        return [*self.replicas.topics.membership.addresses().values()]


def _joined(reasons: Iterable[str]) -> str:
    """Join the first of these reasons, each once. Empty ones do not count."""
    found = [*dict.fromkeys(reason for reason in reasons if reason)]
    more = len(found) - MOST_REASONS
    return "; ".join(found[:MOST_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _first_voters(number: int, first: BrokerReplica) -> FirstVoters | None:
    """Return the voters on which the shard begins, or None if the shard does not begin on this node. Return None
    too if this node would write entry 1, but its data directory was replaced. The new directory does not know
    whether the old directory has already written entry 1. The other first voters only answer, so their data
    directories may be new: the voter that asks them has not written entry 1."""
    founders, membership = first.state.shards.founders(number), first.membership
    me = membership.node
    if me not in founders or (me == in_turn(number, [*founders]) and founders[me] != membership.incarnation):
        return None
    return FirstVoters(tuple(founders), lambda node: membership.addresses().get(node, ""))
