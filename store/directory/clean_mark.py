"""The clean mark: what a node writes when it stops in order, so that its next start knows what it must find.

After a kill a log may end anywhere behind what was flushed; after an orderly stop it must end exactly where
it did. The mark is taken away (durably) once the log is found to agree and before it is written again, so it
never vouches for a later state, and a log that does not agree is refused every time.

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
        """Raises `ValueError` when the bytes are no mark."""
        fields = json.loads(data)
        try:
            mark = CleanMark(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if not all(isinstance(number, int) for number in (mark.last_index, mark.end, mark.chain)):
            raise ValueError("a number is not a number")
        return mark
