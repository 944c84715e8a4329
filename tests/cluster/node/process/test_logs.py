"""Tests of the log output of a node."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from cluster.node.process.logs import set_up_logging


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("root_logger")
def test_no_word_of_a_caller_makes_a_line_that_looks_like_one_of_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("text", "info")
    logging.getLogger("ledgermq.node").info("refused %s", "a\n2026-01-01T00:00:00Z [info] forged\r\x1b[2Kb é")
    first, second = capsys.readouterr().err.splitlines()
    assert "refused a" in first
    assert second.startswith("    2026-01-01")
    assert "forged\\r\\x1b[2Kb é" in second
