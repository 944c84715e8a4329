"""What is known of the lines of each file: how many, and a digest of all of them in order.

Two tallies agree exactly when the same lines came in the same order, none lost, none twice (but for a collision of
BLAKE2b); and that takes a few hundred bytes a file, whatever its size. Lines hold no newline, so joining them with
newlines is unambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter


class Tally:
    """Files by their key."""

    def __init__(self) -> None:
        self.lines = 0
        self._counts: dict[bytes, int] = {}
        self._digests: dict[bytes, blake2b] = {}

    def add(self, key: bytes, lines: Sequence[bytes]) -> None:
        """`lines` come next in the file `key`."""
        if not lines:
            return
        if key not in self._digests:
            self._digests[key] = blake2b(digest_size=16)
        self._digests[key].update(b"\n".join(lines) + b"\n")
        self._counts[key] = self._counts.get(key, 0) + len(lines)
        self.lines += len(lines)

    def add_messages(self, keys: Iterable[bytes | None], values: Iterable[bytes]) -> None:
        """Messages in the order of their queue."""
        for key, run in groupby(zip(keys, values, strict=True), key=itemgetter(0)):
            self.add(key or b"", [value for _, value in run])

    def differences(self, found: Tally) -> list[str]:
        """A sentence for each file that is not the same in `found`, by name."""
        keys = sorted(self._counts.keys() | found._counts.keys())
        return [sentence for key in keys if (sentence := self._difference(found, key))]

    def _difference(self, found: Tally, key: bytes) -> str | None:
        sent, got = self._counts.get(key, 0), found._counts.get(key, 0)
        name = key.decode("utf-8", "replace")
        if got < sent:
            return f"{name}: {sent - got} of {sent} acknowledged lines are missing"
        if got > sent:
            return f"{name}: {got - sent} lines more than the {sent} that were acknowledged"
        if self._digests[key].digest() != found._digests[key].digest():
            return f"{name}: all {sent} lines are there, but not in order, or changed"
        return None
