"""The native clients of the console: one admin client for each login, and short-lived clients for messages.

A client proves itself with the delegated token of its login, so every node checks the rights of the user. At most
`MAX_CLIENTS` admin clients are open; beyond, the one that was used least recently is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from cluster.console.reading import TopicReader
from cluster.console.topic_groups import TopicGroups, groups_of
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.channels import NodeStub, SecuredChannels
from ledger.client.connection.cluster_client import R
from ledger.client.connection.environment import PROCESS, Environment
from ledger.client.connection.lifetime import within
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.connection.security import Security
from ledger.client.producer.cancelling import cancel_waiting

MAX_CLIENTS = 32
# A client that was not used for this time is closed.
IDLE_S = 300.0
REQUEST_TIMEOUT_MS = 10_000
# A login lasts this long.
LOGIN_MS = 8 * 3_600_000


class ConsoleAdmin(AsyncAdmin):
    """An admin client that also reads what single nodes tell (proto/ledger/v1/inspection.proto)."""

    @property
    def rooms(self) -> Mapping[int, str]:
        """The machine rooms of the nodes, as far as they have told them."""
        return self._client.routes.table.rooms

    def stub(self, address: str) -> NodeStub:
        """Return the calls of the node at this address. Raises LedgerError if the client is closed."""
        self._client.check_open()
        return self._client.connections.stub(address)

    async def ask(self, address: str, send: Callable[[NodeStub, float], Awaitable[R]], seconds: float) -> R:
        """Call a method of the node at this address, and return the response. Raises LedgerError."""
        self._client.check_open()
        return await self._client.ask(address, send, seconds)

    def topic_name(self, topic_id: int) -> str:
        """Return the name of a topic, or "" if it is not known."""
        topics = self._client.routes.table.topics.values()
        return next((topic.name for topic in topics if topic.topic_id == topic_id), "")

    @property
    def reader(self) -> TopicReader:
        """Reads messages without a consumer group."""
        return TopicReader(self._client)

    async def groups_of(self, topic: RoutedTopic) -> TopicGroups:
        """Return the consumer groups that read the topic. Raises LedgerError."""
        return await groups_of(self._client, topic)

    async def cancel_waiting(self, handle: str) -> bool:
        """Cancel a message that waits for its delivery time. Return False if it does not wait. Raises LedgerError."""
        return (await cancel_waiting(self._client, [handle]))[0]


class ConsoleClients:
    """Opens the clients of one node's console."""

    def __init__(self, addresses: Callable[[], Sequence[str]], security: Security) -> None:
        """`addresses()` returns where this node and the other nodes serve clients. `security` says how a client reaches
        them; the token or the password of each login comes to it."""
        self._addresses = addresses
        self._security = security
        # The most recently used last.
        self._admins: OrderedDict[str, tuple[float, ConsoleAdmin]] = OrderedDict()
        self._opening = asyncio.Lock()

    @property
    def servers(self) -> Sequence[str]:
        return self._addresses()

    async def login(self, user: str, password: str) -> str:
        """Return a new delegated token with all rights of the user. Raises LedgerError, for example if the password is
        wrong."""
        security = replace(self._security, user=user, password=password)
        admin = within(environment(security), AsyncAdmin)(self.servers, request_timeout_ms=REQUEST_TIMEOUT_MS)
        async with admin:
            return (await admin.delegate_token([("all", "*")], LOGIN_MS)).token

    async def admin(self, token: str) -> ConsoleAdmin:
        """Return the started admin client of a login; without authentication, `token` is "". Raises LedgerError."""
        if token in self._admins:  # does not wait while the client of another login starts
            return self._used(token, self._admins.pop(token)[1])
        async with self._opening:
            await self._close_idle()
            if token in self._admins:
                admin = self._admins.pop(token)[1]
            else:
                client = within(self.environment(token), ConsoleAdmin)
                admin = client(self.servers, request_timeout_ms=REQUEST_TIMEOUT_MS)
                await admin.start()
            return self._used(token, admin)

    def environment(self, token: str) -> Environment:
        """Return the environment of further clients of a login, such as producers."""
        return environment(replace(self._security, token=token))

    async def forget(self, token: str) -> None:
        """Close the client of a login that ends."""
        if token in self._admins:
            await self._admins.pop(token)[1].stop()

    async def close(self) -> None:
        for token in list(self._admins):
            await self.forget(token)

    def _used(self, token: str, admin: ConsoleAdmin) -> ConsoleAdmin:
        self._admins[token] = (time.monotonic(), admin)
        return admin

    async def _close_idle(self) -> None:
        now_s = time.monotonic()
        for token, (used_s, _) in list(self._admins.items()):
            if now_s - used_s > IDLE_S or len(self._admins) >= MAX_CLIENTS:
                await self.forget(token)


def environment(security: Security) -> Environment:
    return replace(PROCESS, channel=SecuredChannels(security))
