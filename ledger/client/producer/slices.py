"""Cuts a list of values into slices; each slice becomes a batch, or part of a batch. No I/O.

The lengths of the values are read and added by numpy and by loops in C, so the cost of a value is some tens of
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ledger.client.producer.arguments import bytes_of, too_large
from ledger.client.producer.producer_batch import MESSAGE_OVERHEAD_BYTES
from ledger.errors import InvalidArgumentError

T = TypeVar("T")

_BLOCK_MESSAGES = 16_384


def check_many(values: object) -> None:
    """Raise InvalidArgumentError if a program gave one message, or anything else that is no iterable, to send_many."""
    kind = type(values)  # a custom iterable may do work when iter() is called
    if isinstance(values, Mapping):
        raise InvalidArgumentError(
            f"send_many() takes an iterable of messages, and of this {kind.__name__} only the keys would be sent: "
            "give its items() as pairs of key and value, or its values()."
        )
    is_iterable = hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")
    if not is_iterable or issubclass(kind, (bytes, bytearray, memoryview, str, np.generic)):
        raise InvalidArgumentError(
            f"send_many() takes an iterable of messages, and this is a {kind.__name__}; for one message use send()."
        )


def blocks(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items of `values` as lists. A list or a tuple is one list, and any other iterable becomes lists of at
    most 16,384 items. For this reason, `values` can be an endless generator. The caller has called `check_many`.
    """
    if isinstance(values, (list, tuple)):
        if values:
            yield list(values)  # a copy, because the caller may change its list meanwhile
        return
    iterator = iter(values)
    while block := list(islice(iterator, _BLOCK_MESSAGES)):
        yield block


def checked_lengths(values: list[bytes], max_message_bytes: int) -> NDArray[np.int64]:
    """Return the length of each value in bytes, and replace each bytearray and memoryview in the list by bytes. If
    `max_message_bytes` is 0, the limit is not known yet and is not checked.

    Raises InvalidArgumentError if a value is not bytes, and MessageTooLargeError if a value is too large.
    """
    if set(map(type, values)) - {bytes}:
        values[:] = map(bytes_of, values)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    longest = int(lengths.max())
    if max_message_bytes and longest > max_message_bytes:
        raise too_large(longest, max_message_bytes)
    return lengths


def cuts(
    lengths: NDArray[np.int64], *, max_bytes: int, max_count: int, each: int = 0
) -> Iterator[tuple[int, int, int]]:
    """Yield (start, stop, bytes of the values) for each slice of the list, in order. Every slice except the last one
    fills a batch.

    A slice has 1 to `max_count` messages and at most `max_bytes` bytes, but a slice of one message can be larger.
    `each` is the number of bytes that every message takes in addition to its value.
    """
    ends = np.cumsum(lengths)
    costs = ends + np.arange(1, len(lengths) + 1, dtype=np.int64) * (MESSAGE_OVERHEAD_BYTES + each)
    start, bytes_before, cost_before = 0, 0, 0
    while start < len(lengths):
        fit = int(np.searchsorted(costs, cost_before + max_bytes, side="right"))
        stop = min(max(fit, start + 1), start + max_count, len(lengths))
        bytes_after = int(ends[stop - 1])
        yield start, stop, bytes_after - bytes_before
        start, bytes_before, cost_before = stop, bytes_after, int(costs[stop - 1])


def by_queue(queues: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return for each queue that occurs in `queues` the positions at which it occurs, in ascending order."""
    order = np.argsort(queues, kind="stable")
    edges = np.flatnonzero(np.diff(queues[order])) + 1
    return np.split(order, edges)


def in_turns(iterators: list[Iterator[Any]]) -> Iterator[Any]:
    """Yield the items of all iterators: one of each in turn, until all have ended."""
    while iterators:
        left = []
        for one in iterators:
            for item in one:
                yield item
                left.append(one)
                break
        iterators = left
