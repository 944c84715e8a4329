"""Marks the commands that give a verdict, so that output that cannot be written never changes the verdict.

`ledgermq validate ... | head -20`: `head` closes the pipe when it has read enough. For a command such as `consume` this
is a normal end, with status 0. For a command that gives a verdict, status 0 would say that all is well.

`ledgermq validate ... > report.txt` on a full disk: a command such as `consume` fails with status 1. For a command that
gives a verdict, status 1 would say that something is wrong with the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import click

from ledger.errors import told_of

Parameters = ParamSpec("Parameters")

# The status with which a shell reports a program that a closed pipe has ended: 128 + SIGPIPE.
NO_VERDICT = 141
# The status of a command that could not judge: that of wrong usage.
NOT_JUDGED = 2


class ReaderLeftError(Exception):
    """The process that reads this program's standard output has closed the pipe. `status` is the exit status."""

    def __init__(self, status: int = 0) -> None:
        super().__init__("the reader of standard output has closed the pipe")
        self.status = status


class UnwrittenError(click.ClickException):
    """A command has failed with an OSError, for example because the disk of its output is full. `exit_code` is the exit
    status."""

    def __init__(self, cause: OSError, status: int) -> None:
        told = told_of(cause)
        super().__init__(f"standard output cannot be written: {told}" if is_unwritable() else told)
        self.exit_code = status  # type: ignore[misc]


def is_unwritable() -> bool:
    """Return True if standard output has data that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def gives_verdict(command: Callable[Parameters, int]) -> Callable[Parameters, int]:
    """Mark the function of a command whose exit status is a verdict. Write the mark directly above the function, below
    the decorators of click.

    If the reader of its output leaves before the function has returned the verdict, the exit status is 141. If the
    command fails with an OSError, for example because its output cannot be written, the exit status is that of a bad
    verdict if it is known, and else 2.
    """

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> int:
        status = None
        try:
            status = command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderLeftError(NO_VERDICT if status is None else status) from error
        except OSError as error:
            raise UnwrittenError(error, status or NOT_JUDGED) from error
        return status

    return run
