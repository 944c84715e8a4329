"""Asks the user for confirmation before data is deleted permanently."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

from cluster.cli.failure import CommandError


def ask(question: str) -> None:
    """Ask the user a question on the terminal. Raises CommandError unless the answer is yes, and KeyboardInterrupt at
    Ctrl-C. Without a terminal, the answer is no."""
    try:
        with _interruptible():
            agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        agreed = False  # standard input has ended, so there is no answer
    if not agreed:
        raise CommandError("nothing was deleted: answer y to delete, or give --yes")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the block. In a coroutine, Ctrl-C would only cancel the task, which waits for the user."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
