"""Checks the values of one history line: their types, their ranges, and whether they fit each other.

A history is a file, so its lines may contain anything. The checker of chaos runs and the validation calculate with the
values in 64 bits, so a value that is no whole number of this size is refused here, with the name of its field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

# The largest whole number that every reader of JSON keeps exactly.
_LARGEST = (1 << 53) - 1
_LARGEST_32_BITS = (1 << 32) - 1
_LARGEST_TIME = (1 << 63) - 1
_PRODUCER = re.compile("[0-9a-f]{16}")
_TRANSACTION = re.compile("[0-9a-z-]{1,64}")
_LARGEST_MS = 86_400_000
# The values of `what` in a line about a lease.
LEASE_CHANGES = ("ack", "nack", "extend")
_SHOWN = 40

_Check = Callable[[Any], bool]


def _number(least: int = 0, most: int = _LARGEST) -> _Check:
    return lambda value: type(value) is int and least <= value <= most


def _numbers(most: int = _LARGEST) -> _Check:
    def check(values: Any) -> bool:
        if type(values) is not list:
            return False
        return not values or (set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= most)

    return check


def _is_producer(value: Any) -> bool:
    return type(value) is str and (not value or _PRODUCER.fullmatch(value) is not None)


def _are_producers(values: Any) -> bool:
    return type(values) is list and set(map(type, values)) <= {str} and all(map(_PRODUCER.fullmatch, set(values)))


def _is_transaction(value: Any) -> bool:
    return type(value) is str and _TRANSACTION.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return type(value) is str


_NUMBER, _TIME = "a whole number from 0 to 2^53 - 1", "a whole number of nanoseconds"
_TEXT, _FLAG = "a text", "true or false"
# By field: the check, and what a value that passes it is.
_FIELDS: Mapping[str, tuple[_Check, str]] = {
    "process": (_number(), _NUMBER),
    "topic": (_is_text, _TEXT),
    "group": (_is_text, _TEXT),
    "what": (_is_text, _TEXT),
    "error": (lambda value: value is None or type(value) is str, "a text or null"),
    # -1: the messages of a send that never got a queue.
    "queue": (_number(-1, _LARGEST_32_BITS), "-1 or a whole number up to 2^32 - 1"),
    "bound": (lambda value: type(value) is bool, _FLAG),
    "final": (lambda value: type(value) is bool, _FLAG),
    "by_key": (lambda value: type(value) is bool, _FLAG),
    "commit": (lambda value: type(value) is bool, _FLAG),
    # -1: messages with delivery times, or of transactions, that were not acknowledged.
    "shard": (_number(-1, _LARGEST_32_BITS), "-1 or a whole number up to 2^32 - 1"),
    "waits_in": (_number(-1, _LARGEST_32_BITS), "-1 or a whole number up to 2^32 - 1"),
    "identity": (_number(), _NUMBER),
    "identities": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "time_ms": (_number(), _NUMBER),
    "clock_ms": (_number(), _NUMBER),
    "times_ms": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "appended_ms": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "transaction": (_is_transaction, "a name of up to 64 lower-case letters, digits and hyphens"),
    "number": (_number(), _NUMBER),
    "shards": (_numbers(_LARGEST_32_BITS), "a list of whole numbers up to 2^32 - 1"),
    "numbers": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "halves": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "crc": (_number(most=_LARGEST_32_BITS), "a CRC of 32 bits"),
    "size": (_number(), _NUMBER),
    "keys": (_numbers(_LARGEST_32_BITS), "a list of CRCs of 32 bits"),
    # Up to a day.
    "lease_ms": (_number(most=_LARGEST_MS), "a whole number up to 86,400,000"),
    "ms": (_number(most=_LARGEST_MS), "a whole number up to 86,400,000"),
    "node": (_number(), _NUMBER),
    "offset": (_number(), _NUMBER),
    "producer": (_is_producer, "a producer's id of 16 hexadecimal digits"),
    "epoch": (_number(most=_LARGEST_32_BITS), "a whole number from 0 to 2^32 - 1"),
    "sequence": (_number(-1), "-1 or a whole number up to 2^53 - 1"),
    "crcs": (_numbers(_LARGEST_32_BITS), "a list of CRCs of 32 bits"),
    "sizes": (_numbers(), "a list of whole numbers"),
    "offsets": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "producers": (_are_producers, "a list of producers' ids of 16 hexadecimal digits"),
    "epochs": (_numbers(_LARGEST_32_BITS), "a list of whole numbers up to 2^32 - 1"),
    "sequences": (_numbers(), "a list of whole numbers up to 2^53 - 1"),
    "start": (_number(most=_LARGEST_TIME), _TIME),
    "end": (_number(most=_LARGEST_TIME), _TIME),
}
# By operation: lists that have one value for each message.
_COLUMNS = {
    "send": ("crcs", "sizes"),
    "poll": ("offsets", "producers", "epochs", "sequences", "crcs"),
    "schedule": ("times_ms", "crcs", "sizes"),
    "delivery": ("offsets", "identities", "times_ms", "appended_ms", "crcs"),
    "receive": ("offsets", "keys"),
    "reveal": ("offsets", "shards", "numbers", "halves", "crcs"),
}
# By operation: the field that is null if the outcome is not ok.
_OF_OUTCOME = {"send": "offset", "schedule": "identity", "prepare": "number"}


def wrong_value(op: str, values: Mapping[str, Any]) -> str:
    """Return what is wrong with the values of a line, without `op` and `outcome`; "" if nothing is wrong."""
    for name, value in values.items():
        check, what = _FIELDS.get(name, (None, ""))
        if check is not None and not (check(value) or (value is None and _OF_OUTCOME.get(op) == name)):
            shown = repr(value)
            return f'"{name}" is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."}, and not {what}'
    return _misfit(op, values)


def _misfit(op: str, values: Mapping[str, Any]) -> str:
    """Return which values do not fit each other; "" if all values fit."""
    columns = _COLUMNS.get(op, ())
    if len({len(values[name]) for name in columns}) > 1:
        return f"{', '.join(columns)} have different lengths"
    if "end" in values and values["end"] < values["start"]:
        return "it ends before it starts"
    if op == "change" and values["what"] not in LEASE_CHANGES:
        return f"what is {values['what'][:_SHOWN]!r}: {', '.join(LEASE_CHANGES)}"
    if op in _OF_OUTCOME:
        return _misfit_of_send(values, op)
    return "a producer has no id" if op in ("open", "close") and not values["producer"] else ""


def _misfit_of_send(values: Mapping[str, Any], op: str) -> str:
    name = _OF_OUTCOME[op]
    if (values[name] is None) == (values["outcome"] == "ok"):
        return f"a {op} has {'a' if name == 'number' else 'an'} {name} if, and only if, its outcome is ok"
    if op == "prepare":
        return ""
    if (values["sequence"] == -1) != (not values["producer"]):
        return f"a {op} has a sequence if, and only if, it has a producer"
    return ""
