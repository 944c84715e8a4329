"""A local cluster of node processes; it keeps running when the program that started it ends.

All files of the cluster are in one directory. Later commands find the cluster by its directory. The methods `start`,
`stop` and `restart` are idempotent.

    ledgermq-data/
      cluster.json    the plan: nodes, ports, settings (plan.py)
      lock            a command locks this file while it changes the cluster
      security/       secrets and certificates (credentials.py)
      node-1/ ...     a directory for each node (node_process.py)
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from cluster.local.credentials import ClusterCredentials
from cluster.local.file_lock import locked
from cluster.local.launcher import DEFAULT_NODES, Tell, leader_of, refuse_change, silent, wait_ready
from cluster.local.node_process import DevNode
from cluster.local.plan import ClusterPlan, DevError
from cluster.local.ports import choose_next_port, choose_ports, turn
from cluster.local.requirements import check_requirements
from cluster.local.spawning import end_nodes, kill_node, start_nodes, wait_answers
from cluster.local.state import NodeState, ask_proven, observe, state_of
from ledger.client.connection.security import Security, SecurityOptions
from ledger.client.sync.admin import Admin
from ledger.errors import OperationError, OperationTimeoutError, UnknownNodeError

DEFAULT_DIRECTORY = Path("ledgermq-data")
DEFAULT_SEGMENT_BYTES = 64 << 20
# With many shards the segments are smaller, because each shard allocates two segments: one in use and the next one.
LEAST_SEGMENT_BYTES = 8 << 20
START_TIMEOUT_S = 30.0
_REQUEST_MS = 10_000
# The numbers of the nodes of a new cluster.
_NUMBERS = range(1, 65)

__all__ = ["DEFAULT_DIRECTORY", "DevCluster", "DevError", "NodeState"]


class DevCluster:
    """A local cluster of processes, with all its files in one directory; the cluster may not exist yet. The class
    implements `Launcher`."""

    def __init__(self, data: Path) -> None:
        self.directory = data.resolve()
        self._nodes: dict[int, DevNode] = {}

    @property
    def exists(self) -> bool:
        return self._plan_path.exists()

    @property
    def running(self) -> bool:
        """Return True if at least one node runs."""
        return any(node.pid is not None for node in self._members())

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all nodes, separated by commas."""
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
        secure: bool | None = None,
        timeout_s: float = START_TIMEOUT_S,
        tell: Tell = silent,
    ) -> list[NodeState]:
        """Start every node that does not run. Wait until every node answers and follows one leader in each shard.

        An argument that is None stands for the value with which the cluster was created, or for the default of a new
        cluster. Raises DevError if an argument differs from the value with which the cluster was created, or if a node
        does not start. If a node does not start, the error message contains the last lines of the node's log. If a new
        cluster does not start, its processes and files are removed. `tell` is called with the progress.
        """
        made_directories = self._make_directory(nodes, shards, segment_bytes)
        try:
            with self._locked(), self._removed_if_it_fails():
                with turn():
                    plan = ClusterPlan.load(self._plan_path)
                    if plan is None:
                        made = ClusterPlan(
                            "dev",
                            choose_ports(nodes or DEFAULT_NODES, base_port, of_a_node=3),
                            flush or "async",
                            segment_bytes or segment_size(shards or 1),
                            shards=shards or 1,
                            secure=bool(secure),
                            serves_rocketmq=True,
                        )
                        tell("writing settings" + (" and certificates" if secure else ""))
                        self._make(made)
                    else:
                        wanted = {
                            "nodes": nodes,
                            "base_port": base_port,
                            "segment_bytes": segment_bytes,
                            "shards": shards,
                        }
                        self._refuse_change(plan, flush=flush, secure=secure, **wanted)
                        self._rename_settings(plan)
                    stopped = [node for node in self._members() if node.pid is None]
                    tell(f"starting {len(stopped)} node(s)")
                    start_nodes(stopped, timeout_s)
                return self._wait_ready(timeout_s, cleanup=stopped, tell=tell)
        finally:
            self._remove_empty(made_directories)

    def status(self) -> list[NodeState]:
        """Return the present state of each node. If a node's process runs but does not answer within 1 s, the
        node's role is `starting`."""
        members = self._members()
        if self.is_secure:
            return self._observe_proven(members)
        with ThreadPoolExecutor(len(members)) as pool:
            return list(pool.map(_observe, members))

    def stop(self) -> int:
        """Stop all nodes with SIGTERM, and with SIGKILL if they still run after 10 s. Return the number of nodes
        that were running."""
        if not self.exists:
            return 0
        with self._locked():
            running = [node for node in self._members() if node.pid is not None]
            end_nodes(running)
            return len(running)

    def purge(self) -> bool:
        """Stop the cluster and remove its files; other files in the directory are not removed. Return True if the
        cluster existed."""
        if not self.exists:
            return False
        self.stop()
        for node in self._members():
            shutil.rmtree(node.directory, ignore_errors=True)
        shutil.rmtree(self.credentials.directory, ignore_errors=True)
        self._forget_plan()
        self._remove_empty([self.directory])
        return True

    def add_node(self, *, promote: bool = True, timeout_s: float = START_TIMEOUT_S) -> NodeState:
        """Start one more node and add it to the cluster, which must have a leader. Return when the new node is a
        voter; without `promote`, return when it is a learner that has caught up. If the cluster refuses the new node,
        the process and the files of this node are removed again.

        Raises DevError and LedgerError. After an OperationTimeoutError, the new node keeps running and keeps
        catching up."""
        with self._locked_cluster():
            bootstrap = self.bootstrap
            node = self._start_joining(timeout_s)
            with (
                self._or_forget(node),
                Admin(bootstrap, request_timeout_ms=_REQUEST_MS, **self.client_options) as admin,
            ):
                admin.add_node(node, self._plan().address(node), promote=promote, timeout_ms=timeout_s * 1000)
            (state,) = [state for state in self.status() if state.id == node]
            return state

    def start_joining_node(self, *, timeout_s: float = START_TIMEOUT_S) -> int:
        """Start one more node, which waits to be added to the cluster. Return its number. Raises DevError."""
        with self._locked_cluster():
            return self._start_joining(timeout_s)

    def _start_joining(self, timeout_s: float) -> int:
        before = self._plan()
        node = before.next_node
        with turn():
            self._refuse_foreign(self._node_directory(node), "move it away")
            plan = before.with_node(choose_next_port(before.ports[-1], before.ports_of_a_node))
            self._write_node(plan, node)
            plan.save(self._plan_path)  # saved before the process starts, so that stop and purge always find it
            with self._or_forget(node):
                start_nodes([self.node(node)], timeout_s)
        with self._or_forget(node):
            wait_answers(self.node(node), timeout_s, is_secure=before.secure)
        return node

    def remove_node(self, node: int, *, force: bool = False, timeout_s: float = START_TIMEOUT_S) -> None:
        """Remove a node from the cluster, then stop the node's process and remove its data. With `force`, its replicas
        do not move to other nodes first. Raises DevError and LedgerError."""
        with self._locked_cluster():
            member = self.node(node)
            # An earlier attempt may have removed the node from the cluster and failed after that.
            with (
                suppress(UnknownNodeError),
                Admin(self.bootstrap, request_timeout_ms=_REQUEST_MS, **self.client_options) as admin,
            ):
                admin.remove_node(node, force=force, timeout_ms=timeout_s * 1000)
            self._forget(member.node)

    def kill(self, node: int) -> None:
        """Kill one node with SIGKILL. Return when the process of the node has ended."""
        kill_node(self.node(node))

    def restart(self, node: int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start one node if it does not run. Wait until all running nodes follow one leader in each shard."""
        with self._locked_cluster():
            member = self.node(node)
            if member.pid is None:
                with turn():
                    start_nodes([member], timeout_s)
            self._wait_ready(timeout_s, cleanup=[], only_running=True)

    def leader(self, *, timeout_s: float = START_TIMEOUT_S) -> int:
        """Return the node that leads shard 0. Waits until there is a leader; raises DevError after `timeout_s`
        seconds."""
        return leader_of(self.status, timeout_s, f"the cluster in {self.directory}")

    @property
    def credentials(self) -> ClusterCredentials:
        return ClusterCredentials(self.directory / "security")

    @property
    def is_secure(self) -> bool:
        """Return True if clients need TLS and a user."""
        return self._plan().secure

    @property
    def client_options(self) -> SecurityOptions:
        """Return the options of a client that administers this cluster."""
        return self.credentials.client_options(self._plan())

    @property
    def _security(self) -> Security:
        return self.credentials.client_security(self._plan())

    def _observe_proven(self, members: list[DevNode]) -> list[NodeState]:
        running = [member for member in members if member.pid is not None]
        answers = ask_proven([member.address for member in running], self._security)
        answer_of = dict(zip((member.node for member in running), answers, strict=True))
        return [
            state_of(each.node, each.address, each.http, each.pid, each.data, answer_of.get(each.node), each.rocketmq)
            for each in members
        ]

    def log_directory(self, node: int, scratch: Path) -> Path:
        """Return the directory of shard 0's log. `scratch` is not used, because the files are on this machine."""
        return self.node(node).data / "shard-0" / "log"

    def node(self, node: int) -> DevNode:
        """Return one node of the cluster. Raises DevError if there is no such node."""
        for member in self._members():
            if member.node == node:
                return member
        raise DevError(f"the cluster in {self.directory} has no node {node}")

    @property
    def _plan_path(self) -> Path:
        return self.directory / "cluster.json"

    def _plan(self) -> ClusterPlan:
        plan = ClusterPlan.load(self._plan_path)
        if plan is None:
            raise DevError(f"there is no local cluster in {self.directory}: start one with `ledgermq dev start`")
        return plan

    def _members(self) -> list[DevNode]:
        plan = self._plan()
        for node in plan.nodes:
            if node not in self._nodes:
                directory = self._node_directory(node)
                self._nodes[node] = DevNode(node, directory, plan.address(node), plan.http(node), plan.rocketmq(node))
        return [self._nodes[node] for node in plan.nodes]

    def _make_directory(self, nodes: int | None, shards: int | None, segment_bytes: int | None) -> list[Path]:
        """Create the directory of the cluster. For a new cluster, first check what the cluster needs. Return the
        directories that were created, the innermost first."""
        if not self.exists:
            check_requirements(
                self.directory,
                nodes=nodes or DEFAULT_NODES,
                shards=shards or 1,
                segment_bytes=segment_bytes or segment_size(shards or 1),
            )
        missing = [each for each in (self.directory, *self.directory.parents) if not each.exists()]
        self.directory.mkdir(parents=True, exist_ok=True)
        return missing

    @contextmanager
    def _removed_if_it_fails(self) -> Iterator[None]:
        """If the body fails, or is interrupted, and the cluster did not exist before, end its processes and remove the
        files that the body made."""
        if self.exists:
            yield
            return
        before = set(self.directory.iterdir())
        try:
            yield
        except BaseException as error:
            members: list[DevNode] = self._members() if self.exists else []
            end_nodes(members)
            made = set(self.directory.iterdir()) - before
            for directory in made & {self.credentials.directory, *(self._node_directory(node) for node in _NUMBERS)}:
                shutil.rmtree(directory, ignore_errors=True)
            self._forget_plan()
            if isinstance(error, DevError) and members:
                raise DevError(f"{error}\nThe new cluster was removed again.") from error
            raise

    def _forget_plan(self) -> None:
        self._plan_path.unlink(missing_ok=True)
        (self.directory / "lock").unlink(missing_ok=True)
        self._nodes.clear()

    def _node_directory(self, node: int) -> Path:
        return self.directory / f"node-{node}"

    def _remove_empty(self, directories: list[Path]) -> None:
        for directory in directories:
            with suppress(OSError):  # it is not empty, or is gone
                directory.rmdir()

    def _make(self, plan: ClusterPlan) -> None:
        for directory in (self.credentials.directory, *map(self._node_directory, plan.nodes)):
            self._refuse_foreign(directory, "move it away, or choose another --data")
        for node in plan.nodes:
            self._write_node(plan, node)
        plan.save(self._plan_path)

    def _refuse_foreign(self, directory: Path, advice: str) -> None:
        """Raise DevError if `directory` exists before the cluster makes it. `purge` would remove it, with files that
        belong to somebody else."""
        if directory.exists():
            raise DevError(f"{directory} exists already and does not belong to a local cluster: {advice}")

    def _rename_settings(self, plan: ClusterPlan) -> None:
        """In the node.toml files, rename the setting `groups` of version 0.1 to `shards`; other lines are not
        changed."""
        for node in plan.nodes:
            path = self._node_directory(node) / "node.toml"
            if not path.exists():
                continue
            text = path.read_text(encoding="utf-8")
            if (renamed := re.sub(r"^groups = ", "shards = ", text, flags=re.MULTILINE)) != text:
                path.write_text(renamed, encoding="utf-8")

    def _write_node(self, plan: ClusterPlan, node: int) -> None:
        directory = self._node_directory(node)
        directory.mkdir(exist_ok=True)
        (directory / "node.toml").write_text(self._toml(plan, node), encoding="utf-8")

    def _toml(self, plan: ClusterPlan, node: int) -> str:
        security = self.credentials.node_settings(plan, node)
        return plan.node_toml(node, self._node_directory(node) / "data", security)

    @contextmanager
    def _or_forget(self, node: int) -> Iterator[None]:
        try:
            yield
        except (DevError, OperationError) as error:
            if not isinstance(error, OperationTimeoutError):
                self._forget(node)
            raise

    def _forget(self, node: int) -> None:
        """End the node's process and remove its files. The number of the removed node is not used again."""
        member = self.node(node)
        end_nodes([member])
        shutil.rmtree(member.directory, ignore_errors=True)
        self._plan().without(node).save(self._plan_path)
        del self._nodes[node]

    def _refuse_change(self, plan: ClusterPlan, **wanted: int | str | None) -> None:
        made = {
            "nodes": (len(plan.nodes), f"{len(plan.nodes)} node(s)"),
            "base_port": (plan.ports[0], f"base port {plan.ports[0]}"),
            "flush": (plan.flush, f"flush {plan.flush}"),
            "segment_bytes": (plan.segment_bytes, f"segments of {plan.segment_bytes:,} bytes"),
            "shards": (plan.shards, f"{plan.shards} shard(s)"),
            "secure": (plan.secure, "TLS and authentication" if plan.secure else "no TLS and no authentication"),
        }
        advice = (
            "leave the option out, choose another --data, or remove the cluster with `ledgermq dev purge`; to change "
            "the number of nodes use `ledgermq dev add-node` and `remove-node`"
        )
        refuse_change(f"the cluster in {self.directory}", made, wanted, advice)

    def _wait_ready(
        self, timeout_s: float, *, cleanup: list[DevNode], only_running: bool = False, tell: Tell = silent
    ) -> list[NodeState]:
        shards = self._plan().shards
        try:
            return wait_ready(self.status, shards, timeout_s, self._log_of, only_running=only_running, tell=tell)
        except DevError:
            end_nodes(cleanup)
            raise

    def _log_of(self, node: int) -> tuple[str, str]:
        member = self.node(node)
        return str(member.log), member.log_tail()

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.directory / "lock")

    def _locked_cluster(self) -> AbstractContextManager[None]:
        """Do the same as `_locked` for a cluster that must exist. Raises DevError."""
        self._plan()
        return self._locked()


def _observe(node: DevNode) -> NodeState:
    return observe(node.node, node.address, node.http, node.pid, node.data, node.rocketmq)


def segment_size(shards: int) -> int:
    """Return the size of the segments of a new cluster in bytes."""
    return max(LEAST_SEGMENT_BYTES, DEFAULT_SEGMENT_BYTES // shards >> 20 << 20)
