"""Which errors a person is told in one sentence; all others are bugs and keep their traceback.

It must not import more than it has to: it is loaded when a command has failed.
"""

from __future__ import annotations

from cluster.bench.failure import BenchError
from cluster.demo.failure import DemoError
from cluster.dev_plan import DevError
from ledger.errors import LedgerError


class CommandError(Exception):
    """A command cannot do what was asked; the message is for a person."""


def sentence(error: Exception) -> str | None:
    """The sentence for an operating error, None for anything else."""
    if isinstance(error, LedgerError | DevError | DemoError | BenchError | CommandError):
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    return None
