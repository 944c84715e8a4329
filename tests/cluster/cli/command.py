"""`ledgermq` as a person uses it: a subprocess, its output and its status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 60


def start(*arguments: str, cwd: Path | None = None, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **options.pop("environment", {})}
    return subprocess.Popen(
        [sys.executable, "-m", "cluster.cli", *arguments],
        cwd=cwd,
        env=environment,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def run(*arguments: str, input: bytes = b"", status: int = 0, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs a command to its end, and checks its exit status, and that nobody sees a traceback."""
    process = start(*arguments, stdin=subprocess.PIPE, **options)
    out, err = process.communicate(input, timeout=TIMEOUT_S)
    assert process.returncode == status, err.decode()
    assert b"Traceback" not in err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
