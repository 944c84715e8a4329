"""The rules for names of consumer groups and members, and the limits on their numbers.

Clients check the names and numbers before they send a request. Leaders check the rules again before they propose an
entry, and replicas when they apply the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Sized
from typing import TypeVar

from ledger.errors import InvalidArgumentError, InvalidGroupNameError

MAX_NAME_LENGTH = 63
MAX_MEMBER_LENGTH = 127
MAX_CONSUMER_GROUPS = 10_000
# Members and subscribed topics of one consumer group.
MAX_MEMBERS = 10_000
MAX_SUBSCRIPTIONS = 256
# Queues of all topics of one consumer group together.
MAX_QUEUES = 20_000
# Queues in one entry of the log that claims queues or stores offsets. All replicas apply an entry in one go, and larger
# ones would hold up heartbeats.
MAX_QUEUES_OF_ENTRY = 1_000
# Queues in the configuration of one member (strategy by_configuration).
MAX_CONFIGURED = 1024
# Queues in the configurations of all members of a consumer group together. Leaders check it.
MAX_CONFIGURED_OF_GROUP = 100_000
# Shards whose machine rooms one member may report.
MAX_ROOMS = 1024
MIN_SESSION_MS, MAX_SESSION_MS = 1_000, 300_000
# A consumer group may start a queue at its first message or after its last one. These two numbers stand for the
# offsets, which the leader of the queue's shard knows.
AT_THE_FIRST, BEHIND_THE_LAST = -1, -2
STRATEGIES = ("average", "circle", "consistent_hash", "machine_room", "nearest_machine_room", "by_configuration")

# The strategies that use the machine rooms of queues and consumers.
BY_ROOM = frozenset({"machine_room", "nearest_machine_room"})

_OF = "@"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}", re.ASCII)
_MEMBER = re.compile(r"[!-~]{1,127}", re.ASCII)
_FREE_TEXT = 127

Each = TypeVar("Each")


def validate_group_name(name: str) -> None:
    """Raise InvalidGroupNameError if `name` is not a valid consumer group name."""
    _check_name(name)
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidGroupNameError(
            f"The consumer group name {name[: MAX_NAME_LENGTH + 1]!r}... has {len(name)} characters; the limit is "
            f"{MAX_NAME_LENGTH}. Choose a shorter name."
        )
    if name in (".", "..") or not _NAME.fullmatch(name):
        raise InvalidGroupNameError(
            f"{name[: MAX_NAME_LENGTH + 1]!r} is not a valid consumer group name: use 1 to {MAX_NAME_LENGTH} of the "
            "characters A-Z a-z 0-9 _ . - but not '.' or '..' alone."
        )


def broadcast_name(consumer_group: str, instance: str) -> str:
    """Return the name under which the cluster stores the progress of one consumer of a broadcast.

    Raises InvalidGroupNameError if the consumer group or the instance has an invalid name.
    """
    validate_group_name(consumer_group)
    validate_group_name(instance)
    return f"{consumer_group}{_OF}{instance}"


def is_broadcast(name: str) -> bool:
    """Return True if `name` is the name of one consumer of a broadcast, in the form that `broadcast_name` returns."""
    return _OF in name


def group_of(name: str) -> str:
    """Return the consumer group to which a name belongs that may be the name of a broadcast's consumer."""
    return name.partition(_OF)[0]


def validate_consumed_name(name: str) -> None:
    """Raise InvalidGroupNameError if `name` is neither the name of a consumer group nor the name of a broadcast's
    consumer."""
    _check_name(name)
    for part in name.split(_OF, 1):
        validate_group_name(part)


def check_queue_count(queues: Sized) -> None:
    """Raise InvalidArgumentError if a request names more queues than a consumer group can have."""
    if len(queues) > MAX_QUEUES:
        raise InvalidArgumentError(f"A request names {len(queues)} queues of a consumer group: at most {MAX_QUEUES}.")


def parts_of_entries(queues: Sequence[Each]) -> Iterator[Sequence[Each]]:
    """Return the queues in parts of MAX_QUEUES_OF_ENTRY."""
    return (queues[at : at + MAX_QUEUES_OF_ENTRY] for at in range(0, len(queues), MAX_QUEUES_OF_ENTRY))


def validate_member_name(member: str) -> None:
    """Raise InvalidArgumentError if `member` is not a valid name of a member."""
    if not _MEMBER.fullmatch(member):
        raise InvalidArgumentError(
            f"{member[:MAX_MEMBER_LENGTH]!r} is not a valid member name: use 1 to {MAX_MEMBER_LENGTH} printable ASCII "
            "characters without spaces."
        )


def validate_member(member: str, *, client_id: str, strategy: str, room: str, session_timeout_ms: int) -> None:
    """Raise InvalidArgumentError if a field of a consumer group's member is invalid."""
    validate_member_name(member)
    _check_length("client id", client_id)
    validate_room(room)
    if strategy not in STRATEGIES:
        raise InvalidArgumentError(
            f"{strategy!r} is not a strategy for assigning queues: choose one of {', '.join(STRATEGIES)}."
        )
    if not MIN_SESSION_MS <= session_timeout_ms <= MAX_SESSION_MS:
        raise InvalidArgumentError(
            f"A session timeout of {session_timeout_ms} ms is not allowed: choose {MIN_SESSION_MS} to "
            f"{MAX_SESSION_MS} ms."
        )


def validate_room(room: str) -> None:
    """Raise InvalidArgumentError if the name of a machine room is too long. An empty name means "no machine room"."""
    _check_length("machine room", room)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise InvalidGroupNameError(f"A consumer group's name must be a str; it is {name!r}.")


def _check_length(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise InvalidArgumentError(f"The {what} must be a str; it is {text!r}.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"The {what} cannot be encoded as UTF-8; it is {text!r}.") from None
    if size > _FREE_TEXT:
        raise InvalidArgumentError(
            f"The {what} {text[:_FREE_TEXT]!r}... is longer than {_FREE_TEXT} bytes: choose a shorter one."
        )
