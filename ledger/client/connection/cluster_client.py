"""The class `ClusterClient`, with which every client connects to nodes, finds the leader of a shard and calls the
leader.

A leader may change at any moment. A call usually names a shard instead of a node, and is repeated until a leader
answers or the deadline passes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import grpc.aio

from ledger.cancellation import cancellations
from ledger.client.checked_arguments import checked_client_id
from ledger.client.checked_numbers import checked_number
from ledger.client.connection.answer_watch import AnswerWatch
from ledger.client.connection.backoff import Backoff
from ledger.client.connection.channels import NodeStub, failure
from ledger.client.connection.cluster_link import LinkKey, own_link
from ledger.client.connection.environment import Environment
from ledger.client.connection.own_process import check_loop, check_process
from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import (
    ClosedError,
    InvalidArgumentError,
    LedgerError,
    NoLeaderError,
    RequestTimeoutError,
    UnknownQueueError,
    UnknownTopicError,
    from_wire,
)
from ledger.topics import TOPICS_SHARD
from ledger.v1 import broker_pb2, error_pb2

MAX_BACKOFF_MS = 1000
# The time limit of one attempt. A suspended process accepts a call and never answers; the next attempt may find a new
# leader.
_ATTEMPT_SECONDS = 5.0
# A call that has waited so long logs a warning that says what it waits for.
_WARN_AFTER_SECONDS = 3.0

log = logging.getLogger("ledgermq.client.calls")


class _Response(Protocol):
    @property
    def error(self) -> error_pb2.Error: ...

    def HasField(self, field_name: str, /) -> bool: ...  # noqa: N802 - protobuf's name


R = TypeVar("R", bound=_Response)

CLOSED = "This client is closed: make a new one."
NOT_STARTED = "This client is not started: call start() first, or use it in a `with` block."


class ClusterClient:
    """Calls the leaders of shards for one client, over the client's connections and routes. A client is started
    once and closed once."""

    def __init__(
        self,
        bootstrap_servers: Sequence[str],
        *,
        client_id: str | None,
        request_timeout_ms: float,
        retry_backoff_ms: float,
        rng: random.Random,
        environment: Environment,
        shares_link: bool = False,
        most_users: int | None = None,
    ) -> None:
        """With `shares_link`, the client shares its connections and routes with other clients of its event loop that
        reach the same cluster in the same way: with at most `most_users` clients that have the same limit."""
        self.request_timeout_ms = checked_number("request_timeout_ms", request_timeout_ms, 1, 86_400_000)
        self.backoff = Backoff(checked_number("retry_backoff_ms", retry_backoff_ms, 1, 60_000), MAX_BACKOFF_MS, rng)
        self.environment = environment
        self.started = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.link_key = LinkKey(
            tuple(bootstrap_servers),
            checked_client_id(client_id),
            environment.channel,
            request_timeout_ms,
            most_users,
        )
        self._shares_link = shares_link
        self.closed = False
        # The calls on a shared connection, which `close` ends. A dict, because a set has no order.
        self._calls: dict[asyncio.Future[Any], None] = {}

    def check_unstarted(self, *, was_stopped: bool = False) -> None:
        """Raise an error if the client runs, or was stopped. A start that failed can be repeated."""
        if self.started:
            raise InvalidArgumentError("This client is started already: call start() once, or use a `with` block.")
        if was_stopped:
            raise ClosedError(CLOSED)

    async def start(self) -> None:
        check_process()
        self._loop = asyncio.get_running_loop()
        make = self.environment.links.shared if self._shares_link else own_link
        self.link = make(self.link_key, Backoff(50, 500, self.backoff.random))
        self.connections, self.routes = self.link.connections, self.link.routes
        try:
            await self.link.join()
        except BaseException:
            self.refuse_calls()
            raise
        self.started = True

    def check_loop(self) -> None:
        """Raise ClosedError if the client was started in another event loop."""
        if self._loop is not None:
            check_loop(self._loop)

    def refuse_calls(self) -> None:
        """Make all later calls raise ClosedError. Calls that have begun continue until `close`."""
        self.started, self.closed = False, True

    async def close(self) -> None:
        self.refuse_calls()
        for call in self._calls:
            call.cancel()
        await self.link.leave()

    def check_open(self) -> None:
        if not self.started:
            raise ClosedError(CLOSED if self.closed else NOT_STARTED)
        self.check_loop()

    def node_address(self, node: int) -> str:
        """Return the address at which this client reaches the node with this number. Raises InvalidArgumentError if
        the cluster has no node with this number."""
        nodes = self.routes.table.nodes
        if node not in nodes:
            raise InvalidArgumentError(f"There is no node {node}: the nodes are {', '.join(map(str, sorted(nodes)))}.")
        return nodes[node]

    async def call(
        self,
        shard: int,
        send: Callable[[NodeStub, float], Awaitable[R]],
        *,
        node: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Call `send(stub, timeout_seconds)` with the stub of the shard's leader, or of `node` if it is given, and
        return the response.

        The call is repeated after each retriable error until `timeout_ms` (None: the client's request timeout) has
        passed; then the last error is raised. An error that is not retriable is raised at once.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + (self.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        failures, warned = 0, False
        while True:
            self.check_open()
            seconds = min(_ATTEMPT_SECONDS, max(deadline - loop.time(), 0.05))
            try:
                if node is None:
                    return await self._ask_leader(shard, send, seconds)
                return await self.ask(self.node_address(node), send, seconds)
            except LedgerError as error:
                failures += 1
                wait = self.backoff.wait_ms(failures) / 1000
                # A node that is not the leader may not have applied the creation of the topic yet.
                behind = node is not None and isinstance(error, (UnknownTopicError, UnknownQueueError))
                if not (error.retriable or behind) or loop.time() + wait >= deadline:
                    raise
                if not warned and loop.time() - began >= _WARN_AFTER_SECONDS:
                    log.warning("%s Trying again for %.0f s more.", error, deadline - loop.time())
                    warned = True
            await asyncio.sleep(wait)

    async def call_feature(self, feature: str, shard: int, send: Callable[[NodeStub, float], Awaitable[R]]) -> R:
        """Call a method of the shard's leader that older versions do not have, as `call` does. `feature` is what the
        method belongs to, in the plural. Raises InvalidArgumentError if the leader is too old."""

        async def told(stub: NodeStub, seconds: float) -> R:
            try:
                return await send(stub, seconds)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                raise InvalidArgumentError(
                    f"A node runs an older version of ledgermq, which has no {feature}: upgrade all nodes."
                ) from error

        return await self.call(shard, told)

    async def _ask_leader(self, shard: int, send: Callable[[NodeStub, float], Awaitable[R]], seconds: float) -> R:
        address = self.routes.table.leader_address(shard)
        if address is None:
            self.routes.refresh_soon()
            raise no_leader(shard)
        try:
            return await self._ask_while_it_leads(shard, address, send, seconds)
        except LedgerError as error:
            self.routes.note(shard, address, error)
            raise

    async def _ask_while_it_leads(
        self, shard: int, address: str, send: Callable[[NodeStub, float], Awaitable[R]], seconds: float
    ) -> R:
        """Do what `ask` does, but give up the call if it has no answer and another node leads the shard."""
        try:
            async with asyncio.timeout(None) as limit:
                loop = asyncio.get_running_loop()
                watch = AnswerWatch(self.routes, shard, address, lambda: limit.reschedule(loop.time()))
                try:
                    return await self.ask(address, send, seconds)
                finally:
                    watch.cancel()
        except RequestTimeoutError:
            raise  # of the request itself
        except TimeoutError:
            silent = f"Node {address} does not answer, and another node leads shard {shard} now."
            raise RequestTimeoutError(silent) from None

    async def ask(self, address: str, send: Callable[[NodeStub, float], Awaitable[R]], seconds: float) -> R:
        """Call `send(stub, seconds)` once, with the stub of the node at this address, and return the response. Raises
        LedgerError."""
        cancelled_before = cancellations()
        try:
            sending = send(self.connections.stub(address), seconds)
            response = await (self._ended_by_close(sending) if self._shares_link else sending)
        except grpc.aio.AioRpcError as error:
            raise failure(address, error, cancelled_before) from error
        except asyncio.CancelledError:
            if not self.closed or cancellations() > cancelled_before:
                raise
            raise ClosedError("This client was closed during the call: make a new client.") from None
        if response.HasField("error"):
            raise self.routes.table.with_names(from_wire(response.error))
        return response

    async def _ended_by_close(self, sending: Awaitable[R]) -> R:
        """Await a call on a shared connection, whose end would not end the call."""
        call = asyncio.ensure_future(sending)
        self._calls[call] = None
        try:
            return await call
        finally:
            del self._calls[call]

    async def topic(self, name: str, *, newest: bool = False) -> RoutedTopic:
        """Return the topic with this name. Raises UnknownTopicError.

        If the route table does not have the topic, ask the leader of shard 0. If `newest` is True, always ask the
        leader, because the topic can have more queues than the route table shows.
        """
        self.check_open()
        known = self.routes.table.topics.get(name)
        if known is not None and not newest:
            return known
        request = broker_pb2.GetRouteRequest(topics=[name], linearizable=True)
        response = await self.call(TOPICS_SHARD, lambda stub, seconds: stub.GetRoute(request, timeout=seconds))
        self.routes.learn(response, request.topics)
        known = self.routes.table.topics.get(name)
        if known is None:
            raise no_topic(name)
        return known

    async def shards(self, timeout_ms: float | None = None) -> list[int]:
        """Ask the leader of shard 0 for the numbers of all shards, and return them in ascending order. A node that is
        not the leader of shard 0 may not know a new shard yet.
        """
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = await self.call(
            TOPICS_SHARD, lambda stub, seconds: stub.GetRoute(request, timeout=seconds), timeout_ms=timeout_ms
        )
        self.routes.learn(response)
        return sorted(route.shard for route in response.shards)


def no_leader(shard: int) -> NoLeaderError:
    return NoLeaderError(f"No node is known to lead shard {shard}. Check that a majority of the nodes runs.")


def no_topic(name: str) -> UnknownTopicError:
    return UnknownTopicError(f'There is no topic "{name}". Create it first, or check the name.')
