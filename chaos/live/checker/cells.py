"""The cells of the columns of a history: their types, the values with a meaning, and how columns grow while a history
is read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ledger.history import OperationOutcome

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

OK, FAIL, UNKNOWN = 0, 1, 2
OUTCOMES = {OperationOutcome.OK: OK, OperationOutcome.FAIL: FAIL, OperationOutcome.UNKNOWN: UNKNOWN}
# The value of a cell without a value.
NONE = -1


class Growing:
    """Columns that grow. In the `shared` columns all messages of an operation have the same values. In the `own`
    columns each message has its own values.
    """

    def __init__(self, shared: int, own: int) -> None:
        self._counts = array("q")
        self._shared = [array("q") for _ in range(shared)]
        self._own = [array("q") for _ in range(own)]

    def add(self, count: int, shared: Sequence[int], *own: Iterable[int]) -> None:
        self._counts.append(count)
        for column, value in zip(self._shared, shared, strict=True):
            column.append(value)
        for column, values in zip(self._own, own, strict=True):
            column.extend(values)

    def columns(self) -> list[Numbers]:
        """Return the columns of all operations, followed by the columns of this kind of operation. Each column has
        one row for every message."""
        counts = _numbers(self._counts)
        return [*(np.repeat(_numbers(one), counts) for one in self._shared), *map(_numbers, self._own)]


def _numbers(column: array[int]) -> Numbers:
    return np.frombuffer(column, np.int64) if column else np.empty(0, np.int64)
