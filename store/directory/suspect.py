"""The suspect mark: this node may have lost what it acknowledged, and nobody has found yet that it has caught up.

A power loss takes what was not flushed, and leaves no trace of it; so the doubt itself is made durable,
before recovery cuts anything, and stays, through any number of kills, until it is cleared.

A mark is a line of JSON: {"reason": "power loss", "since_ms": 1700000000000, "last_index": 7}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Suspect:
    reason: str
    since_ms: int
    # Of the last entry that was found; what is missing came after it.
    last_index: int

    def joined(self, later: Suspect) -> Suspect:
        """The mark after another loss: the doubt dates from the first one, and from the shorter log."""
        return Suspect(self.reason, self.since_ms, min(self.last_index, later.last_index))

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> Suspect:
        """Raises `ValueError` when the bytes are no mark."""
        fields = json.loads(data)
        try:
            mark = Suspect(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if not (isinstance(mark.since_ms, int) and isinstance(mark.last_index, int) and isinstance(mark.reason, str)):
            raise ValueError("a field is of another kind")
        return mark
