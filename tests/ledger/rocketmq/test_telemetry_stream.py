"""The telemetry stream of a RocketMQ client: how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from grpc import StatusCode

from ledger.broker.access.callers import ANYBODY
from ledger.errors import CorruptBatchError, LedgerError, NoLeaderError, RequestTimeoutError, UnknownGroupError
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.outgoing_message import FrontLimits
from ledger.rocketmq.producers import TopicProducers
from ledger.rocketmq.refusals import refusal_of
from ledger.rocketmq.sessions import FrontSessions
from ledger.rocketmq.telemetry import MAX_SETTINGS_BYTES, FrontTelemetry
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from tests.cluster.rocketmq_stubs import producer_settings
from tests.cluster.waiter import until
from tests.ledger.broker.stream_client import AbortedError, StreamClient

CALL = FrontCall("client", "JAVA", ANYBODY, is_tls=False, peer="ipv4:127.0.0.1:1", left_s=60.0)
UNUSED = cast(Any, SimpleNamespace())
REFUSED = service_pb2.TelemetryCommand(settings=pb.Settings())


def silent_client() -> StreamClient:
    """Return a client that reads nothing yet."""
    client = StreamClient()
    client.may_send.clear()
    return client


def telemetry_of(sessions: FrontSessions, producers: TopicProducers | None = None) -> FrontTelemetry:
    known = producers or TopicProducers(sessions)
    return FrontTelemetry(sessions, known, UNUSED, FrontLimits(1 << 20, 1), lambda caller: None)


def clients_of_a_cluster() -> Any:
    table = SimpleNamespace(max_message_bytes=0)
    return SimpleNamespace(cluster=SimpleNamespace(routes=SimpleNamespace(table=table)))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("last", [None, REFUSED], ids=["end", "refused settings"])
async def test_a_stream_ends_when_its_command_is_sent(last: service_pb2.TelemetryCommand | None) -> None:
    sessions, client = FrontSessions(lambda: 1.0), silent_client()
    stream = asyncio.create_task(telemetry_of(sessions).serve(CALL, UNUSED, cast(Any, client)))
    await settled()
    assert sessions.seen(CALL).command(service_pb2.TelemetryCommand())
    await settled()
    client.requests.put_nowait(last)
    await settled()
    assert client.is_sending
    assert not stream.done()
    client.may_send.set()
    (ended,) = await asyncio.gather(stream, return_exceptions=True)
    assert isinstance(ended, AbortedError) == (last is not None)
    assert len(client.received) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoLeaderError("no node leads shard 3"), StatusCode.UNAVAILABLE),
        (RequestTimeoutError("no answer"), StatusCode.UNAVAILABLE),
        (UnknownGroupError("no such group"), StatusCode.INVALID_ARGUMENT),
        (CorruptBatchError("the batch is damaged"), StatusCode.INTERNAL),
    ],
)
def test_only_a_fault_ends_a_stream_as_internal(error: LedgerError, status: StatusCode) -> None:
    assert refusal_of(error).stream_status is status


async def test_what_a_client_sends_is_read_when_it_has_read_the_answers() -> None:
    client, clients = silent_client(), clients_of_a_cluster()
    settings = service_pb2.TelemetryCommand(settings=producer_settings("orders"))
    for _ in range(10):
        client.requests.put_nowait(settings)
    stream = asyncio.create_task(telemetry_of(FrontSessions(lambda: 1.0)).serve(CALL, clients, cast(Any, client)))
    await settled()
    assert client.requests.qsize() == 9
    client.may_send.set()
    await settled()
    assert client.requests.empty()
    stream.cancel()


@pytest.mark.parametrize(
    ("language", "topics", "answers"), [("HTTP", ["a", "b"], 3), ("HTTP", ["a"], 1), ("JAVA", ["a", "b"], 1)]
)
async def test_only_node_js_with_several_topics_gets_its_settings_again(
    monkeypatch: pytest.MonkeyPatch, language: str, topics: list[str], answers: int
) -> None:
    monkeypatch.setattr("ledger.rocketmq.telemetry.REPEATS_S", (0.001, 0.002))
    client, call = StreamClient(), replace(CALL, language=language)
    client.requests.put_nowait(service_pb2.TelemetryCommand(settings=producer_settings(*topics)))
    serving = telemetry_of(FrontSessions(lambda: 1.0)).serve(call, clients_of_a_cluster(), cast(Any, client))
    stream = asyncio.create_task(serving)
    await until(lambda: len(client.received) >= answers, "the client has its settings")
    await asyncio.sleep(0.01)
    assert len(client.received) == answers
    assert all(told.settings.publishing.max_body_size for told in client.received)
    stream.cancel()


async def test_settings_are_not_given_again_after_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.rocketmq.telemetry.REPEATS_S", (0.1,))
    client, call = StreamClient(), replace(CALL, language="HTTP")
    client.requests.put_nowait(service_pb2.TelemetryCommand(settings=producer_settings("a", "b")))
    client.requests.put_nowait(None)
    await telemetry_of(FrontSessions(lambda: 1.0)).serve(call, clients_of_a_cluster(), cast(Any, client))
    await asyncio.sleep(0.2)
    assert len(client.received) == 1


async def test_a_huge_command_ends_the_stream() -> None:
    client, trace = silent_client(), "x" * MAX_SETTINGS_BYTES
    client.requests.put_nowait(
        service_pb2.TelemetryCommand(thread_stack_trace=service_pb2.ThreadStackTrace(thread_stack_trace=trace))
    )
    with pytest.raises(AbortedError):
        await telemetry_of(FrontSessions(lambda: 1.0)).serve(CALL, UNUSED, cast(Any, client))


async def test_producers_of_one_caller_name_a_limited_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.rocketmq.producers.MAX_NAMED_OF_A_CALLER", 3)
    sessions = FrontSessions(lambda: 1.0)
    producers = TopicProducers(sessions)
    telemetry, clients = telemetry_of(sessions, producers), clients_of_a_cluster()

    async def told(client_id: str, *topics: str) -> None:
        client = StreamClient(service_pb2.TelemetryCommand(settings=producer_settings(*topics)), None)
        await telemetry.serve(replace(CALL, client_id=client_id), clients, cast(Any, client))

    await told("first", "orders", "payments")
    with pytest.raises(AbortedError, match="remembers no more topics"):
        await told("second", "orders", "returns")
    await told("second", "orders")
    assert [topic for _, topic in producers] == ["orders", "payments"]
    assert producers.named == 3
