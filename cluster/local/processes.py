"""A cluster of node processes on this machine, which stays when the program that started it ends.

Everything about it lies under one directory, so any later command finds it again, and every operation brings the
cluster to a state rather than doing a step: starting what runs or stopping what is stopped changes nothing.

    ledgermq-data/
      cluster.json    the plan: nodes, ports, settings (plan.py)
      lock            held while a command changes the cluster
      node-1/ ...     one node process (node_process.py); nodes that were added later lie beside the first ones
"""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from cluster.local.file_lock import locked
from cluster.local.launcher import DEFAULT_NODES, leader_of, refuse_change, wait_ready
from cluster.local.node_process import DevNode
from cluster.local.plan import DevError, Plan
from cluster.local.ports import choose_next_port, choose_ports, port_is_free, turn
from cluster.local.state import NodeState, ask, observe
from ledger.client.sync.clients import Admin
from ledger.errors import OperationError, OperationTimeoutError, UnknownNodeError

DEFAULT_DIRECTORY = Path("ledgermq-data")
DEFAULT_SEGMENT_BYTES = 64 << 20
LEAST_SEGMENT_BYTES = 8 << 20
"""With many shards segments are smaller: each shard has one in use and one ready, allocated."""
START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
# Connections of a process that was just killed keep its port for a moment.
_PORT_TIMEOUT_S = 1.0
_POLL_SECONDS = 0.05
_REQUEST_MS = 10_000

__all__ = ["DEFAULT_DIRECTORY", "DevCluster", "DevError", "NodeState"]


class DevCluster:
    """The local cluster under one directory, whether it exists already or not. Implements `Launcher`."""

    def __init__(self, data: Path) -> None:
        self.directory = data.resolve()
        self._nodes: dict[int, DevNode] = {}

    @property
    def exists(self) -> bool:
        return self._plan_path.exists()

    @property
    def running(self) -> bool:
        """Whether at least one of its nodes runs."""
        return any(node.pid is not None for node in self._members())

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, as clients take them."""
        plan = self._plan()
        return ",".join(plan.address(node) for node in plan.nodes)

    def start(
        self,
        nodes: int | None = None,
        *,
        base_port: int | None = None,
        flush: str | None = None,
        segment_bytes: int | None = None,
        shards: int | None = None,
        timeout_s: float = START_TIMEOUT_S,
    ) -> list[NodeState]:
        """Starts what does not run, and waits until every node answers and follows one leader in each shard.

        None takes what the cluster was made with, or the default for a new one. Asking an existing cluster for
        something else raises DevError, as does a node that does not come up: with the end of its log.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._locked():
            with turn():
                plan = Plan.load(self._plan_path)
                if plan is None:
                    self._make(nodes or DEFAULT_NODES, base_port, flush or "async", segment_bytes, shards or 1)
                else:
                    wanted = {"nodes": nodes, "base_port": base_port, "segment_bytes": segment_bytes, "shards": shards}
                    self._refuse_change(plan, flush=flush, **wanted)
                    self._rename_settings(plan)
                stopped = [node for node in self._members() if node.pid is None]
                self._spawn(stopped, timeout_s)
            return self._wait_ready(timeout_s, cleanup=stopped)

    def status(self) -> list[NodeState]:
        """Each node as it is now. Nodes that do not answer within a second are shown as starting."""
        members = self._members()
        with ThreadPoolExecutor(len(members)) as pool:
            return list(pool.map(_observe, members))

    def stop(self) -> int:
        """Stops all nodes: SIGTERM, and SIGKILL for one that is still there after 10 s. How many were running."""
        if not self.exists:
            return 0
        with self._locked():
            running = [node for node in self._members() if node.pid is not None]
            self._end(running)
            return len(running)

    def purge(self) -> bool:
        """Stops the cluster and removes its data. Whether there was one; nothing that is not ours is removed."""
        if not self.exists:
            return False
        self.stop()
        for node in self._members():
            shutil.rmtree(node.directory, ignore_errors=True)
        self._plan_path.unlink()
        (self.directory / "lock").unlink(missing_ok=True)
        self._nodes.clear()
        if not any(self.directory.iterdir()):
            self.directory.rmdir()
        return True

    def add_node(self, *, promote: bool = True, timeout_s: float = START_TIMEOUT_S) -> NodeState:
        """Starts one more node and adds it to the cluster, which must have a leader: as a voter, or as a learner that
        has caught up. Where the cluster does not take it, all is as before.

        Raises DevError, LedgerError (OperationTimeoutError: it runs, and goes on)."""
        with self._locked():
            bootstrap, before = self.bootstrap, self._plan()
            node = before.next_node
            with turn():
                plan = before.with_node(choose_next_port(before.ports[-1]))
                self._write_node(plan, node)
                plan.save(self._plan_path)  # first, so that whatever happens, stop and purge know of the process
                with self._or_forget(node):
                    self._spawn([self.node(node)], timeout_s)
            with self._or_forget(node), Admin(bootstrap, request_timeout_ms=_REQUEST_MS) as admin:
                self._wait_answers(node, timeout_s)
                admin.add_node(node, plan.address(node), promote=promote, timeout_ms=timeout_s * 1000)
            return _observe(self.node(node))

    def remove_node(self, node: int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Removes a node from the cluster, then stops it and removes its data. Raises DevError, LedgerError."""
        with self._locked():
            member = self.node(node)
            # An earlier attempt may have got no further than that.
            with suppress(UnknownNodeError), Admin(self.bootstrap, request_timeout_ms=_REQUEST_MS) as admin:
                admin.remove_node(node, timeout_ms=timeout_s * 1000)
            self._forget(member.node)

    def kill(self, node: int) -> None:
        """Kills one node with SIGKILL, and returns once it is gone."""
        member = self.node(node)
        member.send(signal.SIGKILL)
        if not member.wait_stopped(_STOP_TIMEOUT_S):
            raise DevError(f"node {node} (pid {member.pid}) is still there after SIGKILL: its disk may hang")

    def restart(self, node: int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts one node again if it does not run, and waits until all nodes that run follow one leader."""
        with self._locked():
            member = self.node(node)
            if member.pid is None:
                with turn():
                    self._spawn([member], timeout_s)
            self._wait_ready(timeout_s, cleanup=[], only_running=True)

    def leader(self, *, timeout_s: float = START_TIMEOUT_S) -> int:
        """The node that leads, as soon as one does; raises DevError when none does within `timeout_s`."""
        return leader_of(self.status, timeout_s, f"the cluster in {self.directory}")

    def log_directory(self, node: int, scratch: Path) -> Path:
        """Shard 0's log as files; they lie here, and nothing is put into `scratch`."""
        return self.node(node).data / "shard-0" / "log"

    def node(self, node: int) -> DevNode:
        """One member; raises DevError when there is no such node."""
        for member in self._members():
            if member.node == node:
                return member
        raise DevError(f"the cluster in {self.directory} has no node {node}")

    @property
    def _plan_path(self) -> Path:
        return self.directory / "cluster.json"

    def _plan(self) -> Plan:
        plan = Plan.load(self._plan_path)
        if plan is None:
            raise DevError(f"there is no local cluster in {self.directory}: start one with `ledgermq dev start`")
        return plan

    def _members(self) -> list[DevNode]:
        plan = self._plan()
        for node in plan.nodes:
            if node not in self._nodes:
                directory = self.directory / f"node-{node}"
                self._nodes[node] = DevNode(node, directory, plan.address(node), plan.http(node))
        return [self._nodes[node] for node in plan.nodes]

    def _make(self, nodes: int, base_port: int | None, flush: str, segment_bytes: int | None, shards: int) -> Plan:
        ports = choose_ports(nodes, base_port)
        smaller = max(LEAST_SEGMENT_BYTES, DEFAULT_SEGMENT_BYTES // shards >> 20 << 20)
        plan = Plan("dev", ports, flush, segment_bytes or smaller, shards=shards)
        for node in plan.nodes:
            self._write_node(plan, node)
        plan.save(self._plan_path)
        return plan

    def _rename_settings(self, plan: Plan) -> None:
        """Gives a setting that version 0.1 wrote its name of today, and keeps what a user wrote beside it."""
        for node in plan.nodes:
            path = self.directory / f"node-{node}" / "node.toml"
            if not path.exists():
                continue
            text = path.read_text(encoding="utf-8")
            if (renamed := re.sub(r"^groups = ", "shards = ", text, flags=re.MULTILINE)) != text:
                path.write_text(renamed, encoding="utf-8")

    def _write_node(self, plan: Plan, node: int) -> None:
        directory = self.directory / f"node-{node}"
        directory.mkdir(exist_ok=True)
        (directory / "node.toml").write_text(plan.node_toml(node, directory / "data"), encoding="utf-8")

    @contextmanager
    def _or_forget(self, node: int) -> Iterator[None]:
        try:
            yield
        except (DevError, OperationError) as error:
            if not isinstance(error, OperationTimeoutError):
                self._forget(node)
            raise

    def _forget(self, node: int) -> None:
        """Ends the node's process and removes its data; its number is not used again."""
        member = self.node(node)
        self._end([member])
        shutil.rmtree(member.directory, ignore_errors=True)
        self._plan().without(node).save(self._plan_path)
        del self._nodes[node]

    def _refuse_change(self, plan: Plan, **wanted: int | str | None) -> None:
        made = {
            "nodes": (len(plan.nodes), f"{len(plan.nodes)} node(s)"),
            "base_port": (plan.ports[0], f"base port {plan.ports[0]}"),
            "flush": (plan.flush, f"flush {plan.flush}"),
            "segment_bytes": (plan.segment_bytes, f"segments of {plan.segment_bytes:,} bytes"),
            "shards": (plan.shards, f"{plan.shards} shard(s)"),
        }
        advice = (
            "leave the option out, name another --data, or remove the cluster with `ledgermq dev purge`; nodes come "
            "and go by `ledgermq dev add-node` and `remove-node`"
        )
        refuse_change(f"the cluster in {self.directory}", made, wanted, advice)

    def _spawn(self, nodes: list[DevNode], timeout_s: float) -> None:
        """Returns when all of them that still run listen, or it takes too long."""
        try:
            for node in nodes:
                self._wait_for_ports(node)
                node.spawn()
        except DevError:
            self._end(nodes)
            raise
        deadline = time.monotonic() + timeout_s
        while any(map(_is_about_to_listen, nodes)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _wait_for_ports(self, node: DevNode) -> None:
        deadline = time.monotonic() + _PORT_TIMEOUT_S
        for address in (node.address, node.http):
            while not port_is_free(_port(address)):
                if time.monotonic() >= deadline:
                    raise DevError(
                        f"{address}, which node {node.node} listens on, is in use by another program: stop that"
                    )
                time.sleep(_POLL_SECONDS)

    def _wait_answers(self, node: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        member = self.node(node)
        while ask(member.address) is None:
            if member.pid is None or time.monotonic() >= deadline:
                what = "ended while starting" if member.pid is None else f"does not answer after {timeout_s:g} s"
                raise DevError(f"node {node} {what}. The end of its log:\n{member.log_tail() or '(it is empty)'}")
            time.sleep(_POLL_SECONDS)

    def _wait_ready(self, timeout_s: float, *, cleanup: list[DevNode], only_running: bool = False) -> list[NodeState]:
        shards = self._plan().shards
        try:
            return wait_ready(self.status, shards, timeout_s, self._log_of, only_running=only_running)
        except DevError:
            self._end(cleanup)
            raise

    def _log_of(self, node: int) -> tuple[str, str]:
        member = self.node(node)
        return str(member.log), member.log_tail()

    def _end(self, nodes: list[DevNode]) -> None:
        for node in nodes:
            node.send(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for node in nodes:
            if not node.wait_stopped(max(0.0, deadline - time.monotonic())):
                self.kill(node.node)

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.directory / "lock")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _is_about_to_listen(node: DevNode) -> bool:
    return node.pid is not None and any(port_is_free(_port(address)) for address in (node.address, node.http))


def _observe(node: DevNode) -> NodeState:
    return observe(node.node, node.address, node.http, node.pid, node.data)
