"""Judges what the nodes serve, by the rights that the log says.

    request arrives ──> the node's own code ──> messages are given, or a batch is acknowledged
    [applied index]                             [applied index]

Three statements are checked, for each message that a node gives and each batch that it acknowledges:

    right    by the rules of an entry that the node had applied in between, the caller had the right
    fresh    at some moment of the last `FRESH_S` seconds, the caller had the right in the cluster
    expiry   a delegated token had not expired by the node's clock (a part of the first two)

The world knows who a caller is, because it gave the client its credentials. It reads the applied index from Raft, and
computes the rules from the log. So no word of the code that decides about rights is believed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc

from chaos.sim.access.access_truth import AccessTruth, Fail
from chaos.sim.access.credentials import SimCredentials
from chaos.sim.engine.rpc_server import AbortError, Context, Handler
from chaos.sim.stack.node import StackNode
from ledger.access.rules import Action, topic_resource
from ledger.batch import place_of, target_of
from ledger.broker.access.authorizer import STALE_S
from ledger.topics import TOPICS_SHARD
from ledger.v1 import broker_pb2

_NO_RIGHT = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
# The slowest clock of a node in a simulation.
SLOWEST = 0.7
# A leader without a majority stops within two election timeouts; the longest pause of a process comes on top.
LATE_S = 19.0
# A right that a client has not had for this time is not served by any node.
FRESH_S = STALE_S / SLOWEST + LATE_S


class Moment(NamedTuple):
    """The entry of shard 0 that a node has applied, and what its clock shows."""

    applied: int
    now_ms: int
    time_s: float


class AccessWatch:
    """Watches the calls of all clients at all nodes. `credentials` are those of each client, by its number."""

    def __init__(
        self, truth: AccessTruth, credentials: Mapping[int, SimCredentials], fail: Fail, time_s: Callable[[], float]
    ) -> None:
        # How often a right was judged, by "publish" or "subscribe".
        self.judged: Counter[str] = Counter()
        self._truth = truth
        self._credentials = credentials
        self._fail = fail
        self._time_s = time_s
        # Node -> the last applied index that was seen.
        self._applied: dict[int, int] = {}

    def watched(self, node: StackNode, method: str, handler: Handler) -> Handler:
        """Return the handler of a node's method, behind the checks."""
        match method:
            case "Fetch":
                return self._fetch(node, handler)
            case "Produce":
                return self._produce(node, handler)
            case _:
                return self._of_nodes(node, method, handler)

    def _of_nodes(self, node: StackNode, method: str, handler: Handler) -> Handler:
        """Check that no node is refused as a stranger."""

        async def call(request: Any, context: Context) -> Any:
            try:
                return await handler(request, context)
            except AbortError as refused:
                if context.caller not in self._credentials and refused.code in _NO_RIGHT:
                    self._fail("nodes serve nodes", f"node {node.node} refused {method} to node {context.caller}")
                raise

        return call

    def _fetch(self, node: StackNode, handler: Handler) -> Handler:
        async def fetch(request: Any, context: Context) -> broker_pb2.FetchResponse:
            response: broker_pb2.FetchResponse = await handler(request, context)
            given = {queue.topic_id for queue in response.queues if queue.batches}
            now = self._moment(node)
            for topic_id in sorted(given):  # judged at the moment when the messages leave
                self._judge(node, context.caller, "subscribe", topic_id, now, now)
            return response

        return fetch

    def _produce(self, node: StackNode, handler: Handler) -> Handler:
        async def produce(requests: Any, context: Context) -> None:
            await handler(requests, _OverheardStream(context, self, node))

        return produce

    def acknowledged(self, node: StackNode, client: int, batches: Sequence[Any], since: Moment, results: Any) -> None:
        now = self._moment(node)
        for batch, result in zip(batches, results, strict=False):
            if not result.HasField("error"):
                # A message with a delivery time waits in `%TIMED`, and its sender needs the right on its target.
                topic_id = (target_of(batch) or place_of(batch))[0]
                self._judge(node, client, "publish", topic_id, since, now)

    def _moment(self, node: StackNode) -> Moment:
        replica = node.part(TOPICS_SHARD).replica
        if replica is not None:
            self._applied[node.node] = replica.driver.applied
        return Moment(self._applied.get(node.node, 0), node.now_ms(), self._time_s())

    def arrives(self, node: StackNode) -> Moment:
        return self._moment(node)

    def _judge(self, node: StackNode, client: int, action: Action, topic_id: int, first: Moment, last: Moment) -> None:
        credentials = self._credentials.get(client)
        if credentials is None:
            return  # another node
        replica = node.part(TOPICS_SHARD).replica
        topic = replica.state.topics.get(topic_id) if replica is not None else None
        if topic is None:
            return
        self.judged[action] += 1
        resource, now_ms = topic_resource(topic.name), min(first.now_ms, last.now_ms)
        # Of a range of entries, the node may have decided by each one. It never goes back, except by a restart.
        known = self._truth.between(min(first.applied, last.applied), last.applied)
        recent = self._truth.since(first.time_s - FRESH_S)
        told = f"node {node.node} served client {client} ({credentials.now.user}): {action} {resource}"
        if not any(v.allows(each, action, resource, now_ms) for v in known for each in credentials.ever):
            self._fail("no right, no service", f"{told}, at entry {last.applied}")
        if not any(v.allows(each, action, resource, now_ms) for v in recent for each in credentials.ever):
            self._fail("old rules count for a limited time", f"{told}, {FRESH_S:.0f} s after the right was revoked")


class _OverheardStream:
    """The context of a produce stream. Requests are remembered until their response."""

    def __init__(self, context: Context, watch: AccessWatch, node: StackNode) -> None:
        self._context = context
        self._watch = watch
        self._node = node
        self._unanswered: deque[tuple[Moment, Sequence[Any]]] = deque()

    async def read(self) -> Any:
        request = await self._context.read()
        self._unanswered.append((self._watch.arrives(self._node), list(request.batches)))
        return request

    async def write(self, response: Any) -> None:
        since, batches = self._unanswered.popleft()
        self._watch.acknowledged(self._node, self._context.caller, batches, since, response.results)
        await self._context.write(response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
