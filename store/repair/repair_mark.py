"""The repair mark: another replica's entries are being written into a damaged log, and the log has not been found to go
on behind them.

What a repair has written may hide that more was there: the flaw is gone, and the log seems to end. So the
mark is durable before the first byte, and a log that opens while it is there is one that may lack what it acknowledged.

    flaw ──> mark ──> entries of others ──> our own bytes again ──> no mark
                                       └──> the log opens       ──> suspect

A mark is a line of JSON: {"doubt": {... as a suspect mark ...}, "ends": false}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from store.directory.suspect import Suspect


@dataclass(frozen=True, slots=True)
class RepairMark:
    # What the node becomes if the log opens without its own bytes being found again.
    doubt: Suspect
    # What lay behind the flaw was given up: the log ends where it ends, whatever was said of it before.
    ends: bool = False

    def encode(self) -> bytes:
        return json.dumps({"doubt": asdict(self.doubt), "ends": self.ends}).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> RepairMark:
        """Raises `ValueError` when the bytes are no mark."""
        fields = json.loads(data)
        if not isinstance(fields, dict) or set(fields) != {"doubt", "ends"} or not isinstance(fields["ends"], bool):
            raise ValueError("it has other fields")
        return RepairMark(Suspect.decode(json.dumps(fields["doubt"]).encode()), fields["ends"])
