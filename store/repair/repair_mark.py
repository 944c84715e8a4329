"""The repair mark: a file that says that a startup repair has begun to write another replica's entries into a damaged
log.

A repair that stops halfway may hide that the damaged log had more entries: the flaw is gone, and the log seems to end
after the repaired entries. For this reason, the repair mark is durable before the repair writes its first byte. The
repair removes the mark when an original entry of the log follows the repaired entries. A node whose log opens while
the mark exists may lack entries it acknowledged, and becomes a suspect.

    flaw ──> mark ──> entries of others ──> own entries follow ──> no mark
                                       └──> the log opens      ──> suspect

A mark is a line of JSON: {"doubt": {... the fields of a suspect mark ...}, "ends": false}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from store.directory.suspect import Suspect


@dataclass(frozen=True, slots=True)
class RepairMark:
    # The suspect mark that the node gets if the log opens before its own entries are found again.
    doubt: Suspect
    # True if the bytes after the flaw were given up. Then an orderly stop or a checkpoint no longer says where the log
    # ends.
    ends: bool = False

    def encode(self) -> bytes:
        return json.dumps({"doubt": asdict(self.doubt), "ends": self.ends}).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> RepairMark:
        """Return the repair mark. Raise `ValueError` if the bytes are no repair mark."""
        fields = json.loads(data)
        if not isinstance(fields, dict) or set(fields) != {"doubt", "ends"} or not isinstance(fields["ends"], bool):
            raise ValueError("its fields are not those of a repair mark")
        return RepairMark(Suspect.decode(json.dumps(fields["doubt"]).encode()), fields["ends"])
