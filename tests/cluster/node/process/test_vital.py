"""The end of a node whose vital work failed: the log says whether the disk or the program is the reason."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cluster.node.process.vital import Vital
from raft.errors import CutFailedError
from store.errors import NoSpaceError


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
