"""Proofs of users: passwords, tokens, and what ends them."""

from __future__ import annotations

import grpc
import pytest
from grpc import aio

from ledger.errors import AuthenticationError, LedgerError, PermissionDeniedError, from_wire
from ledger.v1 import security_pb2
from tests.cluster.fleet import sample_batch
from tests.cluster.node.access.site import PASSWORD, Site, rule
from tests.cluster.scram_client import prove_by_token

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("user", "password"), [("admin", "wrong password"), ("nobody", PASSWORD), ("alice.b", "pass word"), ("a=b", "x,y")]
)
async def test_a_wrong_proof_is_refused_with_one_text(site: Site, user: str, password: str) -> None:
    with pytest.raises(AuthenticationError, match="the user or the password is wrong"):
        async with site.client(user, password):
            pass


@pytest.mark.parametrize(
    "message", ["", "n,,", "n,,n=a", "x" * 10_000, "n,,n=admin,r=", "p=tls-unique,,n=admin,r=abc", "\0"]
)
async def test_a_strange_proof_is_refused(site: Site, message: str) -> None:
    async with site.stranger() as stranger:
        stream = stranger.security.Authenticate(timeout=10)
        await stream.write(security_pb2.AuthenticateRequest(scram=message))
        assert isinstance(from_wire((await stream.read()).error), AuthenticationError)


async def test_a_token_is_of_no_use_on_another_connection(site: Site) -> None:
    async with site.client("admin") as admin, site.stranger() as thief:
        thief.metadata = admin.metadata
        with pytest.raises(aio.AioRpcError) as refused:
            await thief.topics()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert await admin.topics() == set()


async def test_a_new_password_ends_the_proofs_before_it(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("alice", "publish topic:orders")
        async with site.client("alice") as alice:
            await alice.topics()
            await admin.call(admin.security.RotateUser, security_pb2.RotateUserRequest(name="alice"))
            with pytest.raises(aio.AioRpcError) as refused:
                await alice.topics()
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(AuthenticationError):
            async with site.client("alice"):
                pass  # the user has no password any more


async def test_a_removed_user_is_out_at_once(site: Site) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        await admin.add_user("alice", "publish topic:orders")
        async with site.client("alice") as alice:
            await admin.call(admin.security.RemoveUser, security_pb2.RemoveUserRequest(name="alice"))
            with pytest.raises(aio.AioRpcError) as refused:
                await alice.produce(sample_batch(orders))
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_delegated_token_has_a_part_of_its_users_rights(site: Site) -> None:
    async with site.client("admin") as admin:
        orders, payments = await admin.create_topic("orders"), await admin.create_topic("payments")
        await admin.add_user("alice", "subscribe topic:orders", "subscribe topic:payments")
        async with site.client("alice") as alice:
            request = security_pb2.DelegateTokenRequest(
                rules=[rule("", "subscribe topic:orders"), rule("", "subscribe topic:other")], ttl_ms=60_000
            )
            token = (await alice.call(alice.security.DelegateToken, request)).token
        async with site.stranger() as executor:
            executor.metadata = await prove_by_token(executor.channel, token)
            fetched = await executor.fetch(orders, payments)
            assert fetched[orders] == 0
            assert isinstance(fetched[payments], PermissionDeniedError)
            with pytest.raises(LedgerError, match="cannot make another token"):
                await executor.call(executor.security.DelegateToken, request)
            await admin.revoke("alice", "subscribe topic:orders")
            assert isinstance((await executor.fetch(orders))[orders], PermissionDeniedError)
