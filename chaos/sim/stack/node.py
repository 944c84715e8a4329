"""Defines a simulated node, which runs the production code of a node, from its data directory to its broker, on a
simulated runtime.

    SimDisk ─> NodeDirectory ─> NodeShards ─> LocalReplica ─> Replica ─> BrokerService ─> Calls
                                                  └── SimTransport, SimWorker, Life

A simulated node has one process after another. All processes of a node use the same disk, address and wall clock. A
process consists of a `Life` object and all objects that were made between its start and its end. When the life ends,
all objects of the process are dropped. The module node_part.py defines `NodePart`, which has the log, the vote and the
replica of a node in one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from chaos.sim.engine.disk import SimDisk
from chaos.sim.engine.disk_content import Crash
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.node_life import Life
from chaos.sim.engine.rpc import RpcServer, SimChannel, SimEntrySource, SimIntroductions
from chaos.sim.engine.rpc_server import Calls, Context, Handler, NoServer
from chaos.sim.stack.node_part import DATA, NodePart
from chaos.sim.stack.node_transport import Door, DoorKey, SimTransport, Transit
from chaos.sim.stack.node_worker import SimWorker
from chaos.sim.stack.record import ShardRecords
from chaos.sim.world import SimNodeLog
from cluster.node.metrics.node_metrics import Meters
from cluster.node.node_shards import NodeShards
from cluster.node.process.vital import Vital
from cluster.node.replica.local_replica import LocalReplica
from cluster.node.replica.shard_log import ShardError
from cluster.node.runtime import Runtime
from cluster.node.security.access import NodeAccess
from cluster.node.settings import NodeSettings
from ledger.broker.broker import Broker
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.node_view import NodeFacts
from ledger.broker.rpc.broker import BrokerService
from ledger.broker.rpc.consumer_group_operations import ConsumerGroupOperations
from ledger.broker.rpc.consumer_groups import ConsumerGroupService
from ledger.broker.rpc.operations import OperationsService
from ledger.broker.rpc.rights import NEEDED
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.rpc.transactions import TransactionService
from ledger.client.connection.environment import Environment
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.topics import TOPICS_SHARD
from ledger.v1 import broker_pb2
from raft.core import Raft
from store import Header, NodeDirectory, Snapshot, StoreError
from store.disk.memory_disk import Killed

# Wall-clock time at the start of a simulation.
START_MS = 1_700_000_000_000
# Limit on open files of a process.
FILES = 20_000
# The endpoints of clients have this number or a higher one; those of nodes are lower.
FIRST_CLIENT = 100
# Name of a method -> its full name. No two services for clients have a method of the same name.
_FULL_NAMES = {full.rpartition("/")[2]: full for full in NEEDED}
_STREAMS = ("Produce", "Authenticate", "Share", "CheckTransactions")


class SimSettings(NodeSettings):
    """Settings of a simulated node, with small segments and buffers. A simulation writes too little data to fill
    the smallest segment that production settings allow."""

    @property
    def largest_entry_bytes(self) -> int:
        return self.max_message_bytes + (4 << 10)


@dataclass(frozen=True, slots=True)
class WorkDurations:
    """The mean durations of the work on worker threads, in milliseconds."""

    flush_ms: float
    vote_ms: float


@dataclass(frozen=True, slots=True)
class SharedParts:
    """Holds the objects of the stack world that all nodes share."""

    loop: SimLoop
    network: Network
    # The entry points of all running nodes.
    doors: dict[DoorKey, Door]
    # Makes the channel of a process, for the client with this number, to a node.
    channel: Callable[[Life, int, int], SimChannel]
    # Makes the environment of a client in a process.
    environment: Callable[[Life, int, Random], Environment]
    records: ShardRecords
    timing: WorkDurations
    # Watches a method of a node: (node, name of the method, its handler) -> the handler with checks.
    watch_call: Callable[[StackNode, str, Handler], Handler]
    # The secrets of a node, by its number. They do not change the other random choices of a run.
    secrets: Callable[[int], Callable[[int], bytes]]
    # The password of the first administrator, or "".
    first_password: str = ""


class SimNodeCallers:
    """Tells the calls of nodes by the endpoint of the caller. Implements
    `cluster.node.security.rights_guard.NodeCallers`."""

    are_needed = True

    def node_of(self, context: Context) -> int:
        return context.caller if context.caller < FIRST_CLIENT else 0


class SimulatedProcess:
    """One process of a node, from its start to its end. The constructor starts the process, and can raise
    StoreError or ShardError."""

    def __init__(self, node: StackNode, life: Life) -> None:
        self.life = life
        self.is_stopping = False
        settings, meters = node.settings, Meters(CollectorRegistry(), node.settings.cluster, node.node)
        runtime = node.runtime(life)
        self._directory = NodeDirectory.open(node.disk, DATA, cluster=settings.cluster, node=node.node)
        self.shards = NodeShards(settings, node.disk, self._directory, meters, runtime, on_start=node.watch)
        facts = NodeFacts(
            node.node,
            settings.cluster,
            settings.addresses,
            http_address="",
            data_directory=str(DATA),
            version="simulated",
            joins=settings.join,
            shards=settings.shards,
        )
        shards = self.shards
        broker = Broker(facts, shards, retry_delays_s=settings.retry_delays_s)
        access = self._access = NodeAccess(
            settings, shards.replicas, runtime, SimNodeCallers(), None, node.first_password
        )
        self._broker = BrokerService(broker, meters, authorizer=access.authorizer)
        self._operations = OperationsService(
            node.node, settings.cluster, shards.local, shards.replicas, shards.deletion, shards.placement
        )
        rights = TopicRights(shards.replicas, access.authorizer)
        self._consumer_groups = ConsumerGroupService(broker.consumptions, broker.retry_topics, rights)
        self._group_operations = ConsumerGroupOperations(broker.consumptions, broker.retry_topics, rights)
        self._transactions = TransactionService(
            shards.local, shards.replicas, broker.transaction_topics, shards.checkers, access.authorizer
        )
        self.calls = Calls(life, node.node, lambda method: node.watch_call(method, self._handler(method)))
        shards.start()
        self._tasks = [node.vital.spawn(work, name) for name, work in access.tasks()]

    def _handler(self, method: str) -> Handler:
        handler, full_name = self._plain_handler(method), _FULL_NAMES.get(method)
        if full_name is None or self._access.authorizer is None:
            return handler
        guard = self._access.guard
        return guard.stream(full_name, handler) if method in _STREAMS else guard.call(full_name, handler)

    def _plain_handler(self, method: str) -> Handler:
        ours = {"Introduce": self._introduce, "ReadEntries": self._read_entries, "Fetch": self._fetch}
        if method in ours:
            return ours[method]
        services = (
            self._broker,
            self._operations,
            self._consumer_groups,
            self._group_operations,
            self._transactions,
            self._access.service,
        )
        handler: Handler = next(getattr(service, method) for service in services if hasattr(service, method))
        return handler

    async def _fetch(self, request: broker_pb2.FetchRequest, context: Any) -> broker_pb2.FetchResponse:
        """Call the real handler of Fetch, which returns encoded bytes, and return the decoded response."""
        return broker_pb2.FetchResponse.FromString(await self._broker.Fetch(request, context))

    async def _introduce(self, request: object, _: object) -> object:
        return self.shards.introduce(request)  # type: ignore[arg-type]

    async def _read_entries(self, request: object, _: object) -> object:
        return self.shards.read_entries(request)  # type: ignore[arg-type]

    async def stop(self) -> None:
        """Stop the process in order, as `cluster.node.node.Node.stop` stops a real node."""
        await self.shards.hand_over()
        for task in self._tasks:
            task.cancel()
        self.calls.stop()
        await self.shards.stop()
        self._directory.close()


class StackNode:
    """A simulated node with its disk. `StackNode` implements `chaos.sim.world.SimNode` with the state of the node's
    replica of shard 0. `StackNode` also implements `chaos.sim.stack.node_part.Home`."""

    def __init__(self, settings: NodeSettings, disk: SimDisk, shared: SharedParts, chance: Random) -> None:
        self.node = settings.node
        self.settings = settings
        self.disk = disk
        # Error of its wall clock in ms.
        self.clock_ms = 0
        # Rate of its clocks; 1.0 is correct.
        self.clock_rate = 1.0
        # Factors for the duration of disk work and of saving a vote. For a vote the larger factor counts.
        self.slow_disk = self.slow_vote = 1.0
        # Corrupts bytes that the node sends.
        self.transit = Transit(chance)
        # Why the last process ended by itself or could not start.
        self.ended: BaseException | None = None
        self.on_end: Callable[[StackNode], None] = _nothing
        self.on_log_start: Callable[[BrokerReplica, Snapshot], None] = _ignore_log_start
        self.on_applied: Callable[[BrokerReplica, Header, memoryview], None] = _ignore_applied
        # Called when a replica of this node that leads has appended entries: (shard, headers).
        self.on_appended: Callable[[int, Sequence[Header]], None] = _ignore_appended
        # Called when the program does not know an entry: (node, shard, reason).
        self.on_unknown: Callable[[StackNode, int, Exception], None] = _ignore_unknown
        # The highest feature level that the installed program knows, and the one that the last process knew.
        self.program_level = self.running_level = self.latest_level
        self.process: SimulatedProcess | None = None
        # Whether the node was ever started and has not been removed for good since.
        self.is_present = False
        # How often its computer was started.
        self.boots = 1
        self.vital = Vital(self._broken)
        # Whether unflushed data was lost, by a power cut or with a staging process, since the last start.
        self.lost_power = False
        self._shared = shared
        self._chance = chance
        self._stages = settings.write == "staged"
        self._parts: dict[int, NodePart] = {}
        # Parts whose shard has a replica in this process.
        self._watched: list[NodePart] = []

    # -- read by the invariants

    @property
    def latest_level(self) -> int:
        """The highest feature level that the present program knows."""
        return LATEST_LEVEL

    @property
    def alive(self) -> bool:
        return self.process is not None

    def part(self, shard: int) -> NodePart:
        """Return the part of the node in a shard. The part exists even if the node has no replica of the shard."""
        part = self._parts.get(shard)
        if part is None:
            part = self._parts[shard] = NodePart(self, self._shared.records.of(shard))
        return part

    def local(self, shard: int) -> LocalReplica | None:
        return self.process.shards.local.get(shard) if self.process is not None else None

    def log_starts(self, replica: BrokerReplica, snapshot: Snapshot) -> None:
        self.on_log_start(replica, snapshot)

    def appended(self, shard: int, headers: Sequence[Header]) -> None:
        self.on_appended(shard, headers)

    def applied(self, replica: BrokerReplica, header: Header, body: memoryview) -> None:
        self.on_applied(replica, header, body)

    def cannot_apply(self, shard: int, reason: Exception) -> None:
        self.on_unknown(self, shard, reason)

    @property
    def parts(self) -> list[NodePart]:
        """The node's `NodePart` objects that have been requested so far, by shard."""
        return [self._parts[shard] for shard in sorted(self._parts)]

    @property
    def raft(self) -> Raft | None:
        """The Raft core of shard 0. Every node has a replica of shard 0."""
        return self.part(TOPICS_SHARD).raft

    @property
    def log(self) -> SimNodeLog | None:
        return self.part(TOPICS_SHARD).log

    @property
    def replica(self) -> BrokerReplica | None:
        return self.part(TOPICS_SHARD).replica

    @property
    def incarnation(self) -> bytes:
        return self.part(TOPICS_SHARD).incarnation

    @property
    def is_empty(self) -> bool:
        """Whether the process runs and the node has not received data in any shard."""
        return self.process is not None and all(
            local.forming_node.empty for local in self.process.shards.local.values()
        )

    @property
    def suspect(self) -> bool:
        """Whether the node is suspect in any shard."""
        return self.lost_power or any(part.suspect for part in self.parts)

    @property
    def is_damaged(self) -> bool:
        return any(part.is_damaged for part in self.parts)

    @property
    def server(self) -> RpcServer:
        return self.process.calls if self.process is not None else NoServer()

    # -- processes

    def start(self) -> None:
        """Start a new process with the current content of the disk. If the process cannot start, `ended` is set to
        the error, and the callback `on_end` is called."""
        assert self.process is None
        self.is_present = True
        self.running_level = self.program_level
        life = Life(self._shared.loop, self._after_event)
        life.run_at_rate(self.clock_rate)
        self.disk.on_death = partial(self._ended, life, Killed())
        life.deliver(self._begin, life)

    def _begin(self, life: Life) -> None:
        self.ended = None
        try:
            self.process = SimulatedProcess(self, life)
        except (StoreError, ShardError) as refusal:
            self._ended(life, refusal)
            return
        self.lost_power = False
        for shard, local in self.process.shards.local.items():
            self.part(shard).begin(local)
        self._shared.network.up(self.node)

    def start_again(self) -> None:
        """Start the node if the node is down, unless `put_away` has turned the node off."""
        if not self.alive and self.is_present:
            self.start()

    def kill(self) -> None:
        """Kill the process of the node. All writes of the process stay on the disk, except staged writes, which are
        still in the memory of the process."""
        self.lost_power = self.lost_power or (self.alive and self._stages)
        self._die()
        self._next_finds(self.disk.kill())

    def power_cut(self, crash: Crash) -> None:
        """Cut the power of the node, so that unsynced data can be lost. After a power cut, `start` turns the node
        on again."""
        self._die()
        self.boots += 1
        self.lost_power = True
        self._next_finds(self.disk.power_cut(crash))

    def stop(self) -> None:
        """Stop the process in an orderly way, as on SIGTERM. A second call of `stop` has no effect. When the stop
        is complete, `process` is None."""
        if (process := self.process) is not None:
            process.life.deliver(lambda: self.vital.spawn(self._stop(process), "stop"))

    async def _stop(self, process: SimulatedProcess) -> None:
        if process.is_stopping:
            return
        process.is_stopping = True
        await process.stop()
        self._gone(process.life)
        self._next_finds(self.disk.kill())

    def wipe(self) -> None:
        """Replace the disk of the node by an empty disk. The node must be down."""
        assert self.process is None
        self.lost_power = False
        self.disk = self.disk.replaced()
        for part in self.parts:
            part.wiped()

    def join(self) -> None:
        """Start the node with an empty disk. The node then waits until an operator adds it to the cluster."""
        self.put_away()
        self.wipe()
        self.settings = self.settings.model_copy(update={"join": True})
        self.start()

    def put_away(self) -> None:
        """Turn the node off. The method `start_again` does not start a node that `put_away` has turned off."""
        if self.alive:
            self.kill()
        self.is_present = False

    def will_be_suspect(self) -> None:
        """Record that acknowledged data is possibly lost, so that the next start marks the node as suspect."""
        self.lost_power = True

    def _die(self) -> None:
        if self.process is not None:
            self._gone(self.process.life)

    def _gone(self, life: Life) -> None:
        """End a life, and remove all references to the life and its process."""
        life.end()
        for key in [key for key in self._shared.doors if key[1] == self.node]:
            del self._shared.doors[key]
        self._shared.network.down(self.node)
        for part in self.parts:
            part.end()
        self.process = None
        self._watched.clear()

    def _broken(self, error: BaseException) -> None:
        if self.process is not None:
            self._ended(self.process.life, error)

    def _ended(self, life: Life, reason: BaseException) -> None:
        """Handle the end of a process that was not killed."""
        self.ended = reason
        self.lost_power = self.lost_power or (self.alive and self._stages)
        self._gone(life)
        self._next_finds(self.disk.kill())
        self.on_end(self)

    def _next_finds(self, disk: SimDisk) -> None:
        """Let the next process find this disk."""
        self.disk = disk
        for part in self.parts:
            part.disk_after(disk)

    # -- the node's runtime

    def now_ms(self) -> int:
        """Return the time of the node's wall clock in milliseconds."""
        return START_MS + self.clock_ms + int(self._shared.loop.time() * 1000)

    def runtime(self, life: Life) -> Runtime:
        """Return the `Runtime` of one process: its clock, threads, transport and random numbers, all simulated."""
        workers = {
            "votes": partial(SimWorker, mean_ms=self._vote_ms, worked=self._vote_saved),
            "flush": partial(SimWorker, mean_ms=self._flush_ms),
            "segments": partial(SimWorker, mean_ms=self._flush_ms),
            "repair": partial(SimWorker, mean_ms=self._flush_ms),
            "deletion": partial(SimWorker, mean_ms=self._flush_ms),
        }
        return Runtime(
            make_transport=lambda me, peers, receiver: SimTransport(
                life, self._shared.network, self._shared.doors, me, receiver, self.transit, self._acknowledges
            ),
            introductions=lambda peers: SimIntroductions(
                {peer: self._shared.channel(life, self.node, peer) for peer in peers}
            ),
            entry_source=lambda peers: SimEntrySource(
                {peer: self._shared.channel(life, self.node, peer) for peer in peers}
            ),
            worker=lambda name: workers[name](life, self._chance),
            now_ms=self.now_ms,
            chance=self._chance,
            random_bytes=self._shared.secrets(self.node),
            latest_level=self.running_level,
            monotonic_ms=lambda: life.time() * 1000,
            boot_id=lambda: f"boot {self.boots}",
            client=self._shared.environment(life, self.node, self._chance),
            file_limit=lambda: FILES,
            shared_wait_s=lambda wait_s: wait_s,
            vital=self.vital,
        )

    def _acknowledges(self, shard: int, index: int) -> None:
        self.part(shard).acknowledges(index)

    def watch(self, replica: BrokerReplica) -> None:
        """Begin to report the events of this replica to the invariants of its shard."""
        part = self.part(replica.shard)
        part.watch(replica)
        self._watched.append(part)

    @property
    def first_password(self) -> str:
        return self._shared.first_password

    def watch_call(self, method: str, handler: Handler) -> Handler:
        return self._shared.watch_call(self, method, handler)

    def _flush_ms(self) -> float:
        return self._shared.timing.flush_ms * self.slow_disk

    def _vote_ms(self) -> float:
        return self._shared.timing.vote_ms * max(self.slow_disk, self.slow_vote)

    def _vote_saved(self) -> None:
        assert self.process is not None
        for shard, local in self.process.shards.local.items():  # the worker does not know whose vote it saved
            self.part(shard).vote_saved(local)

    def _after_event(self) -> None:
        for part in self._watched:
            part.look()
        if self.process is not None and any(part.local is None for part in self._watched):
            self._forget_discarded()

    def _forget_discarded(self) -> None:
        """Forget the replicas that this node deletes because it was removed from their shards."""
        for part in self._watched:
            if part.local is None:
                part.end()
                part.wiped()
        self._watched = [part for part in self._watched if part.local is not None]


def _nothing(_: StackNode) -> None:
    """Do nothing when the process ends, as the default callback."""


def _ignore_log_start(_: BrokerReplica, __: Snapshot) -> None:
    """Do nothing when a log start moves, as the default callback."""


def _ignore_unknown(_: StackNode, __: int, ___: Exception) -> None:
    """Do nothing when a program does not know an entry, as the default callback."""


def _ignore_appended(shard: int, headers: Sequence[Header]) -> None:
    """Do nothing, as the function that is called when a node has appended entries."""


def _ignore_applied(_: BrokerReplica, __: Header, ___: memoryview) -> None:
    """Do nothing when an entry is applied, as the default callback."""
