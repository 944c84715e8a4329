"""The process that forks commands: a command that does not end in time is killed, and does not disturb the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.cli.command import run
from tests.cluster.prepared import prepared

pytestmark = pytest.mark.real


def test_a_command_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    never, ours = os.pipe()  # nobody writes, so the command waits for messages
    with open(os.devnull, "wb") as nothing, open(never, "rb"), open(ours, "wb"):
        streams = [never, nothing.fileno(), nothing.fileno()]
        command = ["produce", "t", "--bootstrap-servers", "127.0.0.1:1"]
        with pytest.raises(TimeoutError, match="did not end within"):
            prepared().run(command, tmp_path, os.environ, streams, 0.1)
    assert b"Usage" in run("--help").stdout, "the next command gets its own answer"
