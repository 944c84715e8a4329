"""The clean mark: a file that a node writes at an orderly stop. The clean mark tells the next start where the log must
end.

After a kill, a log may end at any place after the flushed bytes. After an orderly stop, the log must end exactly where
the clean mark says. A start first compares the log with the mark, then durably removes the mark, and only then writes
to the log. In this order, the log on the disk is never newer than its clean mark. If a log disagrees with its clean
mark, every start refuses the log.

A mark is a line of JSON: {"last_index": 7, "end": 4096, "chain": 123}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class CleanMark:
    last_index: int
    end: int
    chain: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> CleanMark:
        """Return the clean mark. Raise `ValueError` if the bytes are no clean mark."""
        fields = json.loads(data)
        try:
            mark = CleanMark(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if not all(isinstance(number, int) for number in (mark.last_index, mark.end, mark.chain)):
            raise ValueError("a field is not an integer")
        return mark
