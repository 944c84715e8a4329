"""The names of topics and consumer groups: RocketMQ's rules, and the names that the cluster uses.

A topic has the same name for both kinds of clients. A consumer group too, if its name is at most 63 characters long and
has neither `%` nor `|`; otherwise the cluster has the group under a shorter name, which ends in a hash of the whole
name. The dead letters of a group are the topic `%DLQ%GROUP` for both.
"""

from __future__ import annotations

import re

import xxhash

from ledger.consumer_groups import MAX_NAME_LENGTH
from ledger.retries import DEAD_LETTERS, dead_letter_topic
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb

MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = 120
# Topics and groups that RocketMQ's brokers keep for themselves.
_SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
_SYSTEM_TOPIC_PREFIX = "rmq_sys_"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_NOT_NATIVE = re.compile(r"[%|]")
# The hash at the end of the cluster's name of a group, with its separator.
_HASH_LENGTH = 17


def topic_of(resource: pb.Resource) -> str:
    """Return the cluster's name of the topic. Raises FrontRefusal."""
    name = resource.name
    if not name or len(name) > MAX_TOPIC_LENGTH or not _NAME.fullmatch(name):
        raise FrontRefusal(
            pb.ILLEGAL_TOPIC,
            f"{_shown(name)} is no name of a topic: use 1 to {MAX_TOPIC_LENGTH} of the characters A-Z a-z 0-9 _ - % |",
        )
    if name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIX):
        raise FrontRefusal(pb.ILLEGAL_TOPIC, f"the topic name {_shown(name)} is reserved for the broker")
    if name.startswith(DEAD_LETTERS):
        return dead_letter_topic(_native_group(name.removeprefix(DEAD_LETTERS)))
    return name


def group_of(resource: pb.Resource) -> str:
    """Return the cluster's name of the consumer group. Raises FrontRefusal."""
    name = resource.name
    if not name or len(name) > MAX_GROUP_LENGTH or not _NAME.fullmatch(name):
        raise FrontRefusal(
            pb.ILLEGAL_CONSUMER_GROUP,
            f"{_shown(name)} is no name of a consumer group: use 1 to {MAX_GROUP_LENGTH} of the characters "
            "A-Z a-z 0-9 _ - % |",
        )
    if name.startswith(_SYSTEM_GROUP_PREFIX):
        raise FrontRefusal(pb.ILLEGAL_CONSUMER_GROUP, f"the group name {_shown(name)} is reserved for the broker")
    return _native_group(name)


def producer_group_of(topic: str) -> str:
    """Return the producer group of transactions whose messages go to this topic. RocketMQ's clients name no producer
    group."""
    return _native_group(f"rocketmq.{topic}")


def _native_group(name: str) -> str:
    if name and len(name) <= MAX_NAME_LENGTH and not _NOT_NATIVE.search(name):
        return name
    kept = _NOT_NATIVE.sub("_", name)[: MAX_NAME_LENGTH - _HASH_LENGTH]
    return f"{kept}.{xxhash.xxh3_64_hexdigest(name.encode())}"


def _shown(name: str) -> str:
    return repr(name if len(name) <= MAX_TOPIC_LENGTH else name[:MAX_TOPIC_LENGTH] + "...")
