"""Checks arguments of programs that are no numbers: functions, names, lists, and queues of topics."""

from __future__ import annotations

import os
import random
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np

from ledger.client.checked_numbers import checked_whole
from ledger.client.records import TopicQueue
from ledger.errors import InvalidArgumentError
from ledger.limits import MAX_OFFSET

# The node keeps so many characters of the name that a client states.
MAX_CLIENT_ID_BYTES = 127

F = TypeVar("F")


def checked_callable(name: str, given: F, what: str) -> F:
    """Return `given`, which must be a function, or any other object that can be called. `what` says what the function
    does. Raises InvalidArgumentError, whose text names the argument."""
    if not callable(given):
        raise InvalidArgumentError(f"{name} is {shown(given)}: give a function {what}.")
    return given


def checked_hook(name: str, given: F, what: str) -> F:
    """Do the same as `checked_callable` for an argument that may be None."""
    return given if given is None else checked_callable(name, given, what)


def checked_deserializer(given: F) -> F:
    """Return the deserializer of a consumer, or None. Raises InvalidArgumentError."""
    return checked_hook("deserializer", given, "that makes a value of bytes, such as json.loads")


def checked_client_id(client_id: str | None) -> str | None:
    """Return the name that a client shows to nodes, or None. Raises InvalidArgumentError."""
    if client_id is None:
        return None
    if not isinstance(client_id, str) or not client_id.isprintable() or len(client_id.encode()) > MAX_CLIENT_ID_BYTES:
        raise InvalidArgumentError(
            f"client_id is {shown(client_id)}: it must be a str of printable characters, with at most "
            f"{MAX_CLIENT_ID_BYTES} bytes in UTF-8."
        )
    return client_id


def checked_path(name: str, given: object) -> Path:
    """Return the path of a file, which a program gave as a str or as a path. Raises InvalidArgumentError, whose text
    names the argument."""
    if isinstance(given, (str, PurePath)) and str(given) and "\0" not in str(given) and _is_name_of_file(given):
        return Path(given)
    raise InvalidArgumentError(f"{name} is {shown(given)}: give the path of a file, as a str or a pathlib.Path.")


def _is_name_of_file(path: str | PurePath) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def checked_flag(name: str, given: object) -> bool:
    """Return True or False, which may be those of NumPy. Raises InvalidArgumentError, whose text names the argument,
    for everything else: "no" would count as True."""
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    raise InvalidArgumentError(f"{name} is {shown(given)}: it must be True or False.")


def checked_rng(rng: random.Random | None) -> random.Random:
    """Return the randomness that a program gave to a client, or new randomness. Raises InvalidArgumentError."""
    if rng is None:
        return random.Random()
    if not isinstance(rng, random.Random):
        raise InvalidArgumentError(f"rng is {shown(rng)}: give a random.Random, such as random.Random(7), or None.")
    return rng


def checked_text(name: str, given: object) -> str:
    """Return a text. Raises InvalidArgumentError, whose text names the argument, if it is no str, or if it cannot be
    encoded as UTF-8."""
    if not isinstance(given, str):
        raise InvalidArgumentError(f"{name} is {shown(given)}: it must be a str.")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name} is {shown(given)}, which cannot be encoded as UTF-8.") from None
    return given


def checked_list(name: str, given: object, what: str) -> list[Any]:
    """Return the items of a list, or of another iterable. A str, bytes and a mapping are no lists. `what` says what the
    items are. Raises InvalidArgumentError, whose text names the argument."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, bytearray, Mapping)):
        raise InvalidArgumentError(f"{name} is {shown(given)}: give a list of {what}.")
    return list(given)


def checked_place(topic: object, queue: object) -> TopicQueue:
    """Return a queue of a topic. Raises InvalidArgumentError if the topic is no str or the queue no whole number."""
    if not isinstance(topic, str):
        raise InvalidArgumentError(f"topic is {shown(topic)}: it must be the name of a topic, as a str.")
    return TopicQueue(topic, checked_whole("queue", queue, 0))


def checked_pair(name: str, given: object) -> TopicQueue:
    """Return the pair (topic, queue) that a program gave. Raises InvalidArgumentError, whose text names the
    argument."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidArgumentError(
            f'{name} has {shown(given)}: each queue must be a pair (topic, queue), such as ("orders", 0).'
        )
    return checked_place(*given)


def checked_pairs(name: str, given: object) -> list[TopicQueue]:
    """Return the pairs (topic, queue) of a list. Raises InvalidArgumentError, whose text names the argument."""
    pairs = checked_list(name, given, 'pairs (topic, queue), such as [("orders", 0)]')
    return [checked_pair(name, pair) for pair in pairs]


def checked_offset(offset: object) -> int:
    return checked_whole("offset", offset, 0, MAX_OFFSET)


def shown(given: object) -> str:
    """Return a short text of what a program gave."""
    return _SHOWN.repr(given)


_SHOWN = reprlib.Repr()
_SHOWN.maxother = _SHOWN.maxstring = 80
