"""Defines the stack world, in which production nodes on simulated disks, and production clients over simulated RPCs,
run in one event loop.

    clients (workload.py) ── SimChannel ── Calls ── BrokerService ── Replica ── Driver ── Raft      node.py
                                                          SimTransport ──┘         └── CommitLog, VoteFile ── SimDisk

The stack world builds the cluster and the clients that were chosen at random from the seed, and compares all results
that clients receive with the log. The tested code is unchanged production code. Nodes receive a simulated runtime, and
clients receive a simulated environment.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import xxhash

from chaos.sim.access.access_truth import AccessTruth
from chaos.sim.access.access_watch import AccessWatch
from chaos.sim.access.credentials import Credential, ProvenSimChannel, SimCredentials, at_once
from chaos.sim.access.sim_access import FIRST, SimAccess
from chaos.sim.access.sim_access import OPERATOR as OPERATING_USER
from chaos.sim.campaign.swarm import Options
from chaos.sim.consumers.consumption import SimConsumption
from chaos.sim.consumers.consumption_plan import RETRY_DELAYS_S
from chaos.sim.consumers.member_ear import MemberEar, OverheardChannel
from chaos.sim.engine.disk import SimDisk
from chaos.sim.engine.faults import KINDS, RATES, FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import NetworkFaults
from chaos.sim.engine.node_life import Life
from chaos.sim.engine.rpc import SimChannel
from chaos.sim.engine.rpc_server import Handler
from chaos.sim.requests.request_truth import RequestTruth
from chaos.sim.requests.sim_requests import SimRequests
from chaos.sim.stack.cluster_operator import ClusterLimits, OperatedCluster, SimOperator
from chaos.sim.stack.end import compare, unopened, unsettled
from chaos.sim.stack.faults import StackFaults
from chaos.sim.stack.mirror_truth import MirrorTruth
from chaos.sim.stack.node import FIRST_CLIENT, START_MS, SharedParts, SimSettings, StackNode, WorkDurations
from chaos.sim.stack.node_part import DATA, LogOfNode
from chaos.sim.stack.pin_truth import PinTruth
from chaos.sim.stack.record import RecordedEntry, ShardRecords
from chaos.sim.stack.roster import Rosters
from chaos.sim.stack.shared_truth import SharedTruth
from chaos.sim.stack.timed_truth import TimedTruth
from chaos.sim.stack.transaction_truth import TransactionTruth
from chaos.sim.stack.versions import Versions
from chaos.sim.stack.window_truth import WindowTruth
from chaos.sim.stack.workload import ClientProcess, Workload
from chaos.sim.stack.workload_history import LoadHistory, SendOutcome
from chaos.sim.world import InvariantViolation, SimNodeLog
from ledger.batch import Batch, BatchHeader
from ledger.batch.header import COPIED, DECIDED, FIRED, HALF, TIMED
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.delays import Delays
from ledger.broker.consumer_groups.moved_batch import BROKER
from ledger.client.connection.channels import Channel
from ledger.client.connection.environment import Environment
from ledger.state import State
from ledger.topics import TOPICS_SHARD
from store import EntryKind, Header, Snapshot

SEGMENT_BYTES = (64 << 10, 256 << 10, 1 << 20)
MAX_MESSAGE_BYTES = 16 << 10
# Segment sizes for runs in which logs are trimmed. A log can start only at the start of a segment.
SMALL_SEGMENT_BYTES = (32 << 10, 64 << 10)
# More than are ever needed at once. With fewer, the history would depend on the time of garbage collection.
STAGED_SEGMENTS = 16
OPERATOR = FIRST_CLIENT + 70
OPERATORS_PROGRAM = FIRST_CLIENT + 75
OPERATOR_OF_CONSUMERS = FIRST_CLIENT + 80
MOST_NODES = 7
MOST_VOTERS = 6
# Fault kinds for which the run has spare nodes.
ADDS_NODES = ("reconfigure", "two_learners", "configuration_at_tail", "move_replicas")
SETTLE_STEP_S = 0.5
# Factor for the time to settle, while consumers make progress. They may have thousands of messages to read.
MOST_TO_SETTLE = 10
# When transactions are asked for, in seconds.
CHECK_AFTER_S, CHECK_EVERY_S = 2.0, 4.0
# When the replicas of a silent node are replaced.
REPLACE_AFTER_MS = 8_000
# Makes the channel of a process, for the client with this number, to a node.
MakeChannel = Callable[[Life, int, int], SimChannel]
_COMMIT = struct.Struct("<dIQQ")


class StackWorld:
    """A simulated cluster of production nodes. Implements `chaos.sim.world.World`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.happened: Counter[str] = Counter()
        self.loop = SimLoop()
        self.network = Network(self.loop, options.chance("network"), options.conditions)
        self.records = ShardRecords(self._now_ms, self._committed, judges=options.has_faults)
        self.history_of_clients = LoadHistory(self.records.fail)
        # What each client proves itself with, by its number. Empty without authentication.
        self._credentials: dict[int, SimCredentials] = {}
        self._of_load = SimCredentials(Credential("load", "the first password of the load"))
        self._access_truth = AccessTruth(self.records.fail, self.loop.time)
        self._access_watch = AccessWatch(self._access_truth, self._credentials, self.records.fail, self.loop.time)
        # (topic, queue) -> the shard in which all messages of the queue are committed.
        self._homes: dict[tuple[int, int], int] = {}
        self._retry_delays_s = options.chance("retries").choice(RETRY_DELAYS_S)
        spare = 2 if any(self._is_drawn(kind) for kind in ADDS_NODES) else 0
        self._addresses = {node: f"node-{node}:9871" for node in range(1, min(options.nodes + spare, MOST_NODES) + 1)}
        self._nodes = self._make_nodes()
        self._clients: list[ClientProcess] = []
        rosters = self._rosters = Rosters(self._nodes, options.nodes, options.first_shards)
        addresses = [*self._addresses.values()]
        self.timed = TimedTruth(
            self.records.fail, self.loop.time, rosters, self._nodes, is_exact=not self._is_drawn("clock_skew")
        )
        self.transactions = TransactionTruth(self.records.fail)
        self.shared = SharedTruth(
            self.records.fail,
            self.loop.time,
            self.history_of_clients.first_offset,
            by_key=options.shared_by_key,
            filters=options.shared_filters,
            is_exact=not self._is_drawn("clock_skew"),
        )
        self.copies = MirrorTruth(self.history_of_clients, rosters, self.records.fail)
        self.windows = WindowTruth(self.records.fail, rosters.leading, is_exact=not self._is_drawn("clock_skew"))
        self.workload = Workload(
            options,
            addresses,
            self.history_of_clients,
            self._make_client,
            rosters.is_in_all,
            self.timed,
            self.transactions,
            self.shared,
            self.windows,
        )
        self.consumption = SimConsumption(
            options,
            self.loop,
            self.network,
            self.workload,
            self._make_member,
            self._make_client(OPERATOR_OF_CONSUMERS),
            self.records.fail,
            self.history_of_clients.first_offset,
        )
        self.request_truth = RequestTruth(self.records.fail, self.loop.time, self.history_of_clients.first_offset)
        self.requests = SimRequests(
            options, self.loop, self.network, self.workload, self.request_truth, self._make_client, self.happened
        )
        self._network_faults = NetworkFaults(self.loop, self.network)
        self._faults = StackFaults(
            self.loop,
            self.network,
            options,
            rosters,
            self._make_operator(),
            self.workload,
            self.consumption,
            self.copies,
            partial(self._make_client, OPERATORS_PROGRAM),
            self.records.fail,
            self.happened,
        )
        self.access = self._make_access() if options.authentication else None
        self._versions = Versions(
            self.loop, rosters, self._nodes, dict(options.old_programs), self.records.fail, self.happened
        )
        self._pins = PinTruth(rosters, self.records.fail)
        self._hash = xxhash.xxh3_64()
        for node in self._nodes:
            node.on_end, node.on_log_start = self._faults.ended, self._log_starts
            node.on_applied = self._applied
            if options.shared_members:
                node.on_appended = self.shared.appended
        for node in self._nodes[: options.nodes]:
            node.start()

    # -- building the world

    def _is_drawn(self, kind: str) -> bool:
        return any(kind == name for name, _ in self.options.strengths)

    def _make_nodes(self) -> list[StackNode]:
        random = self.options.chance("nodes")
        is_small = self._is_drawn("log_start") or self._is_drawn("snapshot_over_longer")
        segment_bytes = random.choice(SMALL_SEGMENT_BYTES if is_small else SEGMENT_BYTES)
        overrides = {"segment_bytes": segment_bytes, **self._retention(segment_bytes)}
        if self._is_drawn("no_room"):
            overrides |= {"disk_refuse_ratio": 0.9, "retention_check_ms": 1_000}
        shared = SharedParts(
            loop=self.loop,
            network=self.network,
            doors={},
            channel=self._channel,
            environment=self._environment,
            records=self.records,
            timing=WorkDurations(self.options.flush_ms, self.options.vote_ms),
            watch_call=self._watched_call,
            secrets=lambda number: self.options.chance(f"secrets {number} {self.loop.time()}").randbytes,
            first_password=FIRST.password if self.options.authentication else "",
        )
        return [self._make_node(number, overrides, self._make_disk(number), shared) for number in self._addresses]

    def _retention(self, segment_bytes: int) -> dict[str, Any]:
        """Return the settings of retention for all nodes of this run. If the operator does not trim logs in this
        run, retention is switched off. Otherwise, retention keeps enough of the log so that the operator can still
        trim the log."""
        if not self._is_drawn("log_start"):
            return {"disk_force_ratio": 0.0, "disk_refuse_ratio": 0.0}
        random = self.options.chance("retention")
        return {
            "retention_bytes": random.choice((0, 0, 3 * segment_bytes)),
            "disk_force_ratio": random.choice((0.0, 0.85)),
            "disk_refuse_ratio": random.choice((0.0, 0.9)),
            "retention_check_ms": random.choice((300, 5_000)),
        }

    def _make_disk(self, number: int) -> SimDisk:
        random = self.options.chance(f"disk {number}")
        return SimDisk(random, writes_back=random.choice((0.0, 0.1, 0.5)))

    def _make_node(self, number: int, overrides: Mapping[str, Any], disk: SimDisk, shared: SharedParts) -> StackNode:
        options = self.options
        founders = dict([*self._addresses.items()][: options.nodes])
        settings = SimSettings.model_construct(
            node=number,
            cluster="simulated",
            data=DATA,
            join=number not in founders,
            listen=self._addresses[number],
            advertised=self._addresses[number],
            http="",
            peers=founders if number in founders else {},
            shards=options.first_shards,
            flush="sync" if options.sync else "async",
            flush_interval_ms=options.flush_interval_ms,
            write="staged" if options.staged else "direct",
            staged_segments=STAGED_SEGMENTS,
            max_message_bytes=MAX_MESSAGE_BYTES,
            tick_ms=options.tick_ms,
            heartbeat_ticks=options.heartbeat_ticks,
            election_ticks=options.election_ticks,
            retry_delays_s=self._retry_delays_s,
            replace_after_ms=REPLACE_AFTER_MS if self._is_drawn("move_replicas") else 0,
            transaction_check_after_s=CHECK_AFTER_S,
            transaction_check_every_s=CHECK_EVERY_S,
            authentication=options.authentication,
            first_administrator=FIRST.user,
            **overrides,
        )
        return StackNode(settings, disk, shared, options.chance(f"node {number}"))

    def _make_operator(self) -> SimOperator:
        cluster = OperatedCluster(self._nodes, self._rosters, self.workload, self._addresses)
        limits = ClusterLimits(voters=min(self.options.nodes + 1, MOST_VOTERS), shards=self.options.shards)
        return SimOperator(self.loop, self._make_client(OPERATOR), cluster, limits, self.happened)

    def _make_access(self) -> SimAccess:
        return SimAccess(
            self.options,
            self.loop,
            self.network,
            self.workload,
            self._access_watch,
            self._access_truth,
            self._of_load,
            self._make_client,
            self.happened,
        )

    def _watched_call(self, node: StackNode, method: str, handler: Handler) -> Handler:
        handler = self._faults.watched(node, method, handler)
        return self._access_watch.watched(node, method, handler) if self.options.authentication else handler

    def _make_client(self, number: int, credentials: SimCredentials | None = None) -> ClientProcess:
        life, random = Life(self.loop, _nothing), self.options.chance(f"client {number}")
        if self.options.authentication:
            operates = number in (OPERATOR, OPERATORS_PROGRAM, OPERATOR_OF_CONSUMERS)
            self._credentials[number] = credentials or (SimCredentials(OPERATING_USER) if operates else self._of_load)
        client = ClientProcess(number, life, self._environment(life, number, random))
        self._clients.append(client)
        return client

    def _make_member(self, number: int, ear: MemberEar) -> ClientProcess:
        client = self._make_client(number)

        def channel(life: Life, client: int, node: int) -> SimChannel:
            return OverheardChannel(life, self.network, client, node, lambda: self._nodes[node - 1].server, ear)

        environment = self._environment(client.life, number, self.options.chance(f"client {number}"), channel)
        return replace(client, environment=environment)

    def _environment(self, life: Life, number: int, random: Random, channel: MakeChannel | None = None) -> Environment:
        """Return the environment of a client in this process. `number` is the endpoint of the client in the
        simulated network."""
        numbers, connect = {address: node for node, address in self._addresses.items()}, channel or self._channel
        credentials, secrets = self._credentials.get(number), self.options.chance(f"secrets of client {number}")

        def opened(address: str, _: str | None) -> Channel:
            plain = connect(life, number, numbers[address])
            return plain if credentials is None else ProvenSimChannel(plain, credentials, secrets)

        return Environment(
            channel=opened,
            now_ms=lambda: START_MS + self._now_ms(),
            new_producer_id=partial(random.getrandbits, 64),
            monotonic_s=life.time,
            random_bytes=secrets.randbytes,
            in_thread=at_once,
        )

    def _channel(self, life: Life, client: int, node: int) -> SimChannel:
        return SimChannel(life, self.network, client, node, lambda: self._nodes[node - 1].server)

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    # -- called by the runner

    def nodes(self) -> Sequence[StackNode]:
        return self._nodes

    def fire(self, event: FaultEvent) -> None:
        present = self._rosters.present
        enough = len(present) >= KINDS[event.kind].least_nodes
        self.timed.watch()
        done = enough and (
            self._network_faults.fire(event, present)
            or self._faults.fire(event)
            or self.consumption.fire(event, [*range(1, len(self._nodes) + 1)])
            or self.requests.fire(event)
            or (self.access is not None and self.access.fire(event, present))
        )
        if done:
            self.happened[event.kind] += 1
        self.timed.watch()
        self._hash.update(f"{event} {done}".encode())

    def start_workload(self) -> None:
        self.workload.start()
        self.consumption.start()
        self.requests.start()
        if self.access is not None:
            self.access.start()

    def stop_faults(self) -> None:
        for name in RATES:
            self.happened[name] += self.network.counts[name]
        self.network.calm()
        self._network_faults.heal()
        self._faults.heal()
        self.consumption.end()
        self.requests.end()
        self.happened["offsets_reset"] += self.consumption.truth.counts["offsets_reset"]

    def violations(self) -> Sequence[InvariantViolation]:
        return self.records.violations

    def settle(self, within_ms: int) -> list[str]:
        self.workload.end()
        if self.access is not None:
            self.access.end()
        missing = self._wait_until_settled(within_ms / 1000)
        if not missing and not self._failed():
            for roster in self._rosters:
                compare(roster.parts, self.records.of(roster.shard).invariants)
            parts = [part for roster in self._rosters for part in roster.parts]
            self.consumption.check_end([part.replica for part in parts if part.replica is not None])
        return missing

    def _wait_until_settled(self, within_s: float) -> list[str]:
        """Run the cluster until all conditions of a settled cluster are met, and return a phrase for each condition
        that is not met. The wait ends early after a violation, or when consumers have made no progress for
        `within_s` seconds. The wait lasts at most MOST_TO_SETTLE times `within_s`."""
        deadline = self.loop.time() + within_s
        end, come = self.loop.time() + MOST_TO_SETTLE * within_s, self.consumption.come
        while (missing := self._unsettled()) and self.loop.time() < min(deadline, end) and not self._failed():
            self.loop.run_until(self.loop.time() + SETTLE_STEP_S)
            if self.consumption.come != come:  # the number may also fall, by an operator's reset
                deadline, come = self.loop.time() + within_s, self.consumption.come
        return missing

    def _unsettled(self) -> list[str]:
        missing = [each for roster in self._rosters for each in unsettled(roster.shard, roster.parts)]
        first = self._rosters.first.leader
        opening = unopened(first.replica if first is not None else None)
        access = self.access.unsettled() if self.access is not None else []
        return [
            *missing,
            *opening,
            *self.workload.unsettled(),
            *self._unconsumed(),
            *access,
            *self._versions.unsettled(),
            *self._pins.unsettled(),
            *self.timed.unsettled(),
            *self.transactions.unsettled(),
            *(self.shared.unsettled() if self.options.shared_members else ()),
            *self.requests.unsettled(),
            *self.copies.unsettled(),
        ]

    def _unconsumed(self) -> list[str]:
        """Return a phrase for each condition that a consumer group must still meet. If a shard has no leader,
        return no phrase."""
        leaders = [leader for roster in self._rosters if (leader := roster.leader) is not None]
        leading = {leader: leader.replica for leader in leaders if leader.replica is not None}
        if len(leading) < len(list(self._rosters)):
            return []  # that is missing anyway
        delays = {leader.shard: Delays(self._retry_delays_s) for leader in leading}
        return list(self.consumption.unsettled(list(leading.values()), delays))

    def _failed(self) -> bool:
        return bool(self.violations() or self.loop.errors)

    def figures(self) -> Mapping[str, int]:
        history = self.history_of_clients
        return {
            "sent": sum(history.outcomes.values()),
            "acknowledged": history.outcomes[SendOutcome.OK],
            "failed": history.outcomes[SendOutcome.FAILED],
            "unknown": history.outcomes[SendOutcome.UNKNOWN],
            "committed": history.total,
            "shards": len(self._rosters.numbers),
            "entries": sum(record.invariants.newest_commit for record in self.records),
            "leaders": sum(len(record.invariants.leaders) for record in self.records),
            "consumed": history.delivered,
            "skipped": history.skipped,
            "reads": history.reads,
            "events": self.loop.events,
            **self.consumption.figures(),
            **(dict(sorted(self.timed.counts.items())) if self.options.timed_share else {}),
            **dict(sorted(self.transactions.counts.items())),
            **dict(sorted(self.shared.counts.items())),
            **dict(sorted(self.windows.counts.items())),
            **dict(sorted(self.request_truth.counts.items())),
            **({"copied": self.copies.copied} if self.copies.is_wanted else {}),
            **(self.access.figures() if self.access is not None else {}),
        }

    def history(self) -> int:
        self._hash.update(repr(sorted(self.figures().items())).encode())
        return self._hash.intdigest()

    def close(self) -> None:
        lives = [node.process.life for node in self._nodes if node.process is not None]
        for life in [*lives, *(client.life for client in self._clients)]:
            life.end()
            life.bury()
        self.loop.close()

    # -- called for the log

    def _committed(self, shard: int, log: SimNodeLog, index: int) -> None:
        assert isinstance(log, LogOfNode)
        header, body = log.whole.entry(index)
        record = self.records.of(shard)
        record.committed(RecordedEntry(header.term, header.chain))
        if index > log.whole.first_index:
            before = log.whole.reading.header(index - 1).append_time_ms
            if header.append_time_ms < before:
                told = f"entry {index} is dated {before - header.append_time_ms} ms before the entry before it"
                record.judge("append times never go back", told)
        self._hash.update(_COMMIT.pack(self.loop.time(), shard, index, header.chain))
        if self.options.timed_share:
            self.timed.committed(shard, header, bytes(body))
        if self.options.transaction_programs:
            self.transactions.committed(shard, header, bytes(body))
        if self.options.requesters:
            self.request_truth.committed(header, bytes(body))
        if self.copies.is_copy(header.topic_id):
            self.copies.committed(header, bytes(body))
        elif header.kind is EntryKind.BATCH and _is_of_clients(BatchHeader.parse(body)):
            home = self._homes.setdefault((header.topic_id, header.queue), shard)
            if home != shard:
                place = f"queue {header.queue} of topic {header.topic_id}"
                self.records.fail("a queue lives in one shard", f"{place} has messages in shards {home} and {shard}")
            if not BatchHeader.parse(body).columns & (TIMED | HALF):
                self.copies.at_source(header, BatchHeader.parse(body))
                self.history_of_clients.committed(header.queue, header.base_offset, Batch(bytes(body)).values())

    def _applied(self, replica: BrokerReplica, header: Header, body: memoryview) -> None:
        whole = bytes(body)
        self.records.of(replica.shard).starts.applied(header, whole)
        self.consumption.truth.applied(replica.shard, header, whole, replica.state)
        self._versions.applied(replica, header, whole)
        self._pins.applied(replica, header, whole)
        if self.options.shared_members:
            self.shared.applied(replica.shard, header, whole, replica.state)
            self.windows.applied(replica.shard, header, whole, replica.state)
        if replica.shard == TOPICS_SHARD:
            self._access_truth.applied(header, whole, replica.state)
            self.copies.applied(replica)

    def _log_starts(self, replica: BrokerReplica, snapshot: Snapshot) -> None:
        if snapshot.index < replica.driver.applied:
            self._log_start_moved(replica, snapshot)
        starts = self.records.of(replica.shard).starts
        for topic_id, queue, _ in State.decode(snapshot.state).ends():
            topic = replica.state.topics.get(topic_id)
            if topic is None:
                continue  # deleted since
            self.history_of_clients.begins(topic.name, queue, starts.queue_end(topic_id, queue, snapshot.index))

    def _log_start_moved(self, replica: BrokerReplica, snapshot: Snapshot) -> None:
        """Record that a committed entry moved the log start of a replica. A log start that a replica received with
        a snapshot from another node is not recorded."""
        if len(replica.state.holds) > 0:
            held = [hold.name for hold in replica.state.holds]
            self.records.fail(
                "what is held stays",
                f"the log of shard {replica.shard} begins behind {snapshot.index}, though held by {held}",
            )
        record = self.records.of(replica.shard)
        self.happened["log_start"] += snapshot.index > record.log_start  # on the first node where it does
        record.log_start = max(snapshot.index, record.log_start)


def _is_of_clients(batch: BatchHeader) -> bool:
    """Return True if the batch has messages that clients sent, in the queue that they were sent to, in `%TIMED` or in
    `%HALF`."""
    return batch.columns & (FIRED | DECIDED) != 0 or (batch.producer_id != BROKER and not batch.columns & COPIED)


def _nothing() -> None:
    """Do nothing after an event of a client."""
