"""A question to be answered before something goes for good."""

from __future__ import annotations

import click

from cluster.cli.failure import CommandError


def ask(question: str) -> None:
    """Raises CommandError unless somebody says yes."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # nobody is there to answer
        agreed = False
    if not agreed:
        raise CommandError("nothing was deleted: answer y, or give --yes")
