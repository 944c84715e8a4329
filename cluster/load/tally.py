"""Counts the lines of each file, and computes a digest of all lines of a file in their order.

Two tallies are equal if, and only if, the same lines were added to both in the same order. Only a collision of BLAKE2b
can make the tallies of different lines equal. A tally needs a few hundred bytes of memory for each file, however large
the file is. A line contains no newline, so lines that are joined with newlines are unambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter


class Tally:
    """The line counts and digests of several files, by the key of the file."""

    def __init__(self) -> None:
        self.lines = 0
        self._counts: dict[bytes, int] = {}
        self._digests: dict[bytes, blake2b] = {}

    def add(self, key: bytes, lines: Sequence[bytes]) -> None:
        """Add the next lines of the file `key` to this tally."""
        if not lines:
            return
        if key not in self._digests:
            self._digests[key] = blake2b(digest_size=16)
        self._digests[key].update(b"\n".join(lines) + b"\n")
        self._counts[key] = self._counts.get(key, 0) + len(lines)
        self.lines += len(lines)

    def add_messages(self, keys: Iterable[bytes | None], values: Iterable[bytes]) -> None:
        """Add messages, in the order in which they lie in their queue."""
        for key, run in groupby(zip(keys, values, strict=True), key=itemgetter(0)):
            self.add(key or b"", [value for _, value in run])

    def differences(self, found: Tally) -> list[str]:
        """Return a sentence for each file whose tally differs in `found`, ordered by the name of the file."""
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
