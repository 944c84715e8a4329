"""An operator accepts the loss of entries of a suspect replica. The test runs the work of the disk threads by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.node.process.vital import Vital
from cluster.node.replica.accepted_loss import ACCEPTED, accept_loss
from cluster.node.replica.disk_threads import CAUGHT_UP, DiskThreads, Flushing
from cluster.node.runtime import Runtime
from ledger.errors import RecoveryRefusedError
from store import DiskFailedError
from tests.cluster.node.replica.test_disk_threads import Worker


class Suspect:
    """A suspect replica of node 2, with the members that `accept_loss` uses, and its disk threads."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.events: list[str] = []
        # The step that the disk refuses.
        self.fails = ""
        # Errors that would have ended the process of the node.
        self.ended: list[BaseException] = []
        self.workers: dict[str, Worker] = {}
        self.raft = SimpleNamespace(node=2, leader=0, is_suspect=True)
        self.driver = SimpleNamespace(raft=self.raft, accept_loss=self._accept, needs_restart=False, failure=None)
        self.replica: Any = SimpleNamespace(shard=0, driver=self.driver)
        runtime = Runtime(
            cast(Any, None), worker=lambda name: self.workers.setdefault(name, Worker()), vital=Vital(self.ended.append)
        )
        log: Any = SimpleNamespace(sync=self._step("flush"))
        self.threads = DiskThreads(
            log,
            cast(Any, None),
            runtime,
            Flushing("async", cast(Any, None)),
            forget_suspicion=self._step("remove the mark"),
            on_failure=self.ended.append,
            on_flush=lambda seconds: None,
            on_trusted=self.events.append,
        )

    def _step(self, name: str) -> Callable[[], None]:
        def step() -> None:
            if name == self.fails:
                raise DiskFailedError(Path("/data/log"), "I/O error")
            self.steps.append(name)

        return step

    def _accept(self) -> None:
        self.steps.append("count again")
        self.raft.is_suspect = False

    async def begin(self) -> asyncio.Task[None]:
        request = asyncio.create_task(accept_loss(self.replica, self.threads))
        await asyncio.sleep(0)
        return request


async def test_the_log_is_flushed_then_the_mark_is_removed_then_the_replica_counts() -> None:
    suspect = Suspect()
    request = await suspect.begin()
    suspect.workers["flush"].work()
    suspect.workers["votes"].work()
    await request
    assert suspect.steps == ["flush", "remove the mark", "count again"]
    assert suspect.events == [ACCEPTED]
    assert suspect.ended == []


@pytest.mark.parametrize("flushed_before", [False, True])
async def test_a_request_that_is_cancelled_goes_on_to_the_end_and_ends_no_node(flushed_before: bool) -> None:
    """For example, the flush takes longer than the operator waits."""
    suspect = Suspect()
    request = await suspect.begin()
    if flushed_before:
        suspect.workers["flush"].work()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    suspect.workers["flush"].work()
    suspect.workers["votes"].work()
    assert suspect.ended == []
    assert suspect.steps == ["flush", "remove the mark", "count again"]


async def test_a_leader_that_comes_during_the_flush_sends_the_entries_and_the_mark_stays() -> None:
    suspect = Suspect()
    request = await suspect.begin()
    suspect.raft.leader = 3
    suspect.workers["flush"].work()
    with pytest.raises(RecoveryRefusedError, match="node 2 follows node 3"):
        await request
    suspect.workers["votes"].work()
    assert suspect.steps == ["flush"]
    assert suspect.events == []
    assert suspect.ended == []


async def test_a_request_on_a_disk_that_has_failed_is_refused_at_once() -> None:
    """No flush succeeds before the node is restarted."""
    suspect = Suspect()
    suspect.driver.failure, suspect.driver.needs_restart = DiskFailedError(Path("/data/log"), "I/O error"), True
    async with asyncio.timeout(10):
        with pytest.raises(RecoveryRefusedError, match=r"node 2 cannot flush the log.*I/O error.*restart the node"):
            await accept_loss(suspect.replica, suspect.threads)
    assert suspect.workers["flush"].jobs == []


@pytest.mark.parametrize("step", ["flush", "remove the mark"])
async def test_a_disk_that_fails_meanwhile_ends_the_request_and_not_the_node(step: str) -> None:
    suspect = Suspect()
    suspect.fails = step
    request = await suspect.begin()
    suspect.workers["flush"].work()
    suspect.workers["votes"].work()
    async with asyncio.timeout(10):
        with pytest.raises(RecoveryRefusedError, match=r"because its disk has failed: .*I/O error.*restart the node"):
            await request
    assert "count again" not in suspect.steps
    assert suspect.events == []
    assert [type(error) for error in suspect.ended] == [DiskFailedError]  # the driver learns of it


async def test_a_second_request_after_the_first_one_does_nothing_more() -> None:
    suspect = Suspect()
    first, second = await suspect.begin(), await suspect.begin()
    for _ in range(2):
        suspect.workers["flush"].work()
        suspect.workers["votes"].work()
    await asyncio.gather(first, second)
    assert suspect.steps == ["flush", "remove the mark", "count again", "flush"]
    assert suspect.events == [ACCEPTED]


async def test_a_suspect_that_has_caught_up_says_so() -> None:
    suspect = Suspect()
    suspect.threads.trusted()
    assert suspect.steps == []
    suspect.workers["flush"].work()
    suspect.workers["votes"].work()
    assert suspect.steps == ["flush", "remove the mark"]
    assert suspect.events == [CAUGHT_UP]
