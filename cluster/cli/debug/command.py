"""The click group `ledgermq debug`."""

from __future__ import annotations

import click

from cluster.cli.debug.slow import slow


@click.group()
def debug() -> None:
    """Look for the cause of a problem."""


debug.add_command(slow)
