"""Tasks in the background: who learns that they have failed, and how work in several shards ends."""

from __future__ import annotations

import asyncio

import pytest

from ledger.client.background import ShardTasks, all_done, spawn
from ledger.errors import GroupConflictError, InternalError, LedgerError, NoLeaderError


async def fails_with(error: BaseException) -> None:
    raise error


async def test_a_defect_is_logged_and_told_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    defects: list[InternalError] = []
    cause = KeyError("a defect")
    task = spawn(fails_with(cause), "heartbeats", defects.append)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    (defect,) = defects
    assert "'heartbeats'" in str(defect)
    assert defect.__cause__ is cause
    assert "Traceback" in caplog.text


async def test_the_end_and_the_cancellation_of_a_task_are_no_defects(caplog: pytest.LogCaptureFixture) -> None:
    defects: list[InternalError] = []
    tasks = [spawn(asyncio.sleep(seconds), "heartbeats", defects.append) for seconds in (0, 60)]
    await tasks[0]
    tasks[1].cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    assert (defects, caplog.text) == ([], "")


@pytest.mark.parametrize("final", [GroupConflictError("another mode"), KeyError("a defect")])
async def test_an_error_that_a_later_try_cannot_mend_is_raised_after_all_work_has_ended(final: Exception) -> None:
    done = asyncio.Event()

    async def works() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        done.set()

    with pytest.raises(type(final)):
        await all_done(fails_with(NoLeaderError("no leader")), fails_with(final), works())
    assert done.is_set()
    with pytest.raises(NoLeaderError, match="first"):
        await all_done(*(fails_with(NoLeaderError(text)) for text in ("first", "second")))
    await all_done()


async def test_a_shard_has_a_task_until_it_ends_or_all_are_cancelled() -> None:
    ended: list[int] = []
    defects: list[LedgerError] = []
    tasks = ShardTasks("claims", defects.append, ended.append)
    goes_on = asyncio.Event()
    tasks.start(3, asyncio.sleep(60))
    tasks.start(1, fails_with(KeyError("a defect")))
    tasks.start(2, goes_on.wait())  # type: ignore[arg-type]
    assert list(tasks) == [3, 1, 2]
    for _ in range(3):
        await asyncio.sleep(0)
    assert (list(tasks), ended) == ([3, 2], [1])
    assert "claims in shard 1" in str(defects[0])
    await tasks.end()
    assert (list(tasks), ended, len(defects)) == ([], [1, 3, 2], 1)
