"""Backups in the stack world: a program that is not asynchronous in a simulated run, and what the checks see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.engine.sync_program import SyncProgram
from ledger.backup.hold import BackupHold
from ledger.client.records import LogHold

WISHES = Wishes(world="stack", minutes=0.4, faults=("back_up",))


async def test_a_program_asks_and_returns_its_result() -> None:
    def program(asks: SyncProgram[str]) -> str:
        return asks.ask(lambda: asyncio.sleep(0, "a")) + asks.ask(lambda: asyncio.sleep(0, "b"))

    assert await SyncProgram(program).run() == "ab"


async def test_a_program_gets_the_error_of_its_question_and_raises_its_own() -> None:
    async def refused() -> None:
        raise LookupError("refused")

    def program(asks: SyncProgram[None]) -> None:
        try:
            asks.ask(refused)
        except LookupError as error:
            raise ValueError(f"it was {error}") from error

    with pytest.raises(ValueError, match="it was refused"):
        await SyncProgram(program).run()


async def test_a_program_that_is_cancelled_asks_nothing_more() -> None:
    asked = []

    async def slow() -> None:
        asked.append("slow")
        await asyncio.sleep(60)

    async def last() -> None:
        asked.append("last")

    def program(asks: SyncProgram[None]) -> None:
        try:
            asks.ask(slow)
        finally:
            asks.ask(last)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(SyncProgram(program).run(), 0.01)
    assert asked == ["slow"]


@pytest.mark.long
def test_backups_have_what_was_committed() -> None:
    report = run(2, WISHES)
    assert report.passed, report.reason
    assert report.happened["back_up"] > 0


@pytest.mark.long
def test_a_backup_that_ends_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = BackupHold.take

    def early(self: BackupHold, shards: Iterable[int]) -> dict[int, LogHold]:
        return {shard: replace(hold, index=max(1, hold.index - 2)) for shard, hold in take(self, shards).items()}

    monkeypatch.setattr(BackupHold, "take", early)
    assert "a backup has all that was committed before it" in str(run(2, WISHES).reason)
