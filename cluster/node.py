"""One node: the composition root. Everything is made here and handed down; nothing else knows all the parts.

    settings ─> directory ─> log, votes ─> first start ─> core ─> driver ─> replica ─> gRPC, HTTP

One asyncio loop owns all state, and only fsyncs and the making of segments happen on helper threads. An orderly
stop flushes the log and leaves a clean mark, so that the next start can tell damage from a torn tail.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from pathlib import Path

import uvloop
from grpc import aio
from prometheus_client import CollectorRegistry

from cluster.disk_threads import DiskThreads
from cluster.first_start import FirstStartRefusedError, Newcomer, first_configuration
from cluster.http import HttpPort
from cluster.metrics import MeasuredLog, Meters, RaftCollector
from cluster.settings import NodeSettings
from ledger.broker.replica import Replica
from ledger.broker.service import BrokerService, NodeFacts
from ledger.v1 import broker_pb2_grpc
from raft.configuration_entry import decode_configuration, encode_configuration
from raft.core import Configuration, Durable, LogTerms, Raft, TermRun, Timing
from raft.driver import Driver
from raft.streams import SERVER_OPTIONS
from raft.transport import GrpcTransport, Identity, RaftService, Receiver
from raft.v1 import raft_pb2_grpc
from store import ConsumeQueues, Disk, Draft, Header, Kind, NodeDirectory, PosixDisk, StoreError, Vote, VoteFile

log = logging.getLogger("cluster.node")

GROUP = 0
STOP_GRACE_S = 1.0
MAX_UNCOMMITTED_BYTES = 64 << 20


class NodeError(Exception):
    """This node cannot run. The sentence says why and what to do."""


class Node:
    """Runs from `start` to `stop`."""

    def __init__(self, settings: NodeSettings, disk: Disk | None = None) -> None:
        self._settings = settings
        self._disk = disk or PosixDisk()
        self._registry = CollectorRegistry()
        self._meters = Meters(self._registry, settings.cluster, settings.node)
        self._closing = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._configurations: list[tuple[int, Configuration]] = []
        """Those that the log held at the start."""
        self._newcomer: Newcomer | None = None
        self._replica: Replica | None = None

    async def start(self) -> None:
        """Returns once this node serves its ports; the first start and elections go on by themselves.

        Raises StoreError (the directory), NodeError (a port)."""
        settings = self._settings
        self._open_directory()
        self._raft_service = RaftService(self._introducer().introduce)
        self._broker = BrokerService(self._facts(), settings.max_message_bytes, self._meters)
        await self._serve_grpc()
        await self._serve_http()
        self._spawn(self._take_part(), "start the group")
        self._spawn(self._meters.probe_loop_lag(), "event loop lag")

    async def stop(self) -> None:
        """Orderly: what was acknowledged is on the disk, and the clean mark says so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._closing.aclose()

    # -- what lies on the disk

    def _open_directory(self) -> None:
        settings = self._settings
        directory = NodeDirectory.open(self._disk, settings.data, cluster=settings.cluster, node=settings.node)
        self._directory = directory
        self._closing.callback(directory.close)
        self._votes = VoteFile.open(self._disk, directory.vote_path(GROUP), new_incarnation=os.urandom(16))
        self._closing.callback(self._votes.close)
        started = time.perf_counter()
        self._log = MeasuredLog.open(
            self._disk,
            directory.log_directory(GROUP),
            segment_bytes=settings.segment_bytes,
            clean=directory.take_clean_mark(GROUP),
            on_entry=self._remember_configuration,
            on_progress=tell_progress(),
        )
        self._log.observe = self._meters.append_seconds.observe
        self._closing.callback(self._close_log)
        self._log.sync()  # what a crashed run left in the page cache counts from now on
        log.info(
            "log of group %d: %d entries, %d bytes, read in %.2f s",
            GROUP,
            self._log.last_index,
            self._log.end,
            time.perf_counter() - started,
        )
        self._queues = ConsumeQueues(self._disk, directory.queues_directory(GROUP))
        self._queues.wipe()  # rebuilt by applying the log from its start
        self._closing.callback(self._queues.close)

    def _remember_configuration(self, header: Header, body: memoryview) -> None:
        if header.kind is Kind.CONFIGURATION:
            self._configurations.append((header.index, decode_configuration(bytes(body)).core))

    def _close_log(self) -> None:
        try:
            self._log.sync()
            self._directory.write_clean_mark(GROUP, self._log.clean_mark(boot_id()))
        except StoreError as error:
            log.error("no clean mark, the log could not be flushed: %s", error)
        finally:
            self._log.close()

    # -- the ports

    async def _serve_grpc(self) -> None:
        server = aio.server(options=SERVER_OPTIONS)
        raft_pb2_grpc.add_RaftServicer_to_server(self._raft_service, server)
        broker_pb2_grpc.add_BrokerServicer_to_server(self._broker, server)
        address = self._settings.listen
        try:
            server.add_insecure_port(address)
        except RuntimeError as error:
            raise NodeError(f"cannot listen on {address}: is the port in use? Choose another with `listen`") from error
        await server.start()
        self._closing.push_async_callback(server.stop, STOP_GRACE_S)
        log.info("node %d of cluster %r serves %s", self._settings.node, self._settings.cluster, address)

    async def _serve_http(self) -> None:
        if self._settings.http:
            port = HttpPort(self._registry, self.not_ready)
            try:
                await port.start(self._settings.http)
            except OSError as error:
                raise NodeError(
                    f"cannot serve HTTP on {self._settings.http}: {error.strerror}; choose another with `http`"
                ) from error
            self._closing.push_async_callback(port.stop)

    def not_ready(self) -> str:
        """Why this node should not be given work; empty when it should."""
        if self._replica is None:
            return "this node waits for the first start of the cluster"
        driver = self._replica.driver
        if driver.failure is not None:
            return f"the disk refuses writes: {driver.failure}"
        if driver.raft.leader == 0:
            return "no leader is known"
        if driver.applied < driver.raft.commit:
            return f"applied {driver.applied} of {driver.raft.commit} committed entries"
        return ""

    def _facts(self) -> NodeFacts:
        settings = self._settings
        return NodeFacts(
            node=settings.node,
            cluster=settings.cluster,
            addresses={**settings.peers, settings.node: settings.advertised},
            http_address=settings.http,
            data_directory=str(Path(settings.data).absolute()),
            version=version("ledgermq"),
        )

    # -- the group

    def _introducer(self) -> Newcomer:
        settings, vote = self._settings, self._votes.vote
        self._newcomer = Newcomer(
            cluster=settings.cluster,
            group=GROUP,
            node=settings.node,
            incarnation=vote.incarnation,
            voters=tuple(sorted(settings.peers)),
            empty=self._log.last_index == 0 and vote.term == 0,
        )
        return self._newcomer

    async def _take_part(self) -> None:
        newcomer = self._newcomer
        assert newcomer is not None
        if newcomer.asks:
            await self._first_start(newcomer)
        await self._start_group()

    async def _first_start(self, newcomer: Newcomer) -> None:
        """Writes entry 1, once every voter has answered that it is empty."""
        settings = self._settings
        others = {node: address for node, address in settings.peers.items() if node != settings.node}
        try:
            configuration = await first_configuration(
                newcomer,
                others,
                segment_bytes=settings.segment_bytes,
                max_entry_bytes=settings.largest_entry_bytes,
            )
        except FirstStartRefusedError as refusal:
            log.error("this node takes no part: %s", refusal)
            return
        draft = Draft(Kind.CONFIGURATION, encode_configuration(configuration))
        self._votes.save(Vote(1, 0, self._votes.vote.incarnation))
        self._log.append([draft], term=1, commit=0, now_ms=now_ms())
        self._log.sync()
        self._configurations.append((1, configuration.core))
        log.info("first start of cluster %r: voters %s", settings.cluster, sorted(configuration.voters))

    async def _start_group(self) -> None:
        settings = self._settings
        replica = Replica(
            group=GROUP,
            commit_log=self._log,
            queues=self._queues,
            addresses=self._facts().addresses,
            max_message_bytes=settings.max_message_bytes,
            meter=self._meters,
        )
        disk = DiskThreads(
            self._log,
            self._votes,
            flush=settings.flush,
            flush_interval_ms=settings.flush_interval_ms,
            on_failure=lambda failure: replica.driver.fail(failure),
            on_flush=self._meters.flush_seconds.observe,
        )
        self._closing.push_async_callback(disk.stop)
        transport = self._transport(replica)
        driver = Driver(
            self._make_raft(),
            self._log,
            transport=transport,
            disk=disk,
            machine=replica,
            now_ms=now_ms,
            soon=asyncio.get_running_loop().call_soon,
        )
        replica.attach(driver)
        self._replica = replica
        self._registry.register(RaftCollector({GROUP: replica}))
        disk.start()
        driver.start()
        transport.start()
        self._closing.push_async_callback(transport.stop)
        self._raft_service.add_group(transport)
        self._broker.serve(replica)
        self._spawn(self._tick(driver), "ticks")
        gc.collect()
        gc.freeze()  # what lives as long as the process need not be looked at in every collection

    def _transport(self, replica: Replica) -> GrpcTransport:
        settings = self._settings
        return GrpcTransport(
            Identity(settings.cluster, GROUP, settings.node, self._votes.vote.incarnation),
            {node: address for node, address in settings.peers.items() if node != settings.node},
            Receiver(
                message=lambda message: replica.driver.receive(message),
                append=lambda append, entries: replica.driver.receive_append(append, entries),
                unreachable=lambda peer: replica.driver.unreachable(peer),
            ),
            self._incarnation_of,
        )

    def _incarnation_of(self, node: int) -> bytes:
        """As the newest configuration in the log knows it; empty where it does not name that node."""
        index = self._replica.driver.raft.configuration_index if self._replica else 0
        if index == 0:
            return b""
        _, body = self._log.entry(index)
        return decode_configuration(bytes(body)).voters.get(node, b"")

    def _make_raft(self) -> Raft:
        settings, vote, commit_log = self._settings, self._votes.vote, self._log
        last = commit_log.last_index
        runs = [TermRun(*run) for run in commit_log.term_runs(1, last)] if last else []
        spread = random.SystemRandom()
        return Raft(
            settings.node,
            state=Durable(vote.term, vote.voted_for),
            log=LogTerms(runs, last),
            configurations=self._configurations,
            commit=commit_log.known_commit,
            timing=Timing(heartbeat_ticks=settings.heartbeat_ticks, election_ticks=settings.election_ticks),
            jitter=lambda: spread.randrange(settings.election_ticks),
            reach=self._reach,
            max_uncommitted_bytes=MAX_UNCOMMITTED_BYTES,
        )

    def _reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        last = self._log.reach(first, max_bytes)
        return last, self._log.span(first, last)

    async def _tick(self, driver: Driver) -> None:
        """A node that was held up ticks once, not as often as it missed: it must hear from others before it acts."""
        while True:
            await asyncio.sleep(self._settings.tick_ms / 1000)
            driver.tick()

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(tell_end)
        self._tasks.append(task)


def tell_end(task: asyncio.Task[None]) -> None:
    """A task of a node ends by cancellation; anything else must not pass unseen."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("%s: %r", task.get_name(), error, exc_info=error)
        os.kill(os.getpid(), signal.SIGTERM)


def tell_progress() -> Callable[[int, int], None]:
    """Reports about reading a long log, every few seconds."""
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 2:
            told = time.monotonic()
            log.info("reading the log: %d of %d MB", done >> 20, total >> 20)

    return tell


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_id() -> str:
    """Another one after each start of the operating system; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def run_node(settings: NodeSettings) -> int:
    """Runs a node in the foreground until SIGTERM or SIGINT. Gives the exit status."""
    try:
        uvloop.run(serve_until_stopped(settings))
    except (NodeError, StoreError) as error:
        log.error("%s", error)
        return 1
    return 0


async def serve_until_stopped(settings: NodeSettings) -> None:
    stopping = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    node = Node(settings)
    try:
        await node.start()
        await stopping.wait()
        log.info("stopping")
    finally:
        await node.stop()
