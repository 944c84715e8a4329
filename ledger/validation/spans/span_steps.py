"""The steps of a span. Pickled, they are packed: Spark keeps them in memory and sends them to other processes.

A log with many transactions or leases has several steps for each message. A step is an object of some hundred bytes,
and the same names and numbers come again in each, so packed steps take about a twentieth. They are unpacked part by
part when they are read.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator

from ledger.validation.spans.steps import Step

# Steps that are packed together.
PART = 4_096


class SpanSteps:
    """Steps in their order."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._last: list[Step] = []

    def extend(self, steps: Iterable[Step]) -> None:
        self._last.extend(steps)

    def __iter__(self) -> Iterator[Step]:
        for part in self._packed:
            yield from pickle.loads(zlib.decompress(part))
        yield from self._last

    def __getstate__(self) -> list[bytes]:
        parts = (self._last[begin : begin + PART] for begin in range(0, len(self._last), PART))
        return [*self._packed, *(zlib.compress(pickle.dumps(part, pickle.HIGHEST_PROTOCOL), 1) for part in parts)]

    def __setstate__(self, packed: list[bytes]) -> None:
        self._packed, self._last = packed, []
