"""A cluster for tests: real node processes on this machine, which a test can kill, pause and part."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from cluster.local.launcher import wait_ready
from cluster.local.plan import DevError
from cluster.local.state import NodeState, observe
from cluster.testing.async_cluster import AsyncCluster
from cluster.testing.network import NodeNetwork, parted
from cluster.testing.node_files import NodeFiles, Setting
from cluster.testing.ports import ReservedPort
from cluster.testing.processes import ClusterError, ClusterProcess, forking_process
from ledger.client.sync.admin import Admin

MOST_NODES = 9
_STOP_S = 10.0
_POLL_S = 0.02
# A single node waits for its election timeout too, although nobody else could lead.
_TIMING_ALONE: dict[str, Setting] = {"heartbeat_ticks": 1, "election_ticks": 2}


class Cluster:
    """A cluster of real node processes on this machine, for tests. All files are in a temporary directory.

        with Cluster(nodes=3) as cluster:
            producer = Producer(cluster.bootstrap)
            cluster.kill_leader()

        async with Cluster(nodes=3) as cluster:  # an AsyncCluster
            await cluster.kill_leader()

    The constructor starts nothing. All methods raise ClusterError if they cannot do what they say, and may be called
    from several threads, one after another.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        shards: int = 1,
        settings: Mapping[str, Setting] | None = None,
        directory: Path | str | None = None,
        rocketmq: bool = False,
        start_timeout_s: float = 30.0,
    ) -> None:
        """`nodes` is the number of nodes: an odd number, at most 9. `settings` are settings of node.toml for all nodes
        (docs/OPERATING.md), for example `{"retry_delays_s": [0.1, 0.5], "flush": "sync"}`. With `directory`, the files
        are there and stay after `stop`; by default `stop` removes them. With `rocketmq`, each node has a port for
        RocketMQ clients, too."""
        if not (1 <= nodes <= MOST_NODES and nodes % 2):
            raise ClusterError(f"a test cluster has 1, 3, 5, 7 or 9 nodes, not {nodes}")
        self._shards = shards
        self._settings = dict(settings or {})
        self._has_rocketmq = rocketmq
        self._given = None if directory is None else Path(directory).resolve()
        self._timeout_s = start_timeout_s
        self._ids = tuple(range(1, nodes + 1))
        self._directory: Path | None = None
        self._ports: dict[int, ReservedPort] = {}
        self._rocketmq_ports: dict[int, ReservedPort] = {}
        self._processes: dict[int, ClusterProcess] = {}
        self._network: NodeNetwork | None = None
        self._paused: set[int] = set()

    # -- starting and stopping

    def start(self) -> None:
        """Start all nodes. Return when they follow one leader in each shard. After an error, nothing runs."""
        if self._directory is not None:
            raise ClusterError("this cluster runs already")
        try:
            self._start()
        except BaseException:  # Ctrl-C too
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes with SIGKILL, and remove the files. The call may be repeated."""
        for process in self._processes.values():
            process.send(signal.SIGKILL)
        for process in self._processes.values():
            process.kill()
        if self._network is not None:
            self._network.stop()
        for port in (*self._ports.values(), *self._rocketmq_ports.values()):
            port.release()
        if self._directory is not None and self._given is None:
            shutil.rmtree(self._directory, ignore_errors=True)
            forking_process().forget(self._directory)
        self._processes, self._network, self._ports, self._directory = {}, None, {}, None
        self._rocketmq_ports = {}
        self._paused = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def aio(self) -> AsyncCluster:
        """The same cluster for asyncio: a method of the result does not block the event loop."""
        return AsyncCluster(self)

    async def __aenter__(self) -> AsyncCluster:
        await self.aio.start()
        return self.aio

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aio.stop()

    # -- what there is

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of the nodes."""
        return self._ids

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for `bootstrap_servers` of the clients."""
        return ",".join(self.address(node) for node in self._ids)

    @property
    def directory(self) -> Path:
        """The directory with the files of all nodes."""
        if self._directory is None:
            raise ClusterError("this cluster does not run: call `start` first, or use `with`")
        return self._directory

    def is_whole(self) -> bool:
        """Return True if no node is killed or paused, and no partition is made."""
        running = all(node in self._processes and self._processes[node].runs for node in self._ids)
        return running and not self._paused and (self._network is None or self._network.is_whole)

    def address(self, node: int) -> str:
        """Return the address of a node, "127.0.0.1:port". A node keeps its address when it is restarted."""
        self._need(node)
        return self._ports[node].address

    def rocketmq_address(self, node: int) -> str:
        """Return the address of a node for RocketMQ clients, "127.0.0.1:port". The cluster needs `rocketmq=True`."""
        self._need(node)
        if not self._has_rocketmq:
            raise ClusterError("this cluster has no ports for RocketMQ clients: use Cluster(rocketmq=True)")
        return self._rocketmq_ports[node].address

    def pid(self, node: int) -> int:
        """Return the process id of a node that runs."""
        self._need(node)
        return self._need_process(node).pid

    def log(self, node: int) -> str:
        """Return the end of the log output of a node, at most 64 KiB."""
        self._need(node)
        return self._files(node).log_text()

    def data(self, node: int) -> Path:
        """Return the data directory of a node."""
        self._need(node)
        return self._files(node).data

    def leader(self, shard: int = 0, *, timeout_s: float = 10.0) -> int:
        """Return the node that leads this shard, and that a majority of the nodes follows. Wait for a leader at most
        `timeout_s` seconds. Without the argument `shards`, a cluster has only shard 0."""
        deadline = time.monotonic() + timeout_s
        while True:
            states = self._observe()
            named = Counter(state.leaders[shard] for state in states if state.leaders.get(shard))
            for state in states:
                if shard in state.leads and named[state.id] > len(self._ids) // 2:
                    return state.id
            if time.monotonic() >= deadline:
                raise ClusterError(f"shard {shard} has had no leader for {timeout_s:g} s: {self._tails(states)}")
            time.sleep(_POLL_S)

    def create_topic(self, name: str = "", *, queues: int = 1) -> str:
        """Create a topic, and return its name. Without `name`, the name is new."""
        name = name or f"topic-{uuid4().hex[:12]}"
        with Admin(self.bootstrap) as admin:
            admin.create_topic(name, queues=queues)
        return name

    # -- disturbing

    def kill(self, node: int) -> None:
        """Kill the process of a node with SIGKILL. Return when the process has ended. A paused node can be killed."""
        self._need(node)
        self._processes[node].kill()
        self._paused.discard(node)

    def kill_leader(self, shard: int = 0) -> int:
        """Kill the process of the node that leads this shard with SIGKILL. Return the number of the node, for
        `restart`."""
        node = self.leader(shard)
        self.kill(node)
        return node

    def restart(self, node: int) -> None:
        """Start a node again with its data; stop it with SIGTERM before, if it runs. Return when all nodes that run and
        are not paused follow one leader in each shard."""
        self._need(node)
        process = self._processes[node]
        if process.runs:
            self.resume(node)
            process.send(signal.SIGTERM)
            if not process.wait(_STOP_S):
                process.kill()
        self._spawn(node)
        self._wait_ready(node)

    def pause(self, node: int) -> None:
        """Stop the process of a node with SIGSTOP. Its connections stay open, and it answers nothing until `resume`.
        Clients and nodes cannot distinguish it from a machine that hangs."""
        self._need(node)
        self._need_process(node).pause()
        self._paused.add(node)

    def resume(self, node: int) -> None:
        """Let a paused node continue. Nothing happens if the node is not paused."""
        self._need(node)
        if node in self._paused:
            self._processes[node].resume()
            self._paused.discard(node)

    def partition(self, *sides: Collection[int]) -> None:
        """Let nodes of different sides hear nothing of each other until `heal`. The nodes that no side names are one
        more side, so `partition([1])` isolates node 1 from all others. The sides replace those of an earlier call.

        Only the connections between nodes are cut. Clients still reach all nodes, so a client of an isolated leader
        learns what a client learns in the minority's part of the network. To take a node from its clients too, use
        `pause` or `kill`.
        """
        if self._network is None:
            raise ClusterError("a partition needs a cluster of several nodes that runs: Cluster(nodes=3)")
        self._network.cut(parted(sides, self._ids))

    def heal(self) -> None:
        """End the partition. What the nodes sent to each other meanwhile arrives now, as far as their connections are
        still open."""
        if self._network is not None:
            self._network.cut([])

    def restore(self) -> None:
        """End the partition, resume the paused nodes, start the killed nodes, and return when all nodes follow one
        leader in each shard. If the cluster was stopped, start it: its nodes then have new addresses, and no data
        unless the cluster has a `directory`."""
        if self._directory is None:
            self.start()
            return
        self.heal()
        for node in tuple(self._paused):
            self.resume(node)
        for node in self._ids:
            if not self._processes[node].runs:
                self._spawn(node)
        self._wait_ready(*self._ids)

    # -- inside

    def _start(self) -> None:
        forking = forking_process()
        if self._given is None:
            self._directory = Path(tempfile.mkdtemp(prefix="ledgermq-test-"))
            forking.keep(self._directory)
        else:
            self._given.mkdir(parents=True, exist_ok=True)
            self._directory = self._given
        self._ports = {node: ReservedPort() for node in self._ids}
        if self._has_rocketmq:
            self._rocketmq_ports = {node: ReservedPort() for node in self._ids}
        if len(self._ids) > 1:
            ports = {node: port.number for node, port in self._ports.items()}
            self._network = NodeNetwork(forking, ports, self._directory / "network.log")
        for node in self._ids:
            self._write(node)
            self._spawn(node)
        self._wait_ready(*self._ids)

    def _write(self, node: int) -> None:
        """Write the settings of a node, which reaches the others through the links. Clients get the real addresses,
        which the setting `outside` has."""
        own = self.address(node)
        links = self._network.addresses_from(node) if self._network is not None else {}
        outside = {each: self.address(each) for each in self._ids} if links else {}
        timing = {} if links else _TIMING_ALONE
        rocketmq = {"rocketmq": self._rocketmq_ports[node].address} if self._has_rocketmq else {}
        settings = {"node": node, "listen": own, "shards": self._shards, **timing, **rocketmq, **self._settings}
        self._files(node).write_settings(settings, {"peers": {node: own, **links}, "outside": outside})

    def _spawn(self, node: int) -> None:
        files = self._files(node)
        with open(files.log, "ab") as log:
            self._processes[node] = forking_process().start_node(files.config, log)

    def _files(self, node: int) -> NodeFiles:
        return NodeFiles(self.directory / f"node-{node}")

    def _observe(self) -> list[NodeState]:
        with ThreadPoolExecutor(len(self._ids)) as pool:
            return list(pool.map(self._state, self._ids))

    def _state(self, node: int) -> NodeState:
        process = self._processes[node]
        pid = process.pid if process.runs and node not in self._paused else None
        return observe(node, self._ports[node].address, "", pid, self._files(node).data)

    def _wait_ready(self, *started: int) -> None:
        """Wait until the nodes that were just started, and the others that run and are not paused, agree on the
        leaders. Raises ClusterError, also if a node that was just started has ended already."""
        awaited = {node for node, process in self._processes.items() if process.runs and node not in self._paused}
        awaited.update(started)

        def status() -> list[NodeState]:
            return [state for state in self._observe() if state.id in awaited]

        try:
            wait_ready(status, self._shards, self._timeout_s, self._log_of)
        except DevError as error:
            raise ClusterError(str(error)) from error

    def _log_of(self, node: int) -> tuple[str, str]:
        files = self._files(node)
        return str(files.log), files.log_tail()

    def _tails(self, states: list[NodeState]) -> str:
        return "; ".join(f"node {state.id} is {state.role} in term {state.term}" for state in states)

    def _need(self, node: int) -> None:
        if self._directory is None:
            raise ClusterError("this cluster does not run: call `start` first, or use `with`")
        if node not in self._ids:
            raise ClusterError(f"there is no node {node}: the nodes are {', '.join(map(str, self._ids))}")

    def _need_process(self, node: int) -> ClusterProcess:
        process = self._processes[node]
        if not process.runs:
            raise ClusterError(f"node {node} does not run: start it with `restart({node})`")
        return process
