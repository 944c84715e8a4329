"""A node calls another node for a user: the user's rights count, and nobody but a node can do that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import grpc
import pytest
from grpc import aio

from cluster.node.security.node_channel import NodeChannel
from ledger.access.forwarded import CALLER_KEY, ForwardedCaller
from ledger.broker.access.callers import LOCAL_OPERATOR, Caller
from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within
from ledger.errors import AuthenticationError, BusyError, InvalidArgumentError, PermissionDeniedError
from ledger.v1 import broker_pb2, security_pb2
from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import sample_batch
from tests.cluster.node.access.site import OWN_CONNECTION, Client, Site

pytestmark = pytest.mark.real


def user_of(site: Site, name: str) -> Caller:
    """Return the caller as the node's own front would know it after a proof."""
    return Caller(name, site.fleet.running[1]._access.service._authorizer.access.users[name].since)


def named(site: Site, caller: Caller) -> ForwardedCaller:
    forwarding = site.fleet.running[1]._access.forwarding
    assert forwarding is not None
    return forwarding.named(caller)


def environment_for(site: Site, caller: Caller) -> Environment:
    """Return the environment of a client inside the node, which calls for this user."""
    node = site.fleet.running[1]
    channel = partial(NodeChannel, node._identity.dialer, node._addresses, caller=lambda: named(site, caller))
    return Environment(channel=channel)


@asynccontextmanager
async def node_that_names(site: Site, header: str) -> AsyncIterator[Client]:
    """A node that proves itself with the cluster secret, and sends this header."""
    node = site.fleet.running[1]
    async with aio.insecure_channel(site.fleet.address(1), options=OWN_CONNECTION) as channel:
        proof = await node._identity.dialer.prove(channel, 1)
        yield Client(channel, (*proof, (CALLER_KEY, header)))


async def test_a_client_inside_a_node_has_the_rights_of_its_user(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.create_topic("orders")
        await admin.create_topic("payments")
        await admin.add_user("alice", "all topic:orders", "describe topic:payments")
        environment = environment_for(site, user_of(site, "alice"))
        async with within(environment, AsyncProducer)(site.fleet.bootstrap) as producer:
            assert (await producer.send("orders", b"1")).offset == 0
            with pytest.raises(PermissionDeniedError, match="has no right to publish topic:payments"):
                await producer.send("payments", b"1")
            async with within(environment, AsyncConsumer)("orders", bootstrap_servers=site.fleet.bootstrap) as consumer:
                assert (await anext(aiter(consumer))).value == b"1"
            # A new password ends what the node may do for the user, also on the stream that is open.
            await admin.call(admin.security.RotateUser, security_pb2.RotateUserRequest(name="alice"))
            with pytest.raises(AuthenticationError):
                await producer.send("orders", b"2")


async def test_nobody_but_a_node_can_call_for_a_user(site: Site) -> None:
    async with site.client("admin") as admin, site.client("admin") as other:
        orders = await admin.create_topic("orders")
        await admin.add_user("mallory", "describe topic:*")
        header = named(site, user_of(site, "admin")).header()
        async with site.stranger() as stranger, site.client("mallory") as mallory:
            # A stranger, a user with its own proof, an administrator, and the proof of a node without this cluster's
            # secret: the header is worth nothing, and adds nothing to what the caller may do.
            for attacker in (stranger, mallory, other):
                attacker.metadata = (*attacker.metadata, (CALLER_KEY, header))
                with pytest.raises(aio.AioRpcError, match="only a node of this cluster may call for a user") as refused:
                    await attacker.fetch(orders)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                with pytest.raises(aio.AioRpcError, match="only a node of this cluster may call for a user"):
                    await attacker.produce(sample_batch(orders))
            stranger.metadata = (("ledgermq-proof", "forged"), (CALLER_KEY, header))
            with pytest.raises(aio.AioRpcError, match="only a node of this cluster may call for a user"):
                await stranger.fetch(orders)


async def test_a_node_calls_for_no_user_that_is_gone(site: Site) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        await admin.add_user("alice", "subscribe topic:orders")
        caller = user_of(site, "alice")
        before = named(site, caller)
        async with node_that_names(site, before.header()) as node:
            assert await node.fetch(orders) == {orders: 0}
        for wrong in (
            replace(before, since=before.since - 1),
            replace(before, user="nobody"),
            replace(before, token=b"t" * 32),
        ):
            async with node_that_names(site, wrong.header()) as node:
                with pytest.raises(aio.AioRpcError) as refused:
                    await node.fetch(orders)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        await admin.call(admin.security.RemoveUser, security_pb2.RemoveUserRequest(name="alice"))
        async with node_that_names(site, before.header()) as node:
            with pytest.raises(aio.AioRpcError, match="the user was removed or got a new password"):
                await node.fetch(orders)
        with pytest.raises(AuthenticationError):
            named(site, caller)


async def test_a_delegated_token_gives_a_node_no_more_than_its_own_rules(site: Site) -> None:
    async with site.client("admin") as admin:
        orders, payments = await admin.create_topic("orders"), await admin.create_topic("payments")
        request = security_pb2.DelegateTokenRequest(ttl_ms=60_000)
        request.rules.add(action="subscribe", resource="topic:orders")
        await admin.call(admin.security.DelegateToken, request)
        access = site.fleet.running[1]._access.service._authorizer.access
        [token] = access.tokens.values()
        caller = Caller("admin", token.since, token)
        async with node_that_names(site, named(site, caller).header()) as node:
            found = await node.fetch(orders, payments)
        assert found[orders] == 0
        assert isinstance(found[payments], PermissionDeniedError)


async def test_what_a_node_does_for_nobody(site: Site) -> None:
    """Administrators call themselves, and the calls between nodes are made by nodes alone."""
    async with site.client("admin"):
        header = named(site, user_of(site, "admin")).header()
        async with node_that_names(site, header) as node:
            for call in (
                node.call(node.security.ListUsers, security_pb2.ListUsersRequest()),
                node.call(node.node.GetHolds, broker_pb2.GetRouteRequest()),
                node.call(node.node.DropTopic, broker_pb2.GetRouteRequest()),
            ):
                with pytest.raises(aio.AioRpcError, match=r"no node may call .* for a user") as refused:
                    await call
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        for malformed in ("", "%", "x" * 600, "AAAA"):
            async with node_that_names(site, malformed) as node:
                with pytest.raises(aio.AioRpcError):
                    await node.fetch(1)
        with pytest.raises(PermissionDeniedError, match="this node cannot call other nodes for an operator"):
            named(site, LOCAL_OPERATOR)


async def test_nodes_of_an_older_version_are_not_asked(site: Site) -> None:
    async with site.client("admin"):
        caller = user_of(site, "admin")
        site.fleet.running[1]._shards.replicas.topics.state.feature_level = 4
        with pytest.raises(BusyError, match="a node runs an older version"):
            named(site, caller)


def test_the_header_is_checked() -> None:
    right = ForwardedCaller("alice", 7, b"", 9)
    assert ForwardedCaller.of_header(right.header()) == right
    for wrong in (
        replace(right, user=""),
        replace(right, user="a\nb"),
        replace(right, token=b"short"),
        replace(right, user="a" * 200),
    ):
        with pytest.raises(InvalidArgumentError):
            ForwardedCaller.of_header(wrong.header())
