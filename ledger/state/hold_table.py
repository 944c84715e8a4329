"""The holds of the log. While the log has a hold, retention and trims do not remove its entries. While the log has a
hold, the log start does not move.

A hold expires by the append times of entries and not by a local clock, so every replica drops the same holds at the
same index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ledger.errors import InvalidArgumentError
from ledger.holds import MAX_HOLDS


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold keeps the log start from moving. `index` is the index of the entry that took the hold. The times of a
    hold are append times in ms since 1970."""

    name: str
    index: int
    taken_ms: int
    expires_ms: int


class HoldTable:
    """All holds, by name."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self._by_name = {hold.name: hold for hold in sorted(holds, key=lambda hold: hold.name)}
        # The earliest expiry of all holds; None exactly if there are no holds.
        self._next_expiry: int | None = None
        self._look_ahead()

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Hold]:
        """Yield the holds, sorted by name."""
        return iter(sorted(self._by_name.values(), key=lambda hold: hold.name))

    def take(self, name: str, *, index: int, now_ms: int, ttl_ms: int) -> Hold:
        """Take a hold that expires at `now_ms` + `ttl_ms`. If a hold of this name exists, change its expiry. Return
        the hold. Raises InvalidArgumentError."""
        self.check_room(name)
        hold = Hold(name, index, now_ms, now_ms + ttl_ms)
        if (known := self._by_name.get(name)) is not None:
            hold = replace(known, expires_ms=now_ms + ttl_ms)
        self._by_name[name] = hold
        self._look_ahead()
        return hold

    def check_room(self, name: str) -> None:
        """Raise InvalidArgumentError if a hold of this name would exceed the limit of holds."""
        if name not in self._by_name and len(self) >= MAX_HOLDS:
            raise InvalidArgumentError(
                f"There are {len(self)} holds already, which is the limit: release a hold first."
            )

    def release(self, name: str) -> bool:
        """Release a hold. Return True if a hold of this name existed."""
        known = self._by_name.pop(name, None)
        self._look_ahead()
        return known is not None

    def expire(self, now_ms: int) -> None:
        """Remove expired holds. If no hold has expired, the call returns at once."""
        if self._next_expiry is None or now_ms < self._next_expiry:
            return
        self._by_name = {name: hold for name, hold in self._by_name.items() if hold.expires_ms > now_ms}
        self._look_ahead()

    def _look_ahead(self) -> None:
        self._next_expiry = min((hold.expires_ms for hold in self._by_name.values()), default=None)
