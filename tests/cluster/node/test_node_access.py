"""A node with authentication: every method and every path asks who the caller is, and what it may do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from ledger.access.mechanism import MECHANISM
from ledger.access.password import make_verifier
from ledger.broker.rpc.rights import NEEDED
from ledger.client.connection.channels import NodeStub
from ledger.errors import AuthenticationError, LedgerError, PermissionDeniedError, ThrottledError, from_wire
from ledger.v1 import broker_pb2, consumer_group_operations_pb2, error_pb2, security_pb2, security_pb2_grpc
from tests.cluster.fleet import Fleet, sample_batch
from tests.cluster.scram_client import Metadata, prove, prove_by_token
from tests.cluster.secured import write_secret
from tests.cluster.waiter import eventually
from tests.fuzz.methods import methods, path_of

PASSWORD = "correct horse battery"
FOR_NODES = ("raft.v1.Raft", "raft.v1.NodeProof")
# These methods serve every user, and leave out what the user may not see.
FOR_EVERY_USER = (
    "Authenticate",
    "DelegateToken",
    "Fetch",
    "GetRoute",
    "ListConsumerGroups",
    "MakeRocketmqSecret",
    "Produce",
    "RemoveRocketmqSecret",
    "RotateUser",
)

pytestmark = pytest.mark.real


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


@pytest.fixture
async def site(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    fleet = Fleet(
        tmp_path,
        1,
        authentication=True,
        cluster_secret_file=write_secret(tmp_path / "secret"),
        first_administrator_password_file=tmp_path / "password",
        **getattr(request, "param", {}),
    )
    await fleet.start()
    try:
        found = Site(fleet)

        async def begun() -> bool:
            try:
                async with found.client("admin"):
                    return True
            except LedgerError:
                return False

        await eventually(begun, "the cluster has its first administrator")
        yield found
    finally:
        await fleet.close()


def client_methods() -> list[MethodDescriptor]:
    return [each for each in methods() if each.containing_service.full_name not in FOR_NODES]


def serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def empty_request(method: MethodDescriptor) -> Any:
    return GetMessageClass(method.input_type)()


async def status_of(client: Client, method: MethodDescriptor) -> grpc.StatusCode:
    """Return how a call with an empty request ends at the rim."""
    response = GetMessageClass(method.output_type).FromString
    try:
        if method.client_streaming:
            stream: Any = client.channel.stream_stream(
                path_of(method), request_serializer=serialized, response_deserializer=response
            )(metadata=client.metadata, timeout=5)
            await stream.done_writing()
            await stream.read()
            code: grpc.StatusCode = await stream.code()
            return code
        call: Any = client.channel.unary_unary(
            path_of(method), request_serializer=serialized, response_deserializer=response
        )
        await call(empty_request(method), metadata=client.metadata, timeout=5)
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# -- the walk


def test_every_method_says_which_rights_it_needs() -> None:
    assert {path_of(method) for method in client_methods()} == set(NEEDED)


def test_nodes_may_call_what_their_programs_call() -> None:
    """cluster/node/shard_calls.py, cluster/node/replica/removal.py, and the client that both use."""
    called = ("Broker/GetRoute", "Operations/OpenTopic", "Operations/DropTopic", "Operations/GetMembers")
    assert {name for name in called if NEEDED[f"/ledger.v1.{name}"].nodes == "no"} == set()


async def test_no_method_serves_a_stranger(site: Site) -> None:
    async with site.stranger() as stranger:
        for method in client_methods():
            needed = NEEDED[path_of(method)]
            if needed.proof:
                refused = "PERMISSION_DENIED" if needed.nodes == "only" else "UNAUTHENTICATED"
                assert (await status_of(stranger, method)).name == refused, path_of(method)


async def test_no_method_serves_a_user_without_rights(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("mallory")
        async with site.client("mallory") as mallory:
            for method in client_methods():
                if method.name not in FOR_EVERY_USER:
                    assert await status_of(mallory, method) is grpc.StatusCode.PERMISSION_DENIED, path_of(method)


async def test_the_methods_for_every_user_give_a_user_without_rights_nothing(site: Site) -> None:
    async with site.client("admin") as admin:
        topic_id = await admin.create_topic("orders")
        await admin.add_user("mallory")
        await admin.add_user("victim")
        async with site.client("mallory") as mallory:
            (error,) = await mallory.produce(sample_batch(topic_id))
            assert isinstance(error, PermissionDeniedError)
            assert isinstance((await mallory.fetch(topic_id))[topic_id], PermissionDeniedError)
            assert await mallory.topics() == set()
            groups = await mallory.call(
                mallory.node.ListConsumerGroups, consumer_group_operations_pb2.ListConsumerGroupsRequest()
            )
            assert not groups.consumer_groups
            with pytest.raises(PermissionDeniedError, match="no right to administer cluster"):
                await mallory.call(mallory.security.RotateUser, security_pb2.RotateUserRequest(name="victim"))
            for method, request in (
                (mallory.security.MakeRocketmqSecret, security_pb2.MakeRocketmqSecretRequest(name="victim")),
                (mallory.security.RemoveRocketmqSecret, security_pb2.RemoveRocketmqSecretRequest(name="victim")),
            ):
                with pytest.raises(PermissionDeniedError, match="no right to administer cluster"):
                    await mallory.call(method, request)


@pytest.mark.parametrize("path", ["/metrics", "/shards", "/shards/0/segments", "/shards/0/snapshot", "/nothing"])
async def test_no_path_serves_a_stranger(site: Site, path: str) -> None:
    assert await site.http(path) == 401
    assert await site.http(path, headers={"Authorization": "Bearer x"}) == 401
    assert await site.http(path, headers={"Authorization": "Basic !"}) == 401


async def test_health_is_for_everybody(site: Site) -> None:
    assert await site.http("/healthz") == 200
    assert await site.http("/readyz") == 200


# -- rights


async def test_rights_by_topic(site: Site) -> None:
    async with site.client("admin") as admin:
        orders, payments = await admin.create_topic("orders-eu"), await admin.create_topic("payments")
        await admin.add_user("alice", "publish topic:orders-*", "subscribe topic:payments")
        async with site.client("alice") as alice:
            written, refused = await alice.produce(sample_batch(orders), sample_batch(payments))
            assert written is None
            assert isinstance(refused, PermissionDeniedError)
            assert "no right to publish topic:payments" in str(refused)
            fetched = await alice.fetch(orders, payments)
            assert isinstance(fetched[orders], PermissionDeniedError)
            assert fetched[payments] == 0
            assert await alice.topics() == {"orders-eu", "payments"}


async def test_an_open_stream_feels_a_revoked_right(site: Site) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        await admin.add_user("alice", "publish topic:orders")
        async with site.client("alice") as alice:
            stream = alice.node.Produce(metadata=alice.metadata, timeout=10)
            await stream.write(broker_pb2.ProduceRequest(batches=[sample_batch(orders)]))
            assert not (await stream.read()).results[0].HasField("error")
            await admin.revoke("alice", "publish topic:orders")
            await stream.write(broker_pb2.ProduceRequest(batches=[sample_batch(orders, first_sequence=2)]))
            error = from_wire((await stream.read()).results[0].error)
            assert isinstance(error, PermissionDeniedError)
            await stream.done_writing()


@pytest.mark.parametrize("end", ["revoked", "removed", "new password"])
async def test_a_fetch_that_waits_feels_a_revoked_right(site: Site, end: str) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        await admin.add_user("alice", "subscribe topic:orders")
        async with site.client("alice") as alice:
            request = broker_pb2.FetchRequest(
                queues=[broker_pb2.QueueFetch(topic_id=orders)], max_bytes=1 << 20, max_wait_ms=20_000
            )
            waiting = asyncio.ensure_future(alice.node.Fetch(request, metadata=alice.metadata, timeout=30))
            await alice.fetch(orders)  # a later call on the same connection has an answer, so the first one waits
            match end:
                case "revoked":
                    await admin.revoke("alice", "subscribe topic:orders")
                case "removed":
                    await admin.call(admin.security.RemoveUser, security_pb2.RemoveUserRequest(name="alice"))
                case _:
                    await admin.call(admin.security.RotateUser, security_pb2.RotateUserRequest(name="alice"))
            assert await admin.produce(sample_batch(orders)) == [None]
            found = (await waiting).queues[0]
            assert not found.batches
            assert found.next_offset == 0
            assert (found.error.code == error_pb2.PERMISSION_DENIED) == (end == "revoked")


async def test_a_refusal_does_not_tell_whether_a_topic_exists(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.create_topic("secret")
        await admin.add_user("mallory")
        async with site.client("mallory") as mallory:
            for method in client_methods():
                if method.client_streaming or method.name in FOR_EVERY_USER:
                    continue
                there, missing = [await refusal_of(mallory, method, *each) for each in ((1, "secret"), (999, "absent"))]
                assert there == missing, path_of(method)
                assert there.startswith("PERMISSION_DENIED"), path_of(method)
            assert await mallory.topics() == set()
            texts = {}
            for topic_id in (1, 999):
                (sent,) = await mallory.produce(sample_batch(topic_id))
                fetched = (await mallory.fetch(topic_id))[topic_id]
                texts[topic_id] = [str(each).replace(str(topic_id), "N") for each in (sent, fetched)]
            assert texts[1] == texts[999]


async def refusal_of(client: Client, method: MethodDescriptor, topic_id: int, name: str) -> str:
    """Call a method with this topic and group in every field that can name them. Return how it was refused, without
    what the caller itself said."""
    request = GetMessageClass(method.input_type)()
    name_fields(request, topic_id, name)
    call: Any = client.channel.unary_unary(
        path_of(method),
        request_serializer=serialized,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    try:
        await call(request, metadata=client.metadata, timeout=5)
    except aio.AioRpcError as error:
        said = str(error.details()).replace(f"id {topic_id}", "id N").replace(name, "NAME")
        return f"{error.code().name}: {said}"
    raise AssertionError(f"{path_of(method)} serves a user without rights")


def name_fields(request: Any, topic_id: int, name: str) -> None:
    for field in request.DESCRIPTOR.fields:
        if field.name == "topic_id":
            request.topic_id = topic_id
        elif field.name in ("name", "consumer_group"):
            setattr(request, field.name, name)
        elif field.message_type is not None and field.is_repeated:
            name_fields(getattr(request, field.name).add(), topic_id, name)


async def test_a_name_that_a_caller_chose_stays_short_and_on_one_line(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, a user without rights wrote lines into the audit log that looked like lines of the node."""
    async with site.client("admin") as admin:
        await admin.add_user("mallory")
        async with site.client("mallory") as mallory:
            with caplog.at_level("INFO"), pytest.raises(aio.AioRpcError) as refused:
                await mallory.create_topic("x\nadmin from ipv4:10.0.0.1:1: GrantRules: done" + "y" * 100_000)
            assert len(str(refused.value.details())) < 1_000
            assert await site.http("/x%0aforged") == 401
    assert not any("\n" in record.getMessage() for record in caplog.records)


# -- proofs


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


# -- HTTP, audit, quotas


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def test_paths_with_a_password_or_a_delegated_token(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("prometheus", "describe cluster")
        await admin.add_user("spark", "read-log cluster")
        scraper, spark = basic("prometheus", PASSWORD), basic("spark", PASSWORD)
        assert await site.http("/metrics", headers=scraper) == 200
        assert await site.http("/metrics", headers=basic("prometheus", "wrong password")) == 401
        assert await site.http("/shards", headers=scraper) == 403
        assert await site.http("/shards", headers=spark) == 200
        assert await site.http("/shards/0/segments", headers=spark) == 403, "shard 0 holds the verifiers of passwords"
        assert await site.http("/shards/%2b0/segments", headers=spark) in (403, 404)
        assert await site.http("/shards/0/segments", headers=basic("admin", PASSWORD)) == 200


async def test_administrative_acts_are_recorded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="ledgermq.audit"):
        async with site.client("admin") as admin:
            await admin.create_topic("orders")
            await admin.add_user("mallory")
            async with site.client("mallory") as mallory:
                with pytest.raises(aio.AioRpcError):
                    await mallory.create_topic("mine")
    lines = [record.getMessage() for record in caplog.records if record.name == "ledgermq.audit"]
    assert any(
        "admin from ipv4:" in line and "CreateTopic name='orders'" in line and line.endswith("done") for line in lines
    )
    assert any(line.startswith("mallory") and "no right to create topic:mine" in line for line in lines)
    assert not any("stored_key" in line for line in lines)
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("site", [{"produce_quota_messages_per_s": 2}], indirect=True)
async def test_quotas_count_users_and_not_hosts(site: Site) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        for user in ("alice", "bob"):
            await admin.add_user(user, "publish topic:orders")
        async with site.client("alice") as alice, site.client("alice") as again, site.client("bob") as bob:
            assert await alice.produce(sample_batch(orders, [b"x"] * 4, producer_id=1)) == [None]
            for client in (alice, again):
                (error,) = await client.produce(sample_batch(orders, producer_id=2))
                assert isinstance(error, ThrottledError)
            assert await bob.produce(sample_batch(orders, producer_id=3)) == [None]


async def test_reading_the_logs_bytes_over_http_is_recorded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("spark", "read-log cluster")
    with caplog.at_level("INFO", logger="ledgermq.audit"):
        assert await site.http("/shards/0/segments", headers=basic("admin", PASSWORD)) == 200
        assert await site.http("/shards/0/segments", headers=basic("spark", PASSWORD)) == 403
        assert await site.http("/metrics", headers=basic("admin", PASSWORD)) == 200
    lines = [record.getMessage() for record in caplog.records if record.name == "ledgermq.audit"]
    assert [line.split(" from ")[0] for line in lines] == ["admin", "spark"]
    assert lines[0].endswith("GET /shards/0/segments: allowed")
    assert "no right to administer cluster" in lines[1]


async def test_a_wrong_password_over_http_costs_the_same_for_an_unknown_user(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    mechanism = MECHANISM

    class Counted:
        @staticmethod
        def make_auth_info(password: str, *given: Any) -> Any:
            computed.append(password)
            return mechanism.make_auth_info(password, *given)

    monkeypatch.setattr("cluster.node.http.http_rights.MECHANISM", Counted)
    for user in ("admin", "nobody"):
        assert await site.http("/metrics", headers=basic(user, "wrong password")) == 401
    assert computed == ["wrong password"] * 2
