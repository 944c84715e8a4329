"""The topic of a measurement: made where it is not there yet, and how much lies in it."""

from __future__ import annotations

import contextlib

from cluster.bench.failure import BenchError
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import TopicDescription
from ledger.errors import TopicExistsError, UnknownTopicError

REQUEST_TIMEOUT_MS = 10_000


async def prepare_topic(bootstrap: str, topic: str, queues: int | None, default: int = 4) -> TopicDescription:
    """The topic, made with so many queues (None: `default`) where it is not there; BenchError where it has others."""
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        with contextlib.suppress(TopicExistsError):
            await admin.create_topic(topic, queues=queues or default)
        found = await admin.describe_topic(topic)
    if queues is not None and found.queues != queues:
        raise BenchError(
            f"topic {topic} is there and has {found.queues} queues, not {queues}: leave out --queues, name another "
            f"--topic, or delete it (`ledgermq topic delete {topic}`)"
        )
    return found


async def filled_topic(bootstrap: str, topic: str) -> TopicDescription:
    """With its offsets; BenchError where there is nothing in it."""
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        try:
            found = await admin.describe_topic(topic)
        except UnknownTopicError as error:
            raise _nothing(topic, "is not there") from error
    if messages_in(found) == 0:
        raise _nothing(topic, "is empty")
    return found


def messages_in(topic: TopicDescription) -> int:
    return sum(each.end_offset - each.first_offset for each in topic.offsets)


def _nothing(topic: str, why: str) -> BenchError:
    return BenchError(f"topic {topic} {why}: fill it first, `ledgermq bench produce --topic {topic}`")
