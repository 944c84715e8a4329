"""Which errors a person is told in one sentence; all others are bugs and keep their traceback.

It must not import more than it has to: it is loaded when a command has failed.
"""

from __future__ import annotations

from cluster.demo.failure import DemoError
from cluster.load.failure import LoadError
from cluster.local.plan import DevError
from ledger.errors import LedgerError, told_of


class CommandError(Exception):
    """A command cannot do what was asked; the message is for a person."""


def sentence(error: Exception) -> str | None:
    """The sentence for an operating error, None for anything else."""
    if isinstance(error, DevError | DemoError | LoadError | CommandError):
        return str(error)
    return told_of(error) if isinstance(error, LedgerError | OSError) else None
