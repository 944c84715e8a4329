"""Every method and every path asks who the caller is: a stranger and a user without rights get nothing."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from ledger.broker.rpc.rights import NEEDED
from ledger.errors import PermissionDeniedError
from ledger.v1 import consumer_group_operations_pb2, security_pb2
from tests.cluster.fleet import sample_batch
from tests.cluster.node.access.site import Client, Site
from tests.fuzz.methods import methods, path_of

FOR_NODES = ("raft.v1.Raft", "raft.v1.NodeProof")
# These methods serve every user, and leave out what the user may not see.
FOR_EVERY_USER = (
    "Authenticate",
    "CheckTransactions",
    "DelegateToken",
    "Fetch",
    "GetRoute",
    "ListConsumerGroups",
    "ListTimed",
    "ListTransactions",
    "MakeRocketmqSecret",
    "PrepareTimed",
    "Produce",
    "RemoveRocketmqSecret",
    "RotateUser",
    # Its rights are checked by its first request: tests/cluster/clients/test_clients_access.py.
    "Share",
)


pytestmark = pytest.mark.real


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


def test_every_method_says_which_rights_it_needs() -> None:
    assert {path_of(method) for method in client_methods()} == set(NEEDED)


def test_nodes_may_call_what_their_programs_call() -> None:
    """cluster/node/shard_calls.py, transaction_calls.py, replica/removal.py, and the client that both use."""
    called = (
        "Broker/GetRoute",
        "Operations/OpenTopic",
        "Operations/DropTopic",
        "Operations/GetMembers",
        "Transactions/SettleHalves",
        "Transactions/JudgeHalves",
        "Transactions/FindHalves",
        "Transactions/PrepareTransactions",
    )
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
