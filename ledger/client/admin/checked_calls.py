"""Checks the arguments of an admin client's calls before a call does anything.

In all calls, arguments of one name have one meaning, so a table of names says what each may be. Without the table, a
wrong argument would raise an error of protobuf, or would go on the wire as another number.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from ledger.client.checked_arguments import (
    checked_callable,
    checked_flag,
    checked_list,
    checked_offset,
    checked_place,
    checked_text,
    shown,
)
from ledger.client.checked_numbers import NO_LIMIT, checked_wait, checked_whole
from ledger.errors import InvalidArgumentError, InvalidTopicNameError

Client = TypeVar("Client", bound=type)
Check = Callable[[str, Any], Any]

# Nodes, shards and queues are numbers of 32 bits.
_MOST = (1 << 32) - 1
_MOST_MS = 1 << 62


def _whole(lowest: int, highest: int = NO_LIMIT) -> Check:
    return lambda name, given: checked_whole(name, given, lowest, highest)


def _text_of_topic(name: str, given: object) -> str:
    try:
        return checked_text(name, given)
    except InvalidArgumentError as error:
        raise InvalidTopicNameError(error.message) from None


def _function(name: str, given: Any) -> Any:
    return checked_callable(name, given, "that is called with the progress")


def _optional(check: Check) -> Check:
    return lambda name, given: None if given is None else check(name, given)


def _moment(name: str, given: object) -> datetime:
    if not isinstance(given, datetime):
        raise InvalidArgumentError(f"{name} is {shown(given)}: it must be a datetime with a time zone.")
    return given


def _nodes(name: str, given: object) -> list[int]:
    return [checked_whole(name, node, 1, _MOST) for node in checked_list(name, given, "numbers of nodes")]


def _rights(name: str, given: object) -> list[tuple[str, str]]:
    rights = checked_list(name, given, 'pairs (action, resource), such as [("publish", "topic:orders")]')
    for right in rights:
        if not isinstance(right, (tuple, list)) or len(right) != 2:
            raise InvalidArgumentError(
                f'{name} has {shown(right)}: each right must be a pair (action, resource), such as ("publish", '
                '"topic:orders").'
            )
    return [(checked_text("action", action), checked_text("resource", resource)) for action, resource in rights]


def _place(name: str, given: object) -> tuple[str, int, int]:
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        raise InvalidArgumentError(f'{name} is {shown(given)}: give (topic, queue, offset), such as ("orders", 0, 5).')
    return *checked_place(*given[:2]), checked_offset(given[2])


def _checked_elsewhere(_: str, given: Any) -> Any:
    return given


_FLAGS = (
    "accept_loss",
    "deny",
    "dry_run",
    "exist_ok",
    "force",
    "linearizable",
    "pin",
    "promote",
    "resume",
    "stop",
    "wait",
)
_TEXTS = ("action", "address", "mode", "name", "password", "resource", "type", "user")

# By the name of the argument, or by the names of the call and of its argument. None is no value for the check if it is
# the default of the argument.
CHECKS: dict[str, Check] = {
    **dict.fromkeys(_FLAGS, checked_flag),
    **dict.fromkeys(_TEXTS, checked_text),
    "before": _place,
    "before_time_ms": _whole(0, _MOST_MS),
    "begin": _moment,
    "end": _moment,
    "keep_bytes": _whole(0, _MOST_MS),
    "max_attempts": _whole(1, _MOST),
    "max_entries": _whole(1),
    "node": _whole(1, _MOST),
    "nodes": _nodes,
    "offset": lambda _, given: checked_offset(given),
    "on_placement": _function,
    "on_progress": _function,
    "queue": _whole(0, _MOST),
    "replicas": _optional(_whole(1, _MOST)),
    "rights": _rights,
    "shard": _whole(0, _MOST),
    "timeout_ms": checked_wait,
    "topic": _text_of_topic,
    "transfer_leadership.to": _whole(0, _MOST),
    "ttl_ms": _whole(1),
    **dict.fromkeys((f"{call}_topic.name" for call in ("create", "alter", "delete", "describe")), _text_of_topic),
    # The calls themselves check these.
    **dict.fromkeys(
        (
            "begin_ms",
            "end_ms",
            "group",
            "handle",
            "key",
            "limit",
            "max_messages",
            "message_id",
            "order",
            "queues",
            "reset_offsets.to",
            "threshold_ms",
            "times",
            "transaction",
        ),
        _checked_elsewhere,
    ),
}


def check_of(call: str, argument: str) -> Check | None:
    return CHECKS.get(f"{call}.{argument}", CHECKS.get(argument))


def checks_arguments(client: Client) -> Client:
    """Let each public coroutine function of a class check its arguments first. A call with a wrong argument raises
    InvalidArgumentError, whose text names the argument."""
    for name, function in list(vars(client).items()):
        if not name.startswith("_") and inspect.iscoroutinefunction(function):
            setattr(client, name, _checking(function))
    return client


def _checking(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    async def call(*args: Any, **settings: Any) -> Any:
        given = signature.bind(*args, **settings)
        for name, value in given.arguments.items():
            check = check_of(function.__name__, name)
            if check is not None and not (value is None and signature.parameters[name].default is None):
                given.arguments[name] = check(name, value)
        return await function(*given.args, **given.kwargs)

    return call
