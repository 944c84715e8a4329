"""Spans of OpenTelemetry on a real cluster, from the send through the leader and its followers to the listener."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from cluster.node.node_spans import NodeSpans
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncSharedConsumer,
    Message,
    OutgoingMessage,
    Producer,
)
from ledgermq.errors import InvalidArgumentError, LedgerError
from ledgermq.tracing import message_context, process_span
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.waiter import eventually


class Traced:
    """A fleet whose nodes and clients send their spans to one exporter in memory."""

    def __init__(self, fleet: Fleet, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
        self.fleet = fleet
        self.provider = provider
        self._exporter = exporter

    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    async def one(self, name: str) -> ReadableSpan:
        """Wait until there is one span with this name."""

        async def is_there() -> ReadableSpan | None:
            found = self.named(name)
            return found[0] if len(found) == 1 else None

        return await eventually(is_there, f"one span {name!r}")


@pytest.fixture
async def traced(make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch) -> Traced:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("cluster.node.node.make_spans", lambda settings: NodeSpans(settings.node, Endless(provider)))
    fleet = make_fleet()
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic("orders", queues=2)
    await fleet.level()
    return Traced(fleet, provider, exporter)


class Endless(TracerProvider):
    """The provider of all nodes of the test, which a node that stops does not end."""

    def __init__(self, shared: TracerProvider) -> None:
        self.get_tracer = shared.get_tracer  # type: ignore[method-assign]

    def shutdown(self) -> None:
        pass


def context_of(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def links_of(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


async def test_the_spans_are_connected_from_send_to_listener(traced: Traced) -> None:
    received: list[tuple[int, int]] = []

    async def listen(message: Message) -> None:
        context = trace.get_current_span().get_span_context()
        received.append((context.trace_id, context.span_id))

    servers = traced.fleet.bootstrap
    async with (
        AsyncProducer(servers, client_id="shop", tracing=traced.provider) as producer,
        AsyncPushConsumer(
            "orders", listener=listen, group="billing", bootstrap_servers=servers, tracing=traced.provider
        ),
    ):
        sent = await producer.send("orders", b"x", key="k", queue=1)
        send, produce = await traced.one("send orders"), await traced.one("produce orders")
        process = await traced.one("process orders")

    assert send.kind is SpanKind.PRODUCER
    assert send.attributes is not None
    assert send.attributes["messaging.system"] == "ledgermq"
    assert send.attributes["messaging.operation.type"] == "send"
    assert send.attributes["messaging.destination.name"] == "orders"
    assert send.attributes["messaging.destination.partition.id"] == "1"
    assert send.attributes["messaging.message.id"] == f"orders:1:{sent.offset}"
    assert send.attributes["messaging.client.id"] == "shop"

    assert parent_of(produce) == context_of(send)
    assert produce.kind is SpanKind.SERVER
    leader = await traced.fleet.leader()
    assert produce.attributes is not None
    assert produce.attributes["messaging.ledgermq.node"] == leader
    children = [span for span in traced.spans() if parent_of(span) == context_of(produce)]
    others = {f"replicate to node {node}" for node in traced.fleet.nodes if node != leader}
    names = {span.name for span in children}
    assert names >= {"queue", "turn", "write", "commit", "apply", "answer", "flush"}
    assert len(names & others) >= 1  # the second acknowledgement may come after the answer
    for span in children:
        assert span.start_time is not None
        assert span.end_time is not None
        assert produce.start_time is not None
        assert produce.start_time <= span.start_time <= span.end_time

    assert process.kind is SpanKind.CONSUMER
    assert links_of(process) == [context_of(send)]
    assert process.parent is None
    assert process.attributes is not None
    assert process.attributes["messaging.consumer.group.name"] == "billing"
    assert process.attributes["messaging.message.id"] == f"orders:1:{sent.offset}"
    assert received == [context_of(process)]


async def test_a_loop_of_the_program_makes_its_spans_itself(traced: Traced) -> None:
    servers = traced.fleet.bootstrap
    async with AsyncProducer(servers, tracing=traced.provider) as producer:
        await producer.send("orders", b"x", queue=0)
    send = await traced.one("send orders")
    async with (
        AsyncConsumer("orders", bootstrap_servers=servers) as plain,
        AsyncGroupConsumer("orders", group="billing", bootstrap_servers=servers) as member,
    ):
        for message in (await anext(plain), await anext(member)):
            assert trace.get_current_span(message_context(message)).get_span_context().span_id == context_of(send)[1]
            with pytest.raises(ZeroDivisionError), process_span(message, group="billing", tracing=traced.provider):
                _ = 1 / 0
    first, second = traced.named("process orders")
    assert links_of(first) == links_of(second) == [context_of(send)]
    assert first.status.status_code is StatusCode.ERROR
    assert first.attributes is not None
    assert first.attributes["error.type"] == "ZeroDivisionError"


async def test_a_listener_of_a_shared_group_has_spans(traced: Traced) -> None:
    servers = traced.fleet.bootstrap
    async with AsyncAdmin(servers) as admin:
        await admin.create_consumer_group("pool")
    async with (
        AsyncProducer(servers, tracing=traced.provider) as producer,
        AsyncSharedConsumer("orders", group="pool", bootstrap_servers=servers, tracing=traced.provider) as consumer,
    ):
        await producer.send("orders", b"x", queue=0)
        consuming = asyncio.create_task(consumer.consume(lambda message: None))
        process = await traced.one("process orders")
        consumer.stop_reading()
        await consuming
    assert links_of(process) == [context_of(await traced.one("send orders"))]


async def test_many_messages_share_one_span(traced: Traced) -> None:
    servers = traced.fleet.bootstrap
    async with (
        AsyncProducer(servers, tracing=traced.provider) as producer,
        AsyncConsumer("orders", bootstrap_servers=servers) as consumer,
    ):
        await producer.send_many("orders", [b"a", OutgoingMessage(b"b", headers={"own": b"1"}), ("k", b"c")], queue=0)
        got = [await anext(consumer) for _ in range(3)]
    send = await traced.one("send orders")
    assert send.attributes is not None
    assert send.attributes["messaging.batch.message_count"] == 3
    told = {trace.get_current_span(message_context(message)).get_span_context().span_id for message in got}
    assert told == {context_of(send)[1]}
    assert ("own", b"1") in got[1].headers
    assert parent_of(await traced.one("produce orders")) == context_of(send)


async def test_messages_of_a_transaction_have_spans(traced: Traced) -> None:
    async with (
        AsyncProducer(traced.fleet.bootstrap, tracing=traced.provider) as producer,
        AsyncConsumer("orders", bootstrap_servers=traced.fleet.bootstrap) as consumer,
    ):
        async with producer.transaction("orders", group="checkout") as transaction:
            await transaction.send(b"x", queue=0)
        message = await anext(consumer)
    send = await traced.one("send orders")
    assert trace.get_current_span(message_context(message)).get_span_context().span_id == context_of(send)[1]


async def test_the_synchronous_producer_continues_the_trace_of_its_thread(traced: Traced) -> None:
    def work() -> None:
        tracer = traced.provider.get_tracer("program")
        with (
            Producer(traced.fleet.bootstrap, tracing=traced.provider) as producer,
            tracer.start_as_current_span("checkout"),
        ):
            producer.send("orders", b"one", queue=0)
            producer.send_nowait("orders", b"two", queue=0).result()

    await asyncio.to_thread(work)
    checkout = await traced.one("checkout")
    assert [parent_of(span) for span in traced.named("send orders")] == [context_of(checkout)] * 2


async def test_a_failed_send_is_a_failed_span(traced: Traced) -> None:
    async with AsyncProducer(traced.fleet.bootstrap, tracing=traced.provider) as producer:
        with pytest.raises(LedgerError):
            await producer.send("orders", b"x", queue=99)
    send = await traced.one("send orders")
    assert send.status.status_code is StatusCode.ERROR
    assert send.attributes is not None
    assert send.attributes["error.type"] == "UNKNOWN_QUEUE"


async def test_what_is_not_sampled_leaves_no_trace(traced: Traced) -> None:
    silent = TracerProvider(sampler=ALWAYS_OFF)
    async with (
        AsyncProducer(traced.fleet.bootstrap, tracing=silent) as producer,
        AsyncConsumer("orders", bootstrap_servers=traced.fleet.bootstrap) as consumer,
    ):
        await producer.send("orders", b"x", queue=0)
        await producer.send_many("orders", [b"y"], queue=0)
        assert [(await anext(consumer)).headers for _ in range(2)] == [(), ()]
    assert traced.spans() == ()


@pytest.mark.parametrize("traceparent", ["", "x", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "00-" + "1" * 32])
async def test_a_wrong_context_of_a_client_is_ignored(traced: Traced, traceparent: str) -> None:
    from ledger.slow_request import UNKNOWN_CLIENT, SlowRequest

    NodeSpans(1, traced.provider).produced(SlowRequest(0, 1.0, "Produce", UNKNOWN_CLIENT, ()), traceparent)
    assert traced.spans() == ()


async def test_a_wrong_value_of_the_setting_is_refused(traced: Traced) -> None:
    with pytest.raises(InvalidArgumentError, match="TracerProvider"):
        AsyncProducer(traced.fleet.bootstrap, tracing="yes")  # type: ignore[arg-type]
