"""Marks the commands that give a verdict, so that a reader who leaves never changes a bad verdict into status 0.

`ledgermq validate ... | head -20`: `head` closes the pipe when it has read enough. For a command such as `consume` this
is a normal end, with status 0. For a command that gives a verdict, status 0 would say that all is well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

Parameters = ParamSpec("Parameters")

# The status with which a shell reports a program that a closed pipe has ended: 128 + SIGPIPE.
NO_VERDICT = 141


class ReaderLeftError(Exception):
    """The process that reads this program's standard output has closed the pipe. `status` is the exit status."""

    def __init__(self, status: int = 0) -> None:
        super().__init__("the reader of standard output has closed the pipe")
        self.status = status


def gives_verdict(command: Callable[Parameters, int]) -> Callable[Parameters, int]:
    """Mark the function of a command whose exit status is a verdict. Write the mark directly above the function, below
    the decorators of click.

    If the reader of its output leaves before the function has returned the verdict, the exit status is 141.
    """

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> int:
        try:
            return command(*arguments, **options)
        except BrokenPipeError as error:
            raise ReaderLeftError(NO_VERDICT) from error

    return run
