"""Defines the errors after which a shard stops, or stops applying entries, on this node. The message of each error says
what the operator must do."""

from __future__ import annotations


class CannotApplyError(Exception):
    """The state machine cannot apply a committed entry, so this replica applies no more entries. For example, the entry
    is of a newer version of the program."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"entry {index} cannot be applied: {reason}")
        self.index = index


class CutFailedError(Exception):
    """The disk failed while the log was being cut. Only a restart can find the present end of the log."""

    def __init__(self, last_index: int) -> None:
        super().__init__(f"the log could not be cut to entry {last_index}: check the disk, then start this node again")
