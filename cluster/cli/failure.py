"""Decides which errors the command line prints as one sentence. Any other error is a bug, and the command line
prints its traceback."""

from __future__ import annotations

from cluster.demo.failure import DemoError
from cluster.load.failure import LoadError
from cluster.local.plan import DevError
from ledger.backup.errors import BackupError
from ledger.errors import LedgerError, told_of


class CommandError(Exception):
    """A command cannot do what the user asked for. The command line prints the message of this error unchanged."""


def sentence(error: Exception) -> str | None:
    """Return the sentence that the user sees for `error`. Return None if the error is a bug."""
    if isinstance(error, DevError | DemoError | LoadError | BackupError | CommandError):
        return str(error)
    return told_of(error) if isinstance(error, LedgerError | OSError) else None
