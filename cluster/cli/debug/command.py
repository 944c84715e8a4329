"""The click group `ledgermq debug`."""

from __future__ import annotations

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.debug.bundle import bundle
from cluster.cli.debug.slow import slow


@click.group(cls=CommandGroup)
def debug() -> None:
    """Look for the cause of a problem."""


for command in (slow, bundle):
    debug.add_command(command)
