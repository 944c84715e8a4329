"""The rules for names of topics, for their numbers of queues, and for the messages that their types allow.

Clients check the names and the numbers of queues before they send a request. Leaders check the rules again before they
propose an entry, and replicas when they apply the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import SupportsIndex

from ledger.consumer_groups import validate_group_name
from ledger.errors import InvalidArgumentError, InvalidTopicNameError
from ledger.retries import consumer_group_of
from ledger.timed import TIMED_TOPIC
from ledger.transactions import HALF_TOPIC

# The shard that stores the list of topics and the list of shards.
TOPICS_SHARD = 0

MAX_QUEUES = 1024
# Topics of users, and all their queues. The leader refuses more before it proposes an entry.
MAX_TOPICS = 50_000
MAX_ALL_QUEUES = 200_000
# Retry topics and dead-letter topics: a user who may consume as a group can let nodes create the group's topics.
MAX_GROUP_TOPICS = 50_000
MAX_REPLICAS = 9
MAX_NAME_LENGTH = 127

# Topics that no client reads, and the commands that show what waits in them.
HIDDEN_TOPICS = {TIMED_TOPIC: "ledgermq timer list", HALF_TOPIC: "ledgermq transaction list"}

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,127}", re.ASCII)


class TopicType(IntEnum):
    """What producers may send to a topic. The numbers are those of `ledger.v1.TopicType`.

    MIXED        everything
    NORMAL       messages without delivery times and outside of transactions
    FIFO         the same, and each message has a key: messages with one key are handled in their order
    DELAY        only messages with delivery times
    TRANSACTION  only messages of transactions
    """

    MIXED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4

    @property
    def word(self) -> str:
        """The name by which people call the type."""
        return self.name.lower()


TOPIC_TYPES = {each.word: each for each in TopicType}


def topic_type_of(word: str) -> TopicType:
    """Return the type that people call `word`. Raises InvalidArgumentError."""
    found = TOPIC_TYPES.get(word) if isinstance(word, str) else None
    if found is None:
        raise InvalidArgumentError(f"{_shown(word)} is no type of a topic: use {', '.join(TOPIC_TYPES)}.")
    return found


def topic_names(topics: Iterable[str | Iterable[str]]) -> tuple[str, ...]:
    """Return the names that a consumer was given, as arguments or in lists, each once. Raises InvalidArgumentError if
    there is none."""
    names = tuple(dict.fromkeys(name for given in topics for name in _names_in(given)))
    if not names:
        raise InvalidArgumentError("A consumer needs at least one topic.")
    return names


def _names_in(given: object) -> Iterable[str]:
    names = given if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    for name in names:
        if not isinstance(name, str):
            raise InvalidTopicNameError(f"A topic's name must be a str; it is {name!r}.")
        if not _is_unicode(name):
            raise InvalidTopicNameError(f"The topic name {_shown(name)} cannot be encoded as UTF-8.")
        yield name


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicNameError if users are not allowed to create a topic with this name."""
    if not isinstance(name, str):
        raise InvalidTopicNameError(f"A topic's name must be a str, not {type(name).__name__}.")
    if is_system_topic(name):
        raise InvalidTopicNameError(
            f"The topic name {_shown(name)} is reserved: names that begin with '%' belong to the broker. Choose a name "
            "without '%' at the beginning."
        )
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopicNameError(
            f"The topic name {_shown(name)} has {len(name)} characters; the limit is {MAX_NAME_LENGTH}. "
            "Choose a shorter name."
        )
    if name in (".", "..") or not _NAME.fullmatch(name):
        raise InvalidTopicNameError(
            f"{_shown(name)} is not a valid topic name: use 1 to {MAX_NAME_LENGTH} of the characters "
            "A-Z a-z 0-9 _ . - but not '.' or '..' alone."
        )


def validate_stored_name(name: str) -> None:
    """Raise an error if no topic of this name can exist: neither a user's topic, nor a consumer group's retry or
    dead-letter topic, nor the topics of waiting messages and half batches.

    Raises InvalidTopicNameError, or InvalidGroupNameError if the name after `%RETRY%` or `%DLQ%` is invalid.
    """
    consumer_group = consumer_group_of(name)
    if consumer_group is not None:
        validate_group_name(consumer_group)
    elif name not in HIDDEN_TOPICS:
        validate_topic_name(name)


def validate_queue_count(queues: int) -> None:
    """Raise InvalidArgumentError if a topic cannot have `queues` queues."""
    if not isinstance(queues, SupportsIndex) or isinstance(queues, bool) or not 1 <= queues.__index__() <= MAX_QUEUES:
        raise InvalidArgumentError(f"A topic cannot have {queues!r} queues: choose 1 to {MAX_QUEUES}.")


def validate_replicas(replicas: int) -> None:
    """Raise InvalidArgumentError if a shard cannot have `replicas` replicas."""
    if (
        not isinstance(replicas, SupportsIndex)
        or isinstance(replicas, bool)
        or not 1 <= replicas.__index__() <= MAX_REPLICAS
    ):
        raise InvalidArgumentError(f"A shard cannot have {replicas!r} replicas: choose 1 to {MAX_REPLICAS}.")


def validate_topic_type(number: int) -> None:
    """Raise InvalidArgumentError if no type of a topic has this number."""
    if number not in TOPIC_TYPES.values():
        raise InvalidArgumentError(f"There is no type {number} of a topic: use 0 to {max(TOPIC_TYPES.values()):d}.")


def is_system_topic(name: str) -> bool:
    """Return True if the name is reserved for topics of the broker, such as retry topics."""
    return name.startswith("%")


def check_readable(name: str) -> None:
    """Raise InvalidTopicNameError if consumers may not read the topic: its messages wait for their delivery times or
    for the end of their transactions, and the rights on them are those on their target topics."""
    if name in HIDDEN_TOPICS:
        raise InvalidTopicNameError(
            f"topic {name!r} is internal: its messages wait there, and consumers receive them from their own topics "
            f"(`{HIDDEN_TOPICS[name]}`)"
        )


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: object) -> str:
    if not isinstance(name, str):
        return repr(name)
    return repr(name if len(name) <= MAX_NAME_LENGTH + 1 else name[:MAX_NAME_LENGTH] + "...")
