"""Runs `ledgermq` as a person does: as a process with arguments, output and an exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

from tests.cluster.prepared import prepared

TIMEOUT_S = 60


def start(*arguments: str, cwd: Path | None = None, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **options.pop("environment", {})}
    return subprocess.Popen(
        [sys.executable, "-m", "ledgermq", *arguments],
        cwd=cwd,
        env=environment,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        **options,
    )


def run(
    *arguments: str,
    input: bytes = b"",
    status: int = 0,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end. Check its exit status, and that it prints no traceback.

    The command runs in its own process, which is forked from a process that has imported the command line
    (prepared.py). `start` starts a new Python process instead.
    """
    with _stdin(input) as stdin, TemporaryFile() as out, TemporaryFile() as err:
        streams = [stdin, out.fileno(), err.fileno()]
        ended = prepared().run(arguments, cwd or Path.cwd(), {**os.environ, **(environment or {})}, streams, TIMEOUT_S)
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(["ledgermq", *arguments], ended, out.read(), err.read())
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def completed(directory: Path, *words: str, **environment: str) -> set[str]:
    """Return what bash would offer for the last word. Nothing else may be printed."""
    asked = {
        "_LEDGERMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("ledgermq", *words)),
        "COMP_CWORD": str(len(words)),
        "LEDGERMQ_PROFILE_FILE": str(directory / "profiles.toml"),
    }
    done = run(cwd=directory, environment={**asked, **environment})
    assert done.stderr == b""
    return {line.partition(",")[2] for line in done.stdout.decode().split()}


@contextmanager
def _stdin(content: bytes) -> Iterator[int]:
    """Yield the read end of a pipe with this content, as a shell provides it."""
    ours, theirs = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(theirs, "wb") as pipe:
            pipe.write(content)

    writer = Thread(target=write)
    writer.start()
    try:
        yield ours
    finally:
        os.close(ours)
        writer.join()
