"""The names of consumer groups and members, and the limits on their numbers.

Clients check these rules before they send, brokers before they propose, and the state machine when it applies.
"""

from __future__ import annotations

import re

import xxhash

from ledger.errors import InvalidArgumentError, InvalidGroupNameError

MAX_NAME_LENGTH = 63
MAX_MEMBER_LENGTH = 127
MAX_CONSUMER_GROUPS = 10_000
# Of one consumer group.
MAX_MEMBERS = 10_000
MAX_SUBSCRIPTIONS = 256
# Of all topics of one consumer group together.
MAX_QUEUES = 20_000
# Queues that one member may be configured with.
MAX_CONFIGURED = 1024
# shards of which a member may tell the rooms.
MAX_ROOMS = 1024
MIN_SESSION_MS, MAX_SESSION_MS = 1_000, 300_000
# Offsets at which a consumer group may begin with a queue: the leader knows which ones they are.
AT_THE_FIRST, BEHIND_THE_LAST = -1, -2
STRATEGIES = ("average", "circle", "consistent_hash", "machine_room", "nearest_machine_room", "by_configuration")

# Those strategies for which it matters where queues are.
BY_ROOM = frozenset({"machine_room", "nearest_machine_room"})

_OF = "@"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}", re.ASCII)
_MEMBER = re.compile(r"[!-~]{1,127}", re.ASCII)
_FREE_TEXT = 127


def coordinator_shard(name: str, shards: int) -> int:
    """The shard whose leader coordinates this consumer group, in a cluster that began with so many."""
    return xxhash.xxh3_64_intdigest(name.encode()) % shards


def validate_group_name(name: str) -> None:
    """Raise InvalidGroupNameError unless users may name a consumer group so."""
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidGroupNameError(
            f"The consumer group's name {name[: MAX_NAME_LENGTH + 1]!r}... has {len(name)} characters and may have "
            f"{MAX_NAME_LENGTH}: choose a shorter one."
        )
    if name in (".", "..") or not _NAME.fullmatch(name):
        raise InvalidGroupNameError(
            f"{name[: MAX_NAME_LENGTH + 1]!r} cannot be a consumer group's name: use 1 to {MAX_NAME_LENGTH} of the "
            "characters A-Z a-z 0-9 _ . - and neither '.' nor '..' alone."
        )


def broadcast_name(consumer_group: str, instance: str) -> str:
    """Under which the progress of that consumer of a broadcast is kept. Raises InvalidGroupNameError unless both may be
    named so."""
    validate_group_name(consumer_group)
    validate_group_name(instance)
    return f"{consumer_group}{_OF}{instance}"


def is_broadcast(name: str) -> bool:
    """Whether that is the name of one consumer of a broadcast."""
    return _OF in name


def validate_consumed_name(name: str) -> None:
    """Raise InvalidGroupNameError unless progress may be kept under that name: of a consumer group, or of one consumer
    of a broadcast."""
    for part in name.split(_OF, 1):
        validate_group_name(part)


def validate_member(member: str, *, client_id: str, strategy: str, room: str, session_timeout_ms: int) -> None:
    """Raise InvalidArgumentError unless there may be such a member."""
    if not _MEMBER.fullmatch(member):
        raise InvalidArgumentError(
            f"{member[:MAX_MEMBER_LENGTH]!r} cannot be a member's name: use 1 to {MAX_MEMBER_LENGTH} printable ASCII "
            "characters without spaces."
        )
    _check_length("client id", client_id)
    validate_room(room)
    if strategy not in STRATEGIES:
        raise InvalidArgumentError(f"{strategy!r} is no way to assign queues: choose one of {', '.join(STRATEGIES)}.")
    if not MIN_SESSION_MS <= session_timeout_ms <= MAX_SESSION_MS:
        raise InvalidArgumentError(
            f"A session cannot last {session_timeout_ms} ms: choose {MIN_SESSION_MS} to {MAX_SESSION_MS} ms."
        )


def validate_room(room: str) -> None:
    """Raise InvalidArgumentError unless a machine room may be called so; the empty name is that of none."""
    _check_length("machine room", room)


def _check_length(what: str, text: str) -> None:
    if len(text.encode()) > _FREE_TEXT:
        raise InvalidArgumentError(f"The {what} {text[:_FREE_TEXT]!r}... is longer than {_FREE_TEXT} bytes.")
