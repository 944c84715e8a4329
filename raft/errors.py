"""What a shard on this node cannot go on with. Each says what to do."""

from __future__ import annotations

from store import StoreError


class CutFailedError(Exception):
    """The disk failed while the end of the log was being cut off: what the log holds now only a restart can tell."""

    def __init__(self, last_index: int) -> None:
        super().__init__(f"the log could not be cut to entry {last_index}: check the disk, then start this node again")


class LossAcceptedError(StoreError):
    """This node has committed entries that the others have given up."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"The others accepted the loss of entries that are committed here, from index {index} on. See whether they "
            "matter; then remove this node and add it again with an empty directory."
        )
