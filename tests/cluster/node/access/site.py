"""One node with authentication, and callers that speak to it without the client of ledgermq."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from grpc import aio

from ledger.access.password import make_verifier
from ledger.client.connection.channels import NodeStub
from ledger.errors import LedgerError, from_wire
from ledger.v1 import broker_pb2, security_pb2, security_pb2_grpc
from tests.cluster.fleet import Fleet
from tests.cluster.scram_client import Metadata, prove

PASSWORD = "correct horse battery"
# Otherwise gRPC shares one connection between the channels of a process.
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


class Client:
    """One user on one connection to a node."""

    def __init__(self, channel: aio.Channel, metadata: Metadata) -> None:
        self.channel = channel
        self.metadata = metadata
        self.node = NodeStub(channel)
        self.security = security_pb2_grpc.SecurityStub(channel)

    async def call(self, method: Any, request: Any) -> Any:
        response = await method(request, metadata=self.metadata, timeout=10)
        if response.HasField("error"):
            raise from_wire(response.error)
        return response

    async def add_user(self, name: str, *rules: str) -> None:
        """Each rule is "action resource" or "deny action resource"."""
        verifier = make_verifier(PASSWORD)
        await self.call(
            self.security.AddUser,
            security_pb2.AddUserRequest(
                name=name,
                verifier=security_pb2.ScramVerifier(
                    salt=verifier.salt,
                    iterations=verifier.iterations,
                    stored_key=verifier.stored_key,
                    server_key=verifier.server_key,
                ),
            ),
        )
        if rules:
            await self.call(
                self.security.GrantRules, security_pb2.GrantRulesRequest(rules=[rule(name, each) for each in rules])
            )

    async def revoke(self, name: str, *rules: str) -> None:
        request = security_pb2.RevokeRulesRequest(rules=[rule(name, each) for each in rules])
        await self.call(self.security.RevokeRules, request)

    async def create_topic(self, name: str) -> int:
        response = await self.call(self.node.CreateTopic, broker_pb2.CreateTopicRequest(name=name, queues=1))
        return int(response.topic.topic_id)

    async def produce(self, *batches: bytes) -> list[LedgerError | None]:
        stream = self.node.Produce(metadata=self.metadata, timeout=10)
        await stream.write(broker_pb2.ProduceRequest(batches=batches))
        answer = await stream.read()
        await stream.done_writing()
        return [from_wire(each.error) if each.HasField("error") else None for each in answer.results]

    async def fetch(self, *topic_ids: int) -> dict[int, LedgerError | int]:
        request = broker_pb2.FetchRequest(
            queues=[broker_pb2.QueueFetch(topic_id=each) for each in topic_ids], max_bytes=1 << 20
        )
        response = await self.node.Fetch(request, metadata=self.metadata, timeout=10)
        return {
            each.topic_id: from_wire(each.error) if each.HasField("error") else len(each.batches)
            for each in response.queues
        }

    async def topics(self) -> set[str]:
        response = await self.call(self.node.GetRoute, broker_pb2.GetRouteRequest())
        return {topic.name for topic in response.topics}


def rule(user: str, text: str) -> security_pb2.AclRule:
    *deny, action, resource = text.split()
    return security_pb2.AclRule(user=user, action=action, resource=resource, deny=bool(deny))


class Site:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    @asynccontextmanager
    async def client(self, user: str, password: str = PASSWORD) -> AsyncIterator[Client]:
        async with aio.insecure_channel(self.fleet.address(1), options=OWN_CONNECTION) as channel:
            yield Client(channel, await prove(channel, user, password))

    @asynccontextmanager
    async def stranger(self) -> AsyncIterator[Client]:
        async with aio.insecure_channel(self.fleet.address(1), options=OWN_CONNECTION) as channel:
            yield Client(channel, ())

    async def http(self, path: str, **given: Any) -> int:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.fleet.http(1)}{path}", **given) as got,
        ):
            await got.read()
            return got.status
