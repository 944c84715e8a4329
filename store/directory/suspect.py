"""The suspect mark: a file that says that this node may have lost entries it acknowledged in one shard.

A power loss removes unflushed entries and leaves no trace of them, so the node writes the suspect mark durably before
recovery cuts the log. The suspect mark survives kills, and stays until `ShardMarks.clear_suspect`.

A mark is a line of JSON: {"reason": "power loss", "since_ms": 1700000000000, "last_index": 7}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Suspect:
    reason: str
    since_ms: int
    # Index of the last entry that was found. Missing entries have higher indexes.
    last_index: int

    def joined(self, later: Suspect) -> Suspect:
        """Return one suspect mark that joins this mark and the mark `later`. The returned mark has the reason and
        time of this mark, and the smaller `last_index` of this mark and of `later`."""
        return Suspect(self.reason, self.since_ms, min(self.last_index, later.last_index))

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> Suspect:
        """Return the suspect mark. Raise `ValueError` if the bytes are no suspect mark."""
        fields = json.loads(data)
        try:
            mark = Suspect(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if not (isinstance(mark.since_ms, int) and isinstance(mark.last_index, int) and isinstance(mark.reason, str)):
            raise ValueError("a field has a wrong type")
        return mark
