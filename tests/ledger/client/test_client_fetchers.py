"""Tests the set of fetchers of one consumer, which has one fetcher for each shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from ledger.client.consumer.cursor import Cursor
from ledger.client.consumer.fetchers import Fetchers
from ledger.errors import BusyError, LedgerError

FIRST, SECOND, THIRD = (cast(Cursor, name) for name in ("first", "second", "third"))


class Recorded:
    """Stands for a `Fetcher`, and records the calls to it."""

    made: list[Recorded]

    def __init__(self, _: Any, shard: int, cursors: Sequence[Cursor], *__: Any) -> None:
        self.shard = shard
        self.cursors = [*cursors]
        self.calls: list[str] = []
        self.trouble: LedgerError | None = None
        self.made.append(self)

    def add(self, cursors: Iterable[Cursor]) -> None:
        self.cursors += cursors

    def remove(self, cursor: Cursor) -> None:
        self.cursors = [each for each in self.cursors if each is not cursor]

    def restart(self) -> None:
        self.calls.append("restart")

    def made_room(self) -> None:
        self.calls.append("made room")

    async def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    Recorded.made = []
    monkeypatch.setattr("ledger.client.consumer.fetchers.Fetcher", Recorded)
    return Recorded.made


def fetchers() -> Fetchers:
    nothing = cast(Any, None)
    return Fetchers(nothing, nothing, lambda: None)


def test_a_shard_has_one_fetcher_for_all_its_cursors(made: list[Recorded]) -> None:
    them = fetchers()
    them.add(1, [FIRST])
    them.add(2, [SECOND])
    them.start(1)
    them.add(1, [THIRD])
    assert [(each.shard, each.cursors) for each in made] == [(1, [FIRST, THIRD]), (2, [SECOND])]


def test_one_shard_is_asked_without_the_others(made: list[Recorded]) -> None:
    them = fetchers()
    them.add(1, [FIRST])
    them.add(2, [SECOND])
    them.remove(1, FIRST)
    them.restart(2)
    assert [(each.cursors, each.calls) for each in made] == [([], []), ([SECOND], ["restart"])]


def test_a_shard_without_a_fetcher_gets_one_that_has_nothing_to_remove(made: list[Recorded]) -> None:
    them = fetchers()
    them.remove(1, FIRST)
    them.restart(2)
    assert [(each.shard, each.cursors, each.calls) for each in made] == [(1, [], []), (2, [], ["restart"])]


async def test_all_shards_are_told_of_room_and_closed(made: list[Recorded]) -> None:
    them = fetchers()
    them.add(1, [FIRST])
    them.add(2, [SECOND])
    them.made_room()
    await them.close()
    assert [each.calls for each in made] == [["made room", "close"]] * 2


def test_the_troubles_are_those_of_the_shards_that_have_one(made: list[Recorded]) -> None:
    them = fetchers()
    for shard in (1, 2, 3):
        them.start(shard)
    made[1].trouble = BusyError("full")
    assert them.troubles() == [made[1].trouble]
