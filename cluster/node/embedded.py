"""A node in the process and the event loop of a user's program, for a durable queue without a server.

    Producer, Consumer, ... ──"unix:DATA/local.sock"──> EmbeddedNode ──> DATA

The node is a cluster of one: it keeps its data on one disk only. It serves a Unix socket in its data directory, which
only the user of the process can open, and no port. The program keeps what is its own: signal handlers, logging,
the event loop's kind, garbage collection, limits of the process, variables of the environment.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, ParamSpec, Self

from cluster.node.node import Node, NodeError
from cluster.node.process.vital import Vital
from cluster.node.replica.shard_log import ShardError
from cluster.node.settings import GivenSettings, SettingsError
from ledger.client.sync.loop_thread import LoopThread, started, stopped
from ledger.errors import InvalidArgumentError
from ledger.local_socket import socket_address
from store import StoreError

log = logging.getLogger("ledgermq.node.embedded")

_POLL_S = 0.005
# The node of a cluster of one needs no time in which others could stand for election. The address is the one that
# `ledgermq server run` would use with the same data; nothing listens there.
_SETTINGS: dict[str, object] = {
    "node": 1,
    "cluster": "embedded",
    "peers": {1: "127.0.0.1:9871"},
    "http": "",
    "segment_bytes": 16 << 20,
    "heartbeat_ticks": 1,
    "election_ticks": 2,
}
# Of servers only.
_NOT_EMBEDDED = frozenset(
    {"node", "data", "peers", "listen", "advertised", "http", "join", "outside", "nameservers", "authentication"}
    | {"tls_certificate", "tls_key", "tls_ca", "cluster_secret_file", "rocketmq", "rocketmq_tls"}
)

Arguments = ParamSpec("Arguments")


class EmbeddedNodeError(Exception):
    """`EmbeddedNodeError` says that the node cannot start, or has failed, and what to do."""


class EmbeddedNode:
    """A node in the process of your program, from `start` to `stop`.

        async with EmbeddedNode("data") as node, AsyncProducer(node.bootstrap) as producer:
            ...

        with EmbeddedNode("data") as node, Producer(node.bootstrap) as producer:  # in a program without asyncio
            ...

    With `async with`, the node runs on the event loop of the program, and a program that blocks its event loop blocks
    the node. With `with`, the node runs on an event loop of its own, in a thread. In both cases synchronous clients in
    other threads of the program, and other programs of the same user, may use `bootstrap` too.
    """

    def __init__(
        self,
        data: Path | str,
        *,
        flush: Literal["sync", "async"] = "sync",
        settings: Mapping[str, object] | None = None,
        start_timeout_s: float = 30.0,
    ) -> None:
        """`data` is the data directory; if it is missing, it is made so that only the user can read it. With
        `flush="sync"`, an acknowledged message is on the disk; with "async", the node flushes it within 10 s, and a
        power failure may lose it. `settings` are other settings of node.toml (docs/OPERATING.md), for example
        `{"retention_hours": 0}`; without it, messages are removed after 72 hours."""
        if not isinstance(data, (str, os.PathLike)) or not os.fspath(data):
            raise InvalidArgumentError(f"data is {data!r}: it must be the path of the node's data directory.")
        self._data = Path(data).absolute()
        self._given = dict(settings or {})
        self._flush = flush
        self._timeout_s = start_timeout_s
        self._node: Node | None = None
        self._vital: _EmbeddedVital | None = None
        self._watch: asyncio.Task[None] | None = None
        # Stops the node. The first call of stop() makes it; the others wait for it.
        self._ending: asyncio.Task[None] | None = None
        self._thread: LoopThread | None = None  # of a `with` block

    @property
    def bootstrap(self) -> str:
        """The address of the node, for `bootstrap_servers` of the clients."""
        return socket_address(self._data)

    async def start(self) -> None:
        """Start the node in the running event loop. Return when clients can use it.

        Raises EmbeddedNodeError, for example if another process uses the data directory. After an error, nothing
        runs."""
        if self._node is not None:
            raise EmbeddedNodeError(f"the node with the data {self._data} runs already")
        vital = _EmbeddedVital()
        try:
            self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._node = Node(self._settings(), embedded=vital)
        except (OSError, NodeError, SettingsError, ShardError, StoreError) as error:
            raise EmbeddedNodeError(str(error)) from error
        self._vital = vital
        try:
            await self._node.start()
            async with asyncio.timeout(self._timeout_s):
                await self._ready(self._node, vital)
        except BaseException as error:
            reason = self._node.not_ready()
            await self.stop()
            if isinstance(error, TimeoutError):
                raise EmbeddedNodeError(f"not ready after {self._timeout_s:g} s: {reason}") from error
            if isinstance(error, NodeError):
                raise EmbeddedNodeError(str(error)) from error
            raise
        self._watch = asyncio.create_task(self._abandon_if_broken(self._node, vital), name="embedded node")

    async def stop(self) -> None:
        """Flush all data to the disk, and stop the node. Clients should be closed before. The call may be repeated."""
        node, self._node = self._node, None
        if node is not None and self._vital is not None:
            self._ending = asyncio.create_task(self._end(node, self._vital), name="end of an embedded node")
        if self._ending is not None:
            await asyncio.shield(self._ending)  # a caller that gives up does not leave half of it open

    async def _end(self, node: Node, vital: _EmbeddedVital) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        await (node.stop() if vital.failure is None else node.abandon())

    @property
    def failure(self) -> BaseException | None:
        """Why the node has failed, or None. `wait_failed` says what that means."""
        return None if self._vital is None else self._vital.failure

    async def wait_failed(self) -> BaseException:
        """Wait until the node fails, and return why. A node fails if it finds a broken invariant in its memory. From
        then on it answers nobody and writes nothing. End the process: the next start recovers the data, as after a
        kill."""
        if self._vital is None:
            raise EmbeddedNodeError("the node has not been started")
        await self._vital.failed.wait()
        assert self._vital.failure is not None
        return self._vital.failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        if self._node is not None:
            raise EmbeddedNodeError(f"the node with the data {self._data} runs already")
        self._thread = started(self, "ledgermq-embedded-node")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            stopped(self.stop(), thread)

    def _settings(self) -> GivenSettings:
        if wrong := sorted(_NOT_EMBEDDED & set(self._given)):
            raise SettingsError(f"`{wrong[0]}` is a setting of servers: an embedded node has no ports and no peers")
        given = {**_SETTINGS, "data": self._data, "flush": self._flush, **self._given}
        return GivenSettings.of(**given)

    @staticmethod
    async def _ready(node: Node, vital: _EmbeddedVital) -> None:
        while node.not_ready():
            if vital.failure is not None:
                raise EmbeddedNodeError(f"the node has failed: {vital.failure!r}") from vital.failure
            await asyncio.sleep(_POLL_S)

    @staticmethod
    async def _abandon_if_broken(node: Node, vital: _EmbeddedVital) -> None:
        await vital.failed.wait()
        await node.abandon()


class _EmbeddedVital(Vital):
    """Ends the node, and not the process, when an invariant is broken: no callback and no task of the node runs any
    more. A server process would end at this point."""

    def __init__(self) -> None:
        super().__init__(self._fail)
        self.failure: BaseException | None = None
        self.failed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def event(self, work: Callable[Arguments, None]) -> Callable[Arguments, None]:
        guarded = super().event(work)

        def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
            if self.failure is None:
                guarded(*arguments, **named)

        return run

    def spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = super().spawn(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _fail(self, failure: BaseException) -> None:
        if self.failure is None:
            self.failure = failure
            self.failed.set()
            for task in self._tasks:
                task.cancel()
            log.critical("the embedded node has failed: end this process, and the next start recovers the data")
