"""Prepares the topic of a load: creates it if it does not exist, describes it, and fills it."""

from __future__ import annotations

import contextlib
from random import Random

from cluster.load.calls import CallRecorder, ProducerCall, Receipt, make_call
from cluster.load.failure import LoadError
from cluster.load.seeded_payloads import same_size_payloads
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import TopicDescription
from ledger.errors import LedgerError, TopicExistsError, UnknownTopicError

REQUEST_TIMEOUT_MS = 10_000


async def prepare_topic(bootstrap: str, topic: str, queues: int | None, default: int = 4) -> TopicDescription:
    """Create the topic if it does not exist, with `queues` queues (or `default` queues if `queues` is None). Return
    the description of the topic.

    Raises LoadError if the topic exists and has another number of queues.
    """
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        with contextlib.suppress(TopicExistsError):
            await admin.create_topic(topic, queues=queues or default)
        found = await admin.describe_topic(topic)
    if queues is not None and found.queues != queues:
        raise LoadError(
            f"topic {topic} exists and has {found.queues} queues, not {queues}: leave out --queues, name another "
            f"--topic, or delete it (`ledgermq topic delete {topic}`)"
        )
    return found


async def filled_topic(bootstrap: str, topic: str) -> TopicDescription:
    """Return the description of a topic that has messages, with its offsets. Raises LoadError if the topic does not
    exist or has no messages."""
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        try:
            found = await admin.describe_topic(topic)
        except UnknownTopicError as error:
            raise _nothing(topic, "does not exist") from error
    if messages_in(found) == 0:
        raise _nothing(topic, "is empty")
    return found


def messages_in(topic: TopicDescription) -> int:
    """Return how many messages the topic has."""
    return sum(each.end_offset - each.first_offset for each in topic.offsets)


async def fill_topic(
    bootstrap: str, topic: str, queues: int, *, calls: int, call_messages: int, message_bytes: int
) -> None:
    """Create the topic if necessary, and send the same random messages `calls` times. Return when the last call has
    a result."""
    await prepare_topic(bootstrap, topic, queues)
    values = same_size_payloads(Random(), call_messages, message_bytes)
    recorder: CallRecorder = _NoFailures()
    async with AsyncProducer(bootstrap) as producer:
        for _ in range(calls):
            await make_call(producer, ProducerCall("send-many", topic, values), recorder)


class _NoFailures:
    """A recorder that ends the load at the first failure."""

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None: ...

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        raise error


def _nothing(topic: str, why: str) -> LoadError:
    return LoadError(f"topic {topic} {why}: fill it first, `ledgermq bench produce --topic {topic}`")
