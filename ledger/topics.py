"""The rules for topic names and numbers of queues.

Clients check these rules before they send, brokers before they propose, and the state machine when it applies.
"""

from __future__ import annotations

import re

from ledger.consumer_groups import validate_group_name
from ledger.errors import InvalidArgumentError, InvalidTopicNameError
from ledger.retries import consumer_group_of

# The shard that has all topics, and says which other shards there are.
TOPICS_SHARD = 0

MAX_QUEUES = 1024
MAX_NAME_LENGTH = 127

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,127}", re.ASCII)


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicNameError unless users may name a topic so."""
    if is_system_topic(name):
        raise InvalidTopicNameError(
            f"Topic name {_shown(name)} is reserved: names that begin with '%' belong to the broker; choose another."
        )
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopicNameError(
            f"Topic name {_shown(name)} has {len(name)} characters and may have {MAX_NAME_LENGTH}: "
            "choose a shorter one."
        )
    if name in (".", "..") or not _NAME.fullmatch(name):
        raise InvalidTopicNameError(
            f"{_shown(name)} cannot be a topic's name: use 1 to {MAX_NAME_LENGTH} of the characters A-Z a-z 0-9 _ . - "
            "and neither '.' nor '..' alone."
        )


def validate_stored_name(name: str) -> None:
    """Raise InvalidTopicNameError unless there may be such a topic: of a user, or of the broker for a consumer
    shard."""
    consumer_group = consumer_group_of(name)
    if consumer_group is None:
        validate_topic_name(name)
    else:
        validate_group_name(consumer_group)


def validate_queue_count(queues: int) -> None:
    """Raise InvalidArgumentError unless a topic may have so many queues."""
    if not 1 <= queues <= MAX_QUEUES:
        raise InvalidArgumentError(f"A topic cannot have {queues} queues: choose 1 to {MAX_QUEUES}.")


def is_system_topic(name: str) -> bool:
    """Whether the name lies in the broker's own space."""
    return name.startswith("%")


def _shown(name: str) -> str:
    return repr(name if len(name) <= MAX_NAME_LENGTH + 1 else name[:MAX_NAME_LENGTH] + "...")
