"""The end of a node whose vital work failed: the log says whether the disk or the program is the reason."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cluster.node.process.vital import Vital
from raft.errors import CutFailedError
from store.errors import DiskFailedError, NoSpaceError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CutFailedError(49), "this node ends at once: the log could not be cut to entry 49"),
        (NoSpaceError(Path("/data")), "this node ends at once: No space is left"),
        (AssertionError(), "this node ends at once, because an invariant is broken in its memory"),
    ],
)
def test_the_log_says_why_a_node_ends(error: Exception, told: str, caplog: pytest.LogCaptureFixture) -> None:
    ends: list[BaseException] = []

    def work() -> None:
        raise error

    with caplog.at_level(logging.CRITICAL, "ledgermq.node.vital"):
        Vital(ends.append).event(work)()
    assert ends == [error]
    assert caplog.messages[0].startswith(told)
    caplog.clear()  # the fixture `nothing_unheard` fails tests in which a node ends


async def test_the_log_says_which_file_a_failed_task_could_not_use(caplog: pytest.LogCaptureFixture) -> None:
    ends: list[BaseException] = []

    async def work() -> None:
        raise DiskFailedError(Path("/data/log"), "Is a directory")

    with caplog.at_level(logging.CRITICAL, "ledgermq.node.vital"), pytest.raises(DiskFailedError):
        await Vital(ends.append).spawn(work(), "start of shard 0")
    assert len(ends) == 1
    assert caplog.messages[0].startswith(
        "start of shard 0 failed: this node ends at once: The disk of /data/log failed: Is a directory."
    )
    caplog.clear()
