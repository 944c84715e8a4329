"""Joins columns: equal rows of several tables get equal numbers, and rows are looked up by these numbers."""

from __future__ import annotations

import numpy as np

from chaos.live.checker.anomaly import same_as_before, where
from chaos.live.checker.cells import NONE, Flags, Numbers
from chaos.live.checker.columns import HistoryColumns


def numbered(*tables: tuple[Numbers, ...]) -> list[Numbers]:
    """Return one column for each table, with equal numbers for equal rows of all tables."""
    columns = [np.concatenate(column) for column in zip(*tables, strict=True)]
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, ranks = np.unique(column, return_inverse=True)
        _, numbers = np.unique(numbers * (len(ranks) + 1) + ranks, return_inverse=True)
    edges = np.cumsum([len(table[0]) for table in tables])[:-1]
    return list(np.split(numbers, edges))


def found(wanted: Numbers, among: Numbers, chosen: Flags) -> Numbers:
    """Return, for each wanted number, the first row of `among` that is chosen and has this number, or NONE."""
    rows = where(chosen)
    numbers, first = np.unique(among[rows], return_index=True)
    if not len(numbers):
        return np.full(len(wanted), NONE, np.int64)
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[at] == wanted, rows[first[at]], NONE)


def last_read(columns: HistoryColumns) -> Numbers:
    """Return, for each queue, when its last final reading began, in ns; NONE if the queue was not read from its first
    message on."""
    begun = np.full(len(columns.queues), NONE, np.int64)
    numbers = {queue: number for number, queue in enumerate(columns.queues)}
    read = {queue for queue, _ in columns.read_to_end}
    for _, assign in columns.assigns:
        number = numbers[assign.topic, assign.queue]
        if assign.process in columns.readers and number in read:
            begun[number] = max(begun[number], assign.start)
    for (queue, _), offset in columns.beginnings().items():
        if offset > 0:  # retention has removed messages
            begun[queue] = NONE
    return begun


def at_two_offsets(offset: Numbers, *messages: Numbers) -> tuple[Flags, Numbers]:
    """Return which rows have a message that another row has at a smaller offset, and that other row. Each of `messages`
    numbers the messages of all rows, and one that shows a repetition is enough."""
    wrong, before = np.zeros(len(offset), np.bool_), np.zeros(len(offset), np.int64)
    for message in messages:
        order = np.lexsort((offset, message))
        differs = same_as_before(message[order]) & ~same_as_before(offset[order])
        wrong[order[1:][differs]] = True
        before[order[1:][differs]] = order[:-1][differs]
    return wrong, before
