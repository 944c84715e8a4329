"""Judges what the nodes serve, by the rights that the log says.

    request arrives ──> the node's own code ──> messages are given, or a batch is acknowledged
    [applied index]                             [applied index]

Three statements are checked, for each message that a node gives, each batch that it acknowledges, each transaction that
it ends or asks about, and each change of a lease:

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
from ledger.access.rules import Action, Resource, topic_resource
from ledger.batch import half_target_of, place_of, target_of
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
        # How often a right was judged, by "publish", "subscribe", or "subscribe group".
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
            case "EndTransactions":
                return self._end_transactions(node, handler)
            case "CheckTransactions":
                return self._stream(node, handler, _OverheardChecks)
            case "Share":
                return self._stream(node, handler, _OverheardShare)
            case _:
                return self._of_nodes(node, method, handler)

    def _of_nodes(self, node: StackNode, method: str, handler: Handler) -> Handler:
        """Check that no node is refused as a stranger, unless it was removed from the cluster."""

        async def call(request: Any, context: Context) -> Any:
            try:
                return await handler(request, context)
            except AbortError as refused:
                is_node = context.caller not in self._credentials
                if is_node and refused.code in _NO_RIGHT and not _is_removed(node, context.caller):
                    self._fail("nodes serve nodes", f"node {node.node} refused {method} to node {context.caller}")
                raise

        return call

    def _fetch(self, node: StackNode, handler: Handler) -> Handler:
        async def fetch(request: Any, context: Context) -> broker_pb2.FetchResponse:
            response: broker_pb2.FetchResponse = await handler(request, context)
            given = {queue.topic_id for queue in response.queues if queue.batches}
            now = self._moment(node)
            for topic_id in sorted(given):  # judged at the moment when the messages leave
                self.judge(node, context.caller, "subscribe", topic_id, now, now)
            return response

        return fetch

    def _end_transactions(self, node: StackNode, handler: Handler) -> Handler:
        async def end(request: Any, context: Context) -> Any:
            since = self.arrives(node)
            response = await handler(request, context)
            for asked, result in zip(request.ends, response.results, strict=False):
                if not result.HasField("error"):
                    self.judge(node, context.caller, "publish", asked.topic_id, since, self.arrives(node))
            return response

        return end

    def _stream(self, node: StackNode, handler: Handler, overheard: type[_Overheard]) -> Handler:
        async def stream(requests: Any, context: Context) -> None:
            await handler(requests, overheard(context, self, node))

        return stream

    def _produce(self, node: StackNode, handler: Handler) -> Handler:
        return self._stream(node, handler, _OverheardStream)

    def acknowledged(self, node: StackNode, client: int, batches: Sequence[Any], since: Moment, results: Any) -> None:
        now = self._moment(node)
        for batch, result in zip(batches, results, strict=False):
            if not result.HasField("error"):
                # A message with a delivery time waits in `%TIMED`, and a message of a transaction in `%HALF`. Its
                # sender needs the right on its target, and on its producer group.
                half = half_target_of(batch)
                target = target_of(batch) if half is None else half.target
                self.judge(node, client, "publish", (target or place_of(batch))[0], since, now)
                if half is not None:
                    self.judge_group(node, client, half.group, since, now)

    def _moment(self, node: StackNode) -> Moment:
        replica = node.part(TOPICS_SHARD).replica
        if replica is not None:
            self._applied[node.node] = replica.driver.applied
        return Moment(self._applied.get(node.node, 0), node.now_ms(), self._time_s())

    def arrives(self, node: StackNode) -> Moment:
        return self._moment(node)

    def judge(self, node: StackNode, client: int, action: Action, topic_id: int, first: Moment, last: Moment) -> None:
        """Judge that a node has served a client with a right on a topic, at some moment from `first` to `last`."""
        replica = node.part(TOPICS_SHARD).replica
        topic = replica.state.topics.get(topic_id) if replica is not None else None
        if topic is not None:
            self._judge(node, client, action, topic_resource(topic.name), first, last)

    def judge_group(self, node: StackNode, client: int, group: str, first: Moment, last: Moment) -> None:
        """Judge the right `subscribe` on a consumer group or a producer group."""
        self._judge(node, client, "subscribe", Resource("group", group), first, last)

    def _judge(
        self, node: StackNode, client: int, action: Action, resource: Resource, first: Moment, last: Moment
    ) -> None:
        credentials = self._credentials.get(client)
        if credentials is None:
            return  # another node
        self.judged[f"{action} {resource.kind}" if resource.kind == "group" else action] += 1
        now_ms = min(first.now_ms, last.now_ms)
        # Of a range of entries, the node may have decided by each one. It never goes back, except by a restart.
        known = self._truth.between(min(first.applied, last.applied), last.applied)
        recent = self._truth.since(first.time_s - FRESH_S)
        told = f"node {node.node} served client {client} ({credentials.now.user}): {action} {resource}"
        if not any(v.allows(each, action, resource, now_ms) for v in known for each in credentials.ever):
            self._fail("no right, no service", f"{told}, at entry {last.applied}")
        if not any(v.allows(each, action, resource, now_ms) for v in recent for each in credentials.ever):
            self._fail("old rules count for a limited time", f"{told}, {FRESH_S:.0f} s after the right was revoked")


def _is_removed(node: StackNode, caller: int) -> bool:
    """Return True if no configuration of shard 0 that the node knows has the caller."""
    replica = node.part(TOPICS_SHARD).replica
    known = () if replica is None else (replica.membership.configuration, replica.newest_configuration())
    members = [each.members for each in known if each is not None]
    return bool(members) and not any(caller in each for each in members)


class _Overheard:
    """The context of a stream whose requests and responses are judged."""

    def __init__(self, context: Context, watch: AccessWatch, node: StackNode) -> None:
        self._context = context
        self._watch = watch
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _OverheardStream(_Overheard):
    """The context of a produce stream. Requests are remembered until their response."""

    def __init__(self, context: Context, watch: AccessWatch, node: StackNode) -> None:
        super().__init__(context, watch, node)
        self._unanswered: deque[tuple[Moment, Sequence[Any]]] = deque()

    async def read(self) -> Any:
        request = await self._context.read()
        self._unanswered.append((self._watch.arrives(self._node), list(request.batches)))
        return request

    async def write(self, response: Any) -> None:
        since, batches = self._unanswered.popleft()
        self._watch.acknowledged(self._node, self._context.caller, batches, since, response.results)
        await self._context.write(response)


class _OverheardChecks(_Overheard):
    """The context of a stream of checks. A check waits in the stream while the one before it is being sent."""

    def __init__(self, context: Context, watch: AccessWatch, node: StackNode) -> None:
        super().__init__(context, watch, node)
        self._group = ""
        self._since = watch.arrives(node)

    async def read(self) -> Any:
        request = await self._context.read()
        if request is not grpc.aio.EOF:
            self._group = self._group or request.producer_group
        return request

    async def write(self, check: Any) -> None:
        node, client = self._node, self._context.caller
        since, self._since = self._since, self._watch.arrives(node)
        if not check.HasField("error"):
            self._watch.judge_group(node, client, self._group, since, self._since)
            self._watch.judge(node, client, "publish", check.topic_id, since, self._since)
        await self._context.write(check)


class _OverheardShare(_Overheard):
    """The context of the stream of a member of a shared group. The moments of requests are remembered until their
    answers. Messages are judged at the moment when they leave."""

    def __init__(self, context: Context, watch: AccessWatch, node: StackNode) -> None:
        super().__init__(context, watch, node)
        self._group = ""
        self._arrived: dict[int, Moment] = {}

    async def read(self) -> Any:
        request = await self._context.read()
        if request is not grpc.aio.EOF:
            self._group = self._group or request.opening.consumer_group
            self._arrived[request.number] = self._watch.arrives(self._node)
        return request

    async def write(self, response: Any) -> None:
        node, client, now = self._node, self._context.caller, self._watch.arrives(self._node)
        if any(response.changed):
            self._watch.judge_group(node, client, self._group, self._arrived[response.number], now)
        for topic_id in sorted({batch.topic_id for batch in response.batches}):
            self._watch.judge_group(node, client, self._group, now, now)
            self._watch.judge(node, client, "subscribe", topic_id, now, now)
        await self._context.write(response)
