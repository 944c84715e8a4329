"""Observes the cluster and sends an operator's requests to it, through the clients' own `Admin`.

A cluster under faults may answer late or not at all. Late or missing answers do not make the run fail: each query can
return a value that means "unknown". Each request is repeated until it succeeds or its time is over.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.request import Request, urlopen

from chaos.errors import ChaosError
from chaos.live.hosts.environment import NodeEnvironment
from chaos.live.hosts.node_security import NodeSecurity
from ledger.client.admin.waiting_messages import MAX_WAITING
from ledger.client.placement_records import Placement
from ledger.client.records import NodeStatus
from ledger.client.sync.admin import Admin
from ledger.errors import LedgerError
from ledger.timed import MAX_DELIVERY_MS, moment

_AGAIN_S = 0.2
_CHANGE_S = 60.0
_TRANSFER_MS = 3_000
_MAX_ATTEMPTS = 1_000
# The values of the metric of messages that are leased.
_LEASED = re.compile(r"^ledgermq_shared_leased_messages\{[^}]*\} (\S+)$", re.MULTILINE)
# The values of the metrics of transactions that have not come to their end.
_HALVES = re.compile(r"^ledgermq_transaction_(?:half_batches|commits_under_way)\{[^}]*\} (\S+)$", re.MULTILINE)

T = TypeVar("T")


class ClusterOperator:
    """Implements `chaos.live.faults.fault.ClusterControl`. The operator connects to the cluster at the first
    request."""

    def __init__(self, environment: NodeEnvironment) -> None:
        self._environment = environment
        self._admin: Admin | None = None

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def statuses(self) -> list[NodeStatus]:
        """Return the status of all nodes; an empty list if no node answers."""
        try:
            return self._connected().cluster()
        except LedgerError:
            return []

    def leader(self) -> int:
        leaders = [
            (shard.term, status.node)
            for status in self.statuses()
            for shard in status.shards
            if shard.shard == 0 and shard.role == "leader"
        ]
        return max(leaders, default=(0, 0))[1]

    def transfer(self, node: int) -> bool:
        try:
            self._connected().transfer_leadership(node, timeout_ms=_TRANSFER_MS)
        except LedgerError:
            return False
        return True

    def begin_transfer(self, node: int) -> bool:
        try:
            self._connected().transfer_leadership(node, wait=False, timeout_ms=_TRANSFER_MS)
        except LedgerError:
            return False
        return True

    def add(self, node: int, address: str, shard: int | None = None) -> None:
        self._insist(f"adding node {node}", lambda admin: admin.add_node(node, address, shard=shard, promote=True))

    def remove(self, node: int) -> None:
        self._insist(f"removing node {node}", lambda admin: admin.remove_node(node, force=True))

    def placement(self) -> Placement:
        return self._insist("reading the placement of replicas", lambda admin: admin.placement())

    def drain(self, node: int) -> None:
        self._insist(f"draining node {node}", lambda admin: admin.drain_node(node, wait=False))

    def stop_draining(self, node: int) -> None:
        self._insist(f"ending the drain of node {node}", lambda admin: admin.stop_draining(node))

    def rebalance(self) -> None:
        self._insist("balancing the replicas", lambda admin: admin.rebalance())

    def set_replicas(self, replicas: int) -> None:
        self._insist(f"setting {replicas} replicas", lambda admin: admin.set_replicas(replicas))

    def holders(self, topics: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return, for each queue of each topic, the nodes that have a replica of its shard."""

        def ask(admin: Admin) -> dict[str, tuple[tuple[int, ...], ...]]:
            by_shard = {
                shard: tuple(sorted(member.node for member in admin.members(shard=shard).members))
                for shard in admin.shards()
            }
            return {topic: tuple(by_shard[s] for s in admin.describe_topic(topic).shards) for topic in topics}

        return self._insist("reading the members of all shards", ask)

    def create_topic(self, name: str, queues: int) -> None:
        """Create a topic of the run. An attempt whose answer is late may have created the topic, so a topic that exists
        already is no failure. Raises ChaosError if the topic has another number of queues."""
        topic = self._insist(f"creating topic {name}", lambda admin: admin.create_topic(name, queues, exist_ok=True))
        if topic.queues != queues:
            raise ChaosError(f"topic {name} has {topic.queues} queues and not {queues}: another program has created it")

    def waiting(self, before_ms: int) -> int:
        try:
            return self._waiting(before_ms)
        except LedgerError:
            return 0

    def all_delivered(self, within_s: float) -> None:
        """Wait until no message waits for its delivery time. Raises ChaosError if this takes longer than `within_s`."""

        def none_waits() -> bool:
            try:
                return self._waiting(MAX_DELIVERY_MS) == 0
            except LedgerError:
                return False

        self._until(none_waits, within_s, "not all messages with delivery times were delivered")

    def create_shared_group(self, name: str, order: str | None) -> None:
        """Create a shared group whose messages do not become dead letters in a run."""
        self._insist(
            f"creating shared group {name}",
            lambda admin: admin.create_consumer_group(name, order=order, max_attempts=_MAX_ATTEMPTS),
        )

    def half_batches(self) -> int:
        return next(filter(None, self._metrics(_HALVES)), 0)  # each node knows them, so the first answer is enough

    def leased_messages(self) -> int:
        return sum(self._metrics(_LEASED))

    def all_ended(self, within_s: float) -> None:
        """Wait until no transaction waits for its end, and all commits are carried out. Raises ChaosError if this takes
        longer than `within_s`."""

        def none_waits() -> bool:
            counts = list(self._metrics(_HALVES))
            running = sum(self._environment.pid(node) is not None for node in self._environment.nodes)
            return len(counts) == running and not any(counts)

        self._until(none_waits, within_s, "not all transactions ended")

    def _metrics(self, lines: re.Pattern[str]) -> Iterator[int]:
        """Yield for each node that answers the sum of these metrics."""
        for node in self._environment.nodes:
            try:
                with self._opened(f"{self._environment.http(node)}/metrics") as answer:
                    count = sum(int(float(each)) for each in lines.findall(answer.read().decode()))
            except (OSError, ValueError):
                continue
            yield count

    def _waiting(self, before_ms: int) -> int:
        return len(self._connected().waiting_messages(end=moment(before_ms), limit=MAX_WAITING))

    def wall_clock_ms(self, node: int) -> int | None:
        """Return the time that the node's HTTP port puts into its `Date` header, in ms; None if the node does not
        answer.
        """
        try:
            with self._opened(f"{self._environment.http(node)}/healthz") as answer:
                return int(parsedate_to_datetime(answer.headers["Date"]).timestamp() * 1000)
        except OSError:
            return None

    def _opened(self, place: str) -> Any:
        if not self._environment.setup.secure:
            return urlopen(f"http://{place}", timeout=1)
        security = NodeSecurity(self._environment.setup.directory)
        request = Request(f"https://{place}", headers={"Authorization": security.authorization()})
        return urlopen(request, timeout=1, context=ssl.create_default_context(cafile=str(security.ca)))

    def ready(self, within_s: float) -> None:
        """Wait until the cluster has a leader. Raises ChaosError if the election takes longer than `within_s`."""
        self._until(lambda: self.leader() != 0, within_s, "the cluster has no leader")

    def caught_up(self, within_s: float) -> None:
        commits: dict[int, int] = {}
        self._until(lambda: self._all_have(commits), within_s, "the nodes did not reach the same log")

    def _all_have(self, commits: dict[int, int]) -> bool:
        """Return whether every running node has applied, in each shard, all entries that were committed at the first
        call. `commits` keeps the commit indexes of the first call.
        """
        running = [node for node in self._environment.nodes if self._environment.pid(node) is not None]
        statuses = {status.node: status for status in self.statuses() if status.reachable}
        if any(node not in statuses for node in running):
            return False
        shards = [shard for node in running for shard in statuses[node].shards]
        if not commits:
            if not any(shard.role == "leader" for shard in shards):
                return False
            for shard in shards:
                commits[shard.shard] = max(commits.get(shard.shard, 0), shard.commit)
        return all(shard.applied >= commits.get(shard.shard, 0) and not shard.suspect for shard in shards)

    def _insist(self, what: str, ask: Callable[[Admin], T]) -> T:
        deadline, trouble = time.monotonic() + _CHANGE_S, ""
        while time.monotonic() < deadline:
            try:
                return ask(self._connected())
            except LedgerError as error:
                trouble = str(error)
                time.sleep(_AGAIN_S)
        raise ChaosError(f"{what} did not succeed within {_CHANGE_S:.0f} s: {trouble}")

    @staticmethod
    def _until(holds: Callable[[], bool], within_s: float, otherwise: str) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline:
                raise ChaosError(f"{otherwise} within {within_s:.0f} s")
            time.sleep(_AGAIN_S)

    def _connected(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._addresses(), request_timeout_ms=3_000)
        return self._admin

    def _addresses(self) -> list[str]:
        return [self._environment.address(node) for node in self._environment.nodes]
