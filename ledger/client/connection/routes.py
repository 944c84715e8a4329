"""Keeps the route table of a client up to date.

The client asks all known nodes for routes at the same time, so it is enough if one node knows the new leader. The
client asks for routes every 30 s, and whenever the answer of a node shows that a route may be wrong. `RefreshPace`
bounds how often this happens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc.aio

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.channels import Connections, failure, meaning_of, waiting_helps
from ledger.client.connection.refresh_pace import RefreshPace
from ledger.client.connection.route_table import KnownLeader, RocketmqEndpoint, RoutedTopic, RouteTable, Said
from ledger.errors import (
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    ThrottledError,
    UnavailableError,
    UnknownTopicError,
)
from ledger.local_socket import is_socket
from ledger.topics import TOPIC_TYPES, TopicType
from ledger.v1 import broker_pb2

_REFRESH_SECONDS = 30.0
_ANSWER_SECONDS = 2.0
# How long a new client asks again when no node answers.
_START_SECONDS = 5.0
# A name server names nodes, and these nodes are asked once more.
_ROUNDS = 2
# How long a new client waits for the other nodes after the first answers.
_OTHERS_SECONDS = 0.1

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why a node gave no routes. `may_pass` is True if the node may give them a moment later. `refusal` is the error of
    a node that refuses this client."""

    said: str
    may_pass: bool
    refusal: LedgerError | None = None


class Routes:
    """The route table, and a task that keeps it up to date.

    Callbacks in `on_leader_change` receive the shards whose leader has changed. Callbacks in `on_topic_change` receive
    the name of a topic that was created, got more queues, was deleted, or was deleted and created again.
    """

    def __init__(self, connections: Connections, bootstrap: tuple[str, ...], backoff: Backoff) -> None:
        self.table = RouteTable(bootstrap)
        self.on_leader_change: list[Callable[[set[int]], None]] = []
        self.on_topic_change: list[Callable[[str], None]] = []
        self._connections = connections
        self._backoff = backoff
        self._wanted = asyncio.Event()
        # In the order of their start. A dict, because a set has no order.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def start(self, within_s: float = _START_SECONDS) -> None:
        """Ask all nodes for routes now, and start the task that asks all nodes for routes regularly.

        If no node answers, the client asks again for up to `within_s` seconds and at most 5 s, because a busy node is
        slow to accept a connection, and a node that has just started refuses clients for a moment. Then it raises
        UnavailableError. It raises the error at once if waiting does not help: no program listens at any address, or
        the addresses are wrong.

        A node that has just started may answer first, and report a topic that was deleted while the node was down. For
        this reason, a new client waits up to 0.1 s for the answers of the other nodes, and uses the newest answer
        about each topic.
        """
        loop = asyncio.get_running_loop()
        deadline, failures = loop.time() + min(within_s, _START_SECONDS), 0
        while troubles := await self._ask_nodes():
            failures += 1
            wait_s = self._backoff.wait_ms(failures) / 1000
            if not any(trouble.may_pass for trouble in troubles) or loop.time() + wait_s >= deadline:
                raise _error_of(troubles)
            await asyncio.sleep(wait_s)
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_OTHERS_SECONDS)
        self._spawn(self._keep())

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refresh_soon(self) -> None:
        self._wanted.set()

    async def refresh(self) -> None:
        """Ask all nodes for routes. Return when every shard has a known leader, or when all nodes have answered or
        failed.

        Raises UnavailableError if no node answers, and AuthenticationError if nodes refuse this client.
        """
        if troubles := await self._ask_nodes():
            raise _error_of(troubles)

    async def refresh_all(self) -> None:
        """Ask all nodes for routes, and wait until each node has answered or failed. Each node reports its own
        machine room."""
        asked = (self._spawn(self._ask(address)) for address in self.table.addresses())
        await asyncio.gather(*asked, return_exceptions=True)

    def heard_of(self, configuration: int) -> None:
        """Ask for routes soon if `configuration`, the index that a node reported, is newer than the configuration
        of the route table."""
        if configuration > self.table.configuration:
            self.refresh_soon()

    def note(self, shard: int, address: str, error: LedgerError) -> None:
        """Update the routes after a request for the leader of `shard` failed with `error` at the node at `address`."""
        leader, elsewhere = error.leader, error.leader_address
        elsewhere = self.table.reached(leader, elsewhere) if leader and elsewhere else None
        if isinstance(error, NotLeaderError) and leader and elsewhere and elsewhere != address:
            self._changed({shard} if self.table.hint(shard, leader, elsewhere) else set())
            return
        if isinstance(error, (NotLeaderError, NoLeaderError, UnavailableError)):
            self.table.doubt(shard, address)
        about_routes = error.retriable and not isinstance(error, ThrottledError)
        if about_routes or isinstance(error, UnknownTopicError):
            self.refresh_soon()

    def learn(self, response: broker_pb2.GetRouteResponse, asked: Collection[str] = (), address: str = "") -> None:
        """Update the table from a node's answer, and call the callbacks for its changes.

        `asked` has the names of the topics that the answer is about; if `asked` is empty, the answer is about all
        topics. `address` is the address of the node that answered, if it is known.
        """
        news = self.table.learn(_said(response, asked, address))
        self._changed(news.led)
        for name in news.topics:
            for callback in list(self.on_topic_change):
                callback(name)

    async def _ask_nodes(self) -> list[_Trouble]:
        """Ask all nodes for routes, and update the table from their answers. If no node answers, return what went wrong
        at each node. Otherwise return an empty list."""
        troubles: list[_Trouble] = []
        addresses = self.table.addresses()
        asked = list(addresses)
        for _ in range(_ROUNDS):
            for one in asyncio.as_completed([self._spawn(self._ask(address)) for address in addresses]):
                if trouble := await one:
                    troubles.append(trouble)
                elif not self.table.in_doubt:
                    return []
            # If only name servers have answered, ask the nodes that they named.
            addresses = tuple(address for address in self.table.addresses() if address not in asked)
            if len(troubles) < len(asked) or not addresses:
                break
            asked += addresses
        return troubles if len(troubles) == len(asked) else []

    async def _ask(self, address: str) -> _Trouble | None:
        """Ask one node for routes, and update the table from its answer. Return what went wrong, or None if the node
        answered.

        The trouble is no exception, because a caller that has its routes already no longer waits for this node."""
        try:
            response = await self._connections.stub(address).GetRoute(
                broker_pb2.GetRouteRequest(), timeout=_ANSWER_SECONDS
            )
        except LedgerError as error:  # the node refused the proof of this client
            return _Trouble(str(error), may_pass=isinstance(error, UnavailableError), refusal=error)
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
                refusal = failure(address, error)
                return _Trouble(str(refusal), may_pass=False, refusal=refusal)
            return _Trouble(f"{address} ({_reason(error)})", may_pass=waiting_helps(error.details()))
        self.learn(response, address=address)  # a node that is still starting reports at least the nodes
        if response.nodes_only:
            return _Trouble(f"{address} (a name server, which does not tell topics)", may_pass=False)
        return None

    async def _keep(self) -> None:
        loop, pace = asyncio.get_running_loop(), RefreshPace(self._backoff)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()
            pace.begin(loop.time())
            with contextlib.suppress(LedgerError):  # calls that need a route raise an error at their own timeout
                await self.refresh()
            if self.table.in_doubt:
                self.refresh_soon()
            wait_ms = pace.wait_ms(loop.time(), self.table.terms, in_doubt=self.table.in_doubt)
            await asyncio.sleep(wait_ms / 1000)

    def _changed(self, shards: set[int]) -> None:
        if shards:
            for callback in list(self.on_leader_change):
                callback(shards)

    def _spawn(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task


def _reason(error: grpc.aio.AioRpcError) -> str:
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer within {_ANSWER_SECONDS:g} s"
    return meaning_of(error.details() or error.code().name)


def _error_of(troubles: list[_Trouble]) -> LedgerError:
    """Return the error for a client that no node gave routes: the last refusal if a node refused the client."""
    if refusals := [trouble.refusal for trouble in troubles if trouble.refusal is not None]:
        return refusals[-1]
    return UnavailableError(
        f"None of the nodes answers: {'; '.join(sorted(trouble.said for trouble in troubles))}. "
        "Check that the cluster runs and that the addresses are right."
    )


def _said(response: broker_pb2.GetRouteResponse, asked: Collection[str], address: str) -> Said:
    return Said(
        cluster=response.cluster,
        nodes={node.node: node.address for node in response.nodes},
        leaders={shard.shard: KnownLeader(shard.leader, shard.term) for shard in response.shards},
        topics=[topic_of(topic) for topic in response.topics],
        max_message_bytes=response.max_message_bytes,
        coordinators=response.coordinators,
        rooms={node.node: node.room for node in response.nodes if node.HasField("room")},
        configuration=response.configuration_index,
        topics_index=response.topics_index,
        asked=asked,
        outside={node.node: node.outside_address for node in response.nodes if node.outside_address},
        local={response.node: address} if response.node and is_socket(address) else {},
        rocketmq={
            node.node: RocketmqEndpoint(node.rocketmq_address, node.rocketmq_tls_address, node.rocketmq_outside_host)
            for node in response.nodes
            if node.rocketmq_address or node.rocketmq_tls_address
        },
    )


def topic_of(route: broker_pb2.TopicRoute) -> RoutedTopic:
    """A type of a later version gets a word with its number."""
    word = TopicType(route.type).word if int(route.type) in TOPIC_TYPES.values() else f"type {route.type}"
    return RoutedTopic(route.name, route.topic_id, tuple(route.shards), route.created_ms, word)
