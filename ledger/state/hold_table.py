"""The holds of the log. While the log has a hold, its start does not move.

A hold is taken at an entry, and all earlier entries stay. It expires by the append times of entries, not by a local
clock, so every replica drops the same holds at the same index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ledger.errors import InvalidArgumentError
from ledger.holds import MAX_HOLDS


@dataclass(frozen=True, slots=True)
class Hold:
    """`index`: of the entry by which it was taken. Times are append times, ms since 1970."""

    name: str
    index: int
    taken_ms: int
    expires_ms: int


class HoldTable:
    """Every hold, by name."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self._by_name = {hold.name: hold for hold in sorted(holds, key=lambda hold: hold.name)}
        # The first one to go; len(self) == 0 where it is None.
        self._next_expiry: int | None = None
        self._look_ahead()

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Hold]:
        """In the order of their names."""
        return iter(sorted(self._by_name.values(), key=lambda hold: hold.name))

    def take(self, name: str, *, index: int, now_ms: int, ttl_ms: int) -> Hold:
        """A new hold, or one that is there already and expires later or sooner from now on."""
        self.check_room(name)
        hold = Hold(name, index, now_ms, now_ms + ttl_ms)
        if (known := self._by_name.get(name)) is not None:
            hold = replace(known, expires_ms=now_ms + ttl_ms)
        self._by_name[name] = hold
        self._look_ahead()
        return hold

    def check_room(self, name: str) -> None:
        """Raise InvalidArgumentError if there are as many as there may be, and none of this name."""
        if name not in self._by_name and len(self) >= MAX_HOLDS:
            raise InvalidArgumentError(f"There are {len(self)} holds already, as many as there may be: release one.")

    def release(self, name: str) -> bool:
        """Whether there was one of this name."""
        known = self._by_name.pop(name, None)
        self._look_ahead()
        return known is not None

    def expire(self, now_ms: int) -> None:
        """Forget those that have lasted as long as they may. Nearly free while there is none to forget."""
        if self._next_expiry is None or now_ms < self._next_expiry:
            return
        self._by_name = {name: hold for name, hold in self._by_name.items() if hold.expires_ms > now_ms}
        self._look_ahead()

    def _look_ahead(self) -> None:
        self._next_expiry = min((hold.expires_ms for hold in self._by_name.values()), default=None)
