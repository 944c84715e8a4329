"""The process that forks commands: a command that does not end in time is killed, and does not disturb the next one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.cluster.cli.command import run
from tests.cluster.prepared import prepared

pytestmark = pytest.mark.real


def test_a_command_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    # The system accepts the connection, and then the command waits for an answer.
    with socket.create_server(("127.0.0.1", 0)) as silent, open(os.devnull, "r+b") as nothing:
        command = ["produce", "t", "--bootstrap", f"127.0.0.1:{silent.getsockname()[1]}"]
        with pytest.raises(TimeoutError, match="did not end within"):
            prepared().run(command, tmp_path, os.environ, [nothing.fileno()] * 3, 0.1)
    assert b"Usage" in run("--help").stdout, "the next command gets its own answer"
