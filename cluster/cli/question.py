"""Asks the user for confirmation before data is deleted permanently."""

from __future__ import annotations

import click

from cluster.cli.failure import CommandError


def ask(question: str) -> None:
    """Ask the user a question on the terminal. Raises CommandError unless the answer is yes. Without a terminal,
    the answer is no."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # standard input has ended, so there is no answer
        agreed = False
    if not agreed:
        raise CommandError("nothing was deleted: answer y to delete, or give --yes")
