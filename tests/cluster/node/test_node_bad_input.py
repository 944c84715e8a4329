"""Bad input over real gRPC: each fault has its Python type, its code on the wire, and a sentence with the useful facts.

One node serves all of these tests, and after each of them it still takes and gives messages.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio

from ledger.batch.header import BatchHeader, crc_of
from ledger.broker.fetch.tag_filter import MAX_FETCH_TAGS
from ledger.consumer_groups import MAX_QUEUES, MAX_QUEUES_OF_ENTRY
from ledger.errors import (
    CorruptBatchError,
    HeadersTooLargeError,
    InvalidArgumentError,
    InvalidTopicNameError,
    LedgerError,
    MessageTooLargeError,
    OffsetBeyondEndError,
    OffsetTooLowError,
    ProducerFencedError,
    SequenceGapError,
    TooManyHeadersError,
    TopicExistsError,
    UnknownQueueError,
    UnknownTopicError,
    UnsupportedBatchError,
    from_wire,
)
from ledger.v1 import broker_pb2, consumer_group_pb2, error_pb2
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import MESSAGE_LIMIT, Fleet, error_of, sample_batch

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

QUEUES = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("one-node"), nodes=1)
    await fleet.start()
    await fleet.leader()
    yield fleet
    await fleet.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def topic(fleet: Fleet) -> int:
    """A topic with two messages in queue 0."""
    topic_id = await fleet.create_topic("topic", QUEUES)
    assert error_of(await fleet.produce(1, sample_batch(topic_id, producer_id=1))) is None
    return topic_id


@pytest.fixture(scope="module")
def producers() -> random.Random:
    """New producer ids, so that no test uses the sequence numbers of another test."""
    return random.Random(2)


def with_fields(batch: bytes, **fields: int) -> bytes:
    """The batch with other values in its header, by the layout that header.py draws, and the CRC that belongs to them
    unless one is given."""
    places = {
        "magic": (0, "<I"), "crc": (4, "<I"), "version": (8, "<B"), "codec": (9, "<B"), "columns": (10, "<H"),
        "count": (12, "<I"), "size": (16, "<I"), "plain_size": (20, "<I"), "largest": (24, "<I"),
    }  # fmt: skip
    data = bytearray(batch)
    for name, value in fields.items():
        at, layout = places[name]
        struct.pack_into(layout, data, at, value)
    return bytes(data) if "crc" in fields else sealed(data)


def sealed(data: bytearray) -> bytes:
    """The bytes with a CRC that matches them."""
    struct.pack_into("<I", data, 4, crc_of(bytes(data)))
    return bytes(data)


async def test_the_places_of_header_fields_are_those_that_the_broker_reads() -> None:
    fields = {"codec": 1, "columns": 2, "count": 3, "size": 4, "plain_size": 5, "largest": 6}
    header = BatchHeader.parse(with_fields(sample_batch(1), **fields))
    assert {name: getattr(header, name) for name in fields} == fields


HUGE = 0xFFFF_FFFF
BATCHES: dict[str, tuple[dict[str, int], type[LedgerError], str, str]] = {
    "wrong CRC": ({"crc": 0x12345678}, CorruptBatchError, "CORRUPT_BATCH", "0x12345678"),
    "no batch at all": ({"magic": 0xDEAD}, CorruptBatchError, "CORRUPT_BATCH", "not a batch"),
    "unknown version": ({"version": 9}, UnsupportedBatchError, "UNSUPPORTED_BATCH", "version 9"),
    "unknown codec": ({"codec": 77}, UnsupportedBatchError, "UNSUPPORTED_BATCH", "codec 77"),
    "unknown column": ({"columns": 0x8000}, UnsupportedBatchError, "UNSUPPORTED_BATCH", "0x8000"),
    "no message": ({"count": 0}, CorruptBatchError, "CORRUPT_BATCH", "1 to 65535"),
    "more messages than there are": ({"count": 3}, CorruptBatchError, "CORRUPT_BATCH", ""),
    "fewer messages than there are": ({"count": 1}, CorruptBatchError, "CORRUPT_BATCH", ""),
    "absurd count": ({"count": HUGE}, CorruptBatchError, "CORRUPT_BATCH", "4294967295"),
    "absurd size": ({"size": HUGE}, CorruptBatchError, "CORRUPT_BATCH", "4294967295"),
    "absurd payload": ({"plain_size": HUGE}, CorruptBatchError, "CORRUPT_BATCH", "4294967295"),
    "absurd largest message": ({"largest": HUGE}, CorruptBatchError, "CORRUPT_BATCH", "4294967295"),
    "everything absurd": (
        {"count": HUGE, "size": HUGE, "plain_size": HUGE, "largest": HUGE},
        CorruptBatchError,
        "CORRUPT_BATCH",
        "4294967295",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BATCHES)
async def test_a_bad_batch_is_refused_by_type_code_and_sentence(
    fleet: Fleet, topic: int, producers: random.Random, fault: str
) -> None:
    fields, kind, code, fact = BATCHES[fault]
    good = sample_batch(topic, producer_id=producers.getrandbits(63))
    stream = fleet.stream(1)
    before = (await fleet.fetch(1, topic, 0)).end_offset

    refused, taken = [await stream.produce(batch) for batch in (with_fields(good, **fields), good)]

    stream.drop()
    error = error_of(refused)
    assert type(error) is kind
    assert error_pb2.Code.Name(refused.error.code) == code
    assert fact in error.message
    assert not error.retriable
    assert not taken.HasField("error")  # the stream and the broker go on
    assert taken.base_offset == before


@pytest.mark.parametrize("data", [b"", b"\0", b"LMQB", bytes(64), b"LMQB" + bytes(60), bytes(100_000)])
async def test_bytes_that_are_no_batch_are_corrupt(fleet: Fleet, topic: int, data: bytes) -> None:
    error = error_of(await fleet.produce(1, data))
    assert isinstance(error, (CorruptBatchError, UnsupportedBatchError))
    assert error.message


async def test_a_batch_cut_at_any_byte_is_corrupt(fleet: Fleet, topic: int) -> None:
    batch = sample_batch(topic)
    stream = fleet.stream(1)
    await stream.send(*(batch[:length] for length in range(len(batch))))
    answers = await stream.answer()
    stream.drop()
    assert {type(error_of(answer)) for answer in answers} == {CorruptBatchError}
    assert len(answers) == len(batch)


async def test_no_altered_bytes_shake_the_broker(fleet: Fleet, topic: int, producers: random.Random) -> None:
    """Change every byte in turn and correct the CRC. The batch is accepted or refused, and never causes an internal
    error."""
    rng = random.Random(7)
    stream = fleet.stream(1)
    answers: list[broker_pb2.ProduceResult] = []
    every_column: dict[str, Any] = {
        "keys": [b"key", None],
        "tags": ["tag", None],
        "headers": [[("name", b"value")], []],
        "timestamps_ms": [5, 6],
    }
    for at in range(8, len(sample_batch(topic, **every_column))):
        altered = []
        for _ in range(4):
            data = bytearray(sample_batch(topic, producer_id=producers.getrandbits(63), **every_column))
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            altered.append(sealed(data))
        await stream.send(*altered)
        answers += await stream.answer()
    stream.drop()
    codes = {error_pb2.Code.Name(answer.error.code) for answer in answers}
    assert codes <= {
        "CODE_UNSPECIFIED", "CORRUPT_BATCH", "UNSUPPORTED_BATCH", "UNKNOWN_TOPIC", "UNKNOWN_QUEUE", "SEQUENCE_GAP",
        "MESSAGE_TOO_LARGE", "INVALID_ARGUMENT",
    }  # fmt: skip
    assert {"CODE_UNSPECIFIED", "CORRUPT_BATCH", "UNKNOWN_TOPIC", "SEQUENCE_GAP"} <= codes
    for queue in range(QUEUES):  # what was taken can be fetched, to the end
        fetched = await fleet.fetch(1, topic, 0, queue=queue)
        while fetched.next_offset < fetched.end_offset:
            fetched = await fleet.fetch(1, topic, fetched.next_offset, queue=queue)
            assert error_of(fetched) is None
            assert fetched.batches


async def test_a_message_over_the_limit_is_refused_with_both_sizes(fleet: Fleet, topic: int) -> None:
    size = MESSAGE_LIMIT + 1
    answer = await fleet.produce(1, sample_batch(topic, [bytes(size)], producer_id=3))
    error = error_of(answer)
    assert type(error) is MessageTooLargeError
    assert answer.error.code == error_pb2.MESSAGE_TOO_LARGE
    assert str(size) in error.message
    assert str(MESSAGE_LIMIT) in error.message
    async with AsyncProducer(fleet.bootstrap) as producer:
        with pytest.raises(MessageTooLargeError, match=str(MESSAGE_LIMIT)):
            await producer.send("topic", bytes(size))


async def test_a_message_of_exactly_the_limit_is_taken(fleet: Fleet, topic: int) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = await producer.send("topic", bytes(MESSAGE_LIMIT), queue=1)
    fetched = await fleet.fetch(1, topic, sent.offset, queue=1)
    assert len(fetched.batches[0].body) > MESSAGE_LIMIT


async def test_a_batch_over_the_limit_of_batches_is_refused(fleet: Fleet, topic: int) -> None:
    values = [bytes(MESSAGE_LIMIT)] * 66  # 4.125 MiB: over one message's limit and 4 MiB
    error = error_of(await fleet.produce(1, sample_batch(topic, values, producer_id=4)))
    assert type(error) is InvalidArgumentError
    assert "smaller batches" in error.message


@pytest.mark.parametrize(
    ("headers", "kind", "code"),
    [
        ([("", b"")] * 129, TooManyHeadersError, "TOO_MANY_HEADERS"),
        ([("h", bytes(16 * 1024))], HeadersTooLargeError, "HEADERS_TOO_LARGE"),
    ],
)
async def test_headers_over_a_limit_are_refused_by_broker_and_client(
    fleet: Fleet, topic: int, headers: list[tuple[str, bytes]], kind: type[LedgerError], code: str
) -> None:
    answer = await fleet.produce(1, sample_batch(topic, [b"x"], producer_id=6, headers=[headers]))
    error = error_of(answer)
    assert type(error) is kind
    assert error_pb2.Code.Name(answer.error.code) == code
    async with AsyncProducer(fleet.bootstrap) as producer:
        with pytest.raises(kind) as refused:
            await producer.send("topic", b"x", headers=headers)
    assert refused.value.message == error.message


async def test_users_neither_make_nor_change_nor_write_to_topics_of_the_broker(fleet: Fleet) -> None:
    """The retry topics exist, because a consumer group has requested them."""
    broker = fleet.broker(1)
    request = consumer_group_pb2.PrepareRetriesRequest(consumer_group="billing")
    made = await fleet.stub(1).PrepareRetries(request, timeout=10)
    assert not made.HasField("error")
    for topic in (made.retry, made.dead_letters):
        answers = [
            await broker.CreateTopic(broker_pb2.CreateTopicRequest(name=topic.name, queues=1), timeout=5),
            await broker.AlterTopic(broker_pb2.AlterTopicRequest(name=topic.name, queues=900), timeout=5),
            await fleet.produce(1, sample_batch(topic.topic_id, producer_id=8)),
        ]
        assert [type(error_of(answer)) for answer in answers] == [InvalidTopicNameError] * 3
        assert (await fleet.fetch(1, topic.topic_id, 0)).end_offset == 0
        others = broker_pb2.CreateTopicRequest(name=f"{topic.name}-2", queues=1)
        assert type(error_of(await broker.CreateTopic(others, timeout=5))) is InvalidTopicNameError
        (route,) = (await broker.GetRoute(broker_pb2.GetRouteRequest(topics=[topic.name]), timeout=5)).topics
        assert route == topic


async def test_unknown_topics_and_queues_have_errors_of_their_own(fleet: Fleet, topic: int) -> None:
    for topic_id in (0, topic + 1000, HUGE):
        answer = await fleet.produce(1, sample_batch(topic_id, producer_id=5))
        assert type(error_of(answer)) is UnknownTopicError
        assert str(topic_id) in answer.error.message
        fetched = await fleet.fetch(1, topic_id, 0)
        assert type(error_of(fetched)) is UnknownTopicError
    for queue in (QUEUES, HUGE):
        answer = await fleet.produce(1, sample_batch(topic, queue=queue, producer_id=5))
        assert type(error_of(answer)) is UnknownQueueError
        assert f"its last queue is {QUEUES - 1}" in answer.error.message
        fetched = await fleet.fetch(1, topic, 0, queue=queue)
        assert type(error_of(fetched)) is UnknownQueueError
    with pytest.raises(UnknownTopicError, match="nowhere"):
        async with AsyncConsumer("nowhere", bootstrap_servers=fleet.bootstrap):
            pass
    async with AsyncProducer(fleet.bootstrap) as producer:
        with pytest.raises(UnknownTopicError, match="nowhere"):
            await producer.send("nowhere", b"x")
        with pytest.raises(UnknownQueueError, match="queues are 0 to 1"):
            await producer.send("topic", b"x", queue=QUEUES)


async def test_offsets_outside_the_queue_are_refused_with_the_valid_range(fleet: Fleet, topic: int) -> None:
    end = (await fleet.fetch(1, topic, 0)).end_offset
    cases = {
        -1: (OffsetTooLowError, error_pb2.OFFSET_TOO_LOW),
        -(1 << 63): (OffsetTooLowError, error_pb2.OFFSET_TOO_LOW),
        end + 1: (OffsetBeyondEndError, error_pb2.OFFSET_BEYOND_END),
        (1 << 63) - 1: (OffsetBeyondEndError, error_pb2.OFFSET_BEYOND_END),
    }
    for offset, (kind, code) in cases.items():
        fetched = await fleet.fetch(1, topic, offset, max_wait_ms=10_000)  # no need to wait: nothing would change
        error = error_of(fetched)
        assert type(error) is kind
        assert fetched.error.code == code
        assert (error.first_offset, error.end_offset) == (0, end)
        assert f"valid are 0 to {end}" in error.message
    assert error_of(await fleet.fetch(1, topic, end)) is None  # the end itself is where a consumer waits
    async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, start=end + 5, queues=[0]) as consumer:
        with pytest.raises(OffsetBeyondEndError, match=f"valid are 0 to {end}"):
            await consumer.getmany(timeout_ms=10_000)


NAMES = ["", ".", "..", "%retry", "a b", "ä", "a/b", "x" * 128, "line\n"]


@pytest.mark.parametrize("name", NAMES)
async def test_topic_names_that_cannot_be_are_refused(fleet: Fleet, name: str) -> None:
    request = broker_pb2.CreateTopicRequest(name=name, queues=1)
    answer = await fleet.broker(1).CreateTopic(request, timeout=5)
    error = error_of(answer)
    assert type(error) is InvalidTopicNameError
    assert answer.error.code == error_pb2.INVALID_TOPIC_NAME
    assert error.message
    async with AsyncAdmin(fleet.bootstrap) as admin:
        with pytest.raises(InvalidTopicNameError):
            await admin.create_topic(name)
    async with AsyncProducer(fleet.bootstrap) as producer:
        with pytest.raises(InvalidTopicNameError):
            await producer.send(name, b"x")


@pytest.mark.parametrize("queues", [0, 1025, HUGE])
async def test_queue_counts_that_cannot_be_are_refused(fleet: Fleet, queues: int) -> None:
    answer = await fleet.broker(1).CreateTopic(broker_pb2.CreateTopicRequest(name="q", queues=queues), timeout=5)
    assert type(error_of(answer)) is InvalidArgumentError
    assert "1024" in answer.error.message


async def test_a_topic_that_exists_is_refused_by_name(fleet: Fleet, topic: int) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        with pytest.raises(TopicExistsError, match="topic") as caught:
            await admin.create_topic("topic", QUEUES)
    assert caught.value.code == "TOPIC_EXISTS"


async def test_two_creations_at_once_make_one_topic(fleet: Fleet) -> None:
    request = broker_pb2.CreateTopicRequest(name="both", queues=3)
    answers = await asyncio.gather(*(fleet.broker(1).CreateTopic(request, timeout=5) for _ in range(5)))
    errors = [error_of(answer) for answer in answers]
    assert sorted(type(error).__name__ for error in errors) == ["NoneType"] + ["TopicExistsError"] * 4


async def test_offsets_of_topics_and_queues_that_are_not_there(fleet: Fleet, topic: int) -> None:
    for request, kind in (
        (broker_pb2.ListOffsetsRequest(topic_id=HUGE), UnknownTopicError),
        (broker_pb2.ListOffsetsRequest(topic_id=topic, queues=[0, 9]), UnknownQueueError),
    ):
        for linearizable in (False, True):
            request.linearizable = linearizable
            response = await fleet.broker(1).ListOffsets(request, timeout=5)
            assert type(error_of(response)) is kind


async def test_what_a_request_names_twice_is_answered_once(fleet: Fleet, topic: int) -> None:
    """A small request that repeats a name would have a response of megabytes."""
    route = await fleet.broker(1).GetRoute(broker_pb2.GetRouteRequest(topics=["topic"] * 1_000), timeout=5)
    assert [each.name for each in route.topics] == ["topic"]
    offsets = await fleet.broker(1).ListOffsets(
        broker_pb2.ListOffsetsRequest(topic_id=topic, queues=[1, 0] * 1_000), timeout=5
    )
    assert [each.queue for each in offsets.queues] == [1, 0]


async def test_a_fetch_can_want_a_bounded_number_of_tags(fleet: Fleet, topic: int) -> None:
    queue = broker_pb2.QueueFetch(topic_id=topic, tag_hashes=range(MAX_FETCH_TAGS + 1))
    response = await fleet.broker(1).Fetch(broker_pb2.FetchRequest(queues=[queue]), timeout=5)
    assert isinstance(error_of(response.queues[0]), InvalidArgumentError)


async def test_claims_of_many_queues_are_several_entries(fleet: Fleet, topic: int) -> None:
    claims = [consumer_group_pb2.QueueClaim(topic_id=topic, queue=n % QUEUES) for n in range(MAX_QUEUES + 1)]
    request = consumer_group_pb2.ClaimRequest(consumer_group="many", queues=claims)
    assert isinstance(error_of(await fleet.stub(1).Claim(request, timeout=5)), InvalidArgumentError)
    del request.queues[MAX_QUEUES_OF_ENTRY * 2 + 1 :]
    before = (await fleet.status(1)).last_index
    response = await fleet.stub(1).Claim(request, timeout=10)
    assert len(response.queues) == len(request.queues)
    assert (await fleet.status(1)).last_index == before + 3


async def test_a_gap_in_a_sequence_and_an_old_epoch_are_refused(fleet: Fleet, topic: int) -> None:
    gap = error_of(await fleet.produce(1, sample_batch(topic, producer_id=11, first_sequence=5)))
    assert type(gap) is SequenceGapError
    assert gap.retriable
    assert error_of(await fleet.produce(1, sample_batch(topic, producer_id=11, epoch=3))) is None
    fenced = error_of(await fleet.produce(1, sample_batch(topic, producer_id=11, epoch=2)))
    assert type(fenced) is ProducerFencedError
    assert not fenced.retriable


async def test_a_request_without_batches_is_answered_without_results(fleet: Fleet) -> None:
    stream = fleet.stream(1)
    await stream.send()
    assert await stream.answer() == []
    stream.drop()


async def test_raw_bytes_instead_of_a_request_end_the_call_and_nothing_else(
    fleet: Fleet, topic: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with grpc.aio.insecure_channel(fleet.address(1)) as channel:
        for method in ("Fetch", "GetRoute", "ListOffsets", "CreateTopic"):
            call: Any = channel.unary_unary(f"/ledger.v1.Broker/{method}")
            with pytest.raises(grpc.aio.AioRpcError):
                await call(b"\xff" * 100, timeout=5)
    caplog.clear()  # gRPC itself tells of each
    assert error_of(await fleet.fetch(1, topic, 0)) is None


async def test_a_client_that_goes_away_in_mid_stream_disturbs_nobody(
    fleet: Fleet, topic: int, producers: random.Random
) -> None:
    """The client's batches may be stored or not, whole and in order. Other clients are served all the time."""
    gone = [producers.getrandbits(63) for _ in range(20)]
    before = (await fleet.fetch(1, topic, 0, queue=1)).end_offset
    for producer_id in gone:
        stream = fleet.stream(1)
        for number in range(8):
            values = [b"%d-%d" % (producer_id, number)] * 3
            await stream.send(sample_batch(topic, values, queue=1, producer_id=producer_id, first_sequence=3 * number))
        stream.drop()
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = await producer.send("topic", b"still here", queue=1)
    async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, start=before, queues=[1]) as consumer:
        values = [(await anext(consumer)).value for _ in range(sent.offset + 1 - before)]
    assert values[-1] == b"still here"
    for producer_id in gone:
        own = [value for value in values if value.startswith(b"%d-" % producer_id)]
        assert own == [b"%d-%d" % (producer_id, number) for number in range(len(own) // 3) for _ in range(3)]


async def test_a_code_that_is_not_known_keeps_its_number_and_sentence() -> None:
    error = from_wire(error_pb2.Error(code=299, message="from a newer broker"))  # type: ignore[arg-type]
    assert type(error) is LedgerError
    assert (error.code, error.message, error.retriable) == ("299", "from a newer broker", True)
