"""Tests what makes clients convenient: where they find their cluster, what values they take, what their errors say."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import (
    AuthenticationError,
    ClosedError,
    DeliveryTimeoutError,
    DeserializationError,
    InvalidArgumentError,
    TopicExistsError,
    UnavailableError,
)
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    Consumer,
    Message,
    OutgoingMessage,
    Producer,
)
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

SECONDS = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("conveniences"))
    cluster.start(1, base_port=free_base_port(1))
    yield cluster
    cluster.purge()


@pytest.fixture
async def topic(cluster: DevCluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A new topic with one queue. The clients find the cluster in the environment."""
    name = request.node.name[-60:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_BOOTSTRAP", cluster.bootstrap)
        async with AsyncAdmin() as admin:
            await admin.create_topic(name, 1)
        yield name


async def values(topic: str, count: int) -> list[bytes]:
    async with AsyncConsumer(topic) as consumer:
        messages: list[Message] = []
        while len(messages) < count:
            messages += await consumer.getmany(count - len(messages), SECONDS * 1000)
    return [message.value for message in messages]


async def test_values_can_be_any_bytes_and_headers_can_be_text(topic: str) -> None:
    buffer = bytearray(b"two")
    async with AsyncProducer() as producer, AsyncConsumer([topic]) as consumer:
        await producer.send(topic, b"one", headers={"trace": "ä1", "raw": b"\x00"})
        sent = producer.send_nowait(topic, buffer)
        buffer[:] = b"XXX"  # the producer has its own copy
        await sent
        await producer.send_many(topic, [memoryview(b"three"), bytearray(b"four"), OutgoingMessage(bytearray(b"five"))])
        await producer.send_many(topic, [bytearray(b"six"), b"seven"])
        first = await asyncio.wait_for(anext(consumer), SECONDS)
        assert first.headers == (("trace", "ä1".encode()), ("raw", b"\x00"))
        with pytest.raises(InvalidArgumentError, match=r"not str: encode it first, .* `encoding=`"):
            await producer.send(topic, "text")  # type: ignore[arg-type]
    assert await values(topic, 7) == [b"one", b"two", b"three", b"four", b"five", b"six", b"seven"]


async def test_text_is_sent_with_an_explicit_encoding(topic: str) -> None:
    async with AsyncProducer[str](encoding="latin-1") as producer:
        await producer.send(topic, "ä")
        await producer.send_many(topic, ["ö", ("key", "ü")])
    assert await values(topic, 3) == [b"\xe4", b"\xf6", b"\xfc"]
    with pytest.raises(InvalidArgumentError, match="no encoding 'utf-9'"):
        AsyncProducer(encoding="utf-9")
    with pytest.raises(InvalidArgumentError, match="not both"):
        AsyncProducer(encoding="utf-8", serializer=json.dumps)


async def test_a_serializer_and_a_deserializer_are_applied_to_every_value(topic: str) -> None:
    async with AsyncProducer(serializer=json.dumps) as producer:
        await producer.send(topic, {"n": 1})
        await producer.send_many(topic, ({"n": number} for number in (2, 3)))
        with pytest.raises(InvalidArgumentError, match=r"type object cannot be sent: .*not JSON serializable"):
            await producer.send(topic, object())
    received: list[int] = []
    done = asyncio.Event()

    async def listener(message: Message[dict[str, int]]) -> None:
        received.append(message.value["n"])
        if len(received) == 3:
            done.set()

    async with AsyncConsumer(topic, deserializer=json.loads) as consumer:
        assert [message.value for message in await consumer.getmany(3, SECONDS * 1000)] == [{"n": n} for n in (1, 2, 3)]
    async with AsyncGroupConsumer(topic, group=f"p-{topic}"[:60], deserializer=json.loads) as member:
        message = await asyncio.wait_for(anext(member), SECONDS)
        assert message.value == {"n": 1}
        assert member.holds(message)
    async with AsyncPushConsumer(topic, group="push", listener=listener, deserializer=json.loads):
        await asyncio.wait_for(done.wait(), SECONDS)
    assert received == [1, 2, 3]


async def test_the_synchronous_twins_have_the_hooks_too(topic: str) -> None:
    def twins() -> list[object]:
        buffer = bytearray(b'{"n": 2}')
        with Producer(serializer=json.dumps) as producer, Producer() as raw:
            producer.send(topic, {"n": 1})
            sent = raw.send_nowait(topic, buffer)
            buffer[:] = b"X"
            sent.result(SECONDS)
            producer.send_nowait(topic, {"n": 3}).result(SECONDS)
        with Consumer(topic, deserializer=json.loads) as consumer:
            return [next(consumer).value for _ in range(3)]

    assert await asyncio.to_thread(twins) == [{"n": 1}, {"n": 2}, {"n": 3}]


async def test_a_value_that_cannot_be_deserialized_is_an_error_that_the_program_can_skip(topic: str) -> None:
    async with AsyncProducer() as producer:
        for value in (b"1", b"no JSON", b"3"):
            await producer.send(topic, value)
    async with AsyncGroupConsumer(topic, group="g", deserializer=json.loads) as consumer:
        assert [message.value for message in await consumer.getmany(3, SECONDS * 1000)] == [1]
        for _ in range(2):
            with pytest.raises(
                DeserializationError, match=f"failed for message {topic}:0:1: JSONDecodeError"
            ) as raised:
                await consumer.getmany(3, SECONDS * 1000)
        error = raised.value
        await consumer.seek(error.topic, error.queue, error.offset + 1)
        assert [message.value for message in await consumer.getmany(3, SECONDS * 1000)] == [3]
    async with AsyncConsumer(topic, deserializer=json.loads) as alone:
        assert (await asyncio.wait_for(anext(alone), SECONDS)).value == 1
        with pytest.raises(DeserializationError):
            await asyncio.wait_for(anext(alone), SECONDS)


async def test_a_topic_can_be_created_if_it_does_not_exist(topic: str) -> None:
    async with AsyncAdmin() as admin:
        with pytest.raises(TopicExistsError):
            await admin.create_topic(topic, 3)
        assert (await admin.create_topic(topic, 3, exist_ok=True)).queues == 1


async def test_clients_find_their_cluster_in_the_environment_and_in_a_profile(
    cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEDGERMQ_BOOTSTRAP", raising=False)
    profiles = tmp_path / "profiles.toml"
    monkeypatch.setenv("LEDGERMQ_PROFILE_FILE", str(profiles))
    with pytest.raises(
        InvalidArgumentError, match=r"No cluster is named: give `bootstrap_servers=.* LEDGERMQ_BOOTSTRAP"
    ):
        AsyncAdmin()
    profiles.write_text(f'[profiles.here]\nservers = "{cluster.bootstrap}"\n')
    async with AsyncAdmin(profile="here") as admin:
        assert await admin.list_topics() is not None
    monkeypatch.setenv("LEDGERMQ_BOOTSTRAP", "127.0.0.1:1")  # the environment wins over the profile
    with pytest.raises(UnavailableError):
        await AsyncAdmin(profile="here", request_timeout_ms=100).start()
    async with AsyncAdmin(cluster.bootstrap) as admin:  # and an argument over the environment
        assert await admin.list_topics() is not None


async def test_errors_name_topics(cluster: DevCluster, topic: str) -> None:
    producer = AsyncProducer(delivery_timeout_ms=1, linger_ms=0)
    await producer.start()
    sends = [producer.send_nowait(topic, b"x" * 100_000) for _ in range(300)]
    results = await asyncio.gather(*sends, return_exceptions=True)
    late = [str(result) for result in results if isinstance(result, DeliveryTimeoutError)]
    assert f'for queue 0 of topic "{topic}" were not acknowledged' in late[0]
    await producer.stop()
    async with AsyncConsumer(topic) as consumer:
        known = consumer._client.routes.table
        error = known.with_names(InvalidArgumentError(f"queue 0 of topic {known.topics[topic].topic_id} and topic 987"))
    assert error.message == str(error) == f'queue 0 of topic "{topic}" and topic 987'


async def test_a_client_at_the_http_port_gets_a_hint_from_both_ends(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet: Fleet = make_fleet(1)
    await fleet.start()
    told = ""
    async with asyncio.timeout(SECONDS):
        while "speaks HTTP/1" not in told:  # a busy machine may not answer within gRPC's first attempt
            with pytest.raises(UnavailableError) as raised:
                await AsyncAdmin(fleet.http(1), request_timeout_ms=1_000).start()
            told = str(raised.value)
    assert "use the port of the node's setting `listen`" in told
    hints = [record for record in caplog.records if record.name == "ledgermq.node.http.hints"]
    assert "a gRPC client has connected to the HTTP port" in hints[0].getMessage()
    assert hints[0].levelno == logging.WARNING


async def test_a_producer_that_is_not_started_says_so() -> None:
    producer = AsyncProducer("127.0.0.1:1")
    for call in (producer.send("t", b"x"), producer.send_many("t", [b"x"])):
        with pytest.raises(ClosedError, match="not started"):
            await call
    with pytest.raises(ClosedError, match="not started"):
        producer.send_nowait("t", b"x")
    await producer.stop()


async def test_a_user_at_a_cluster_without_users_learns_that_it_has_none(cluster: DevCluster) -> None:
    with pytest.raises(AuthenticationError, match="without `authentication`"):
        async with AsyncAdmin(cluster.bootstrap, user="bob", password="wrong"):
            pass
