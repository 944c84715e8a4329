"""The command `ledgermq server run` runs one node in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError


@click.group(cls=CommandGroup)
def server() -> None:
    """Run one node."""


@server.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file of settings. Variables LEDGERMQ_<SETTING> override it.  [default: no file]",
)
@click.option(
    "--join", is_flag=True, help="Start as a new node of a running cluster; add it with `ledgermq cluster add-node`."
)
def run(config: Path | None, join: bool) -> int:
    """Run one node until SIGTERM or Ctrl-C. If the node leads a shard, the node hands over leadership before it stops.

    Give each setting either in the file or as an environment variable: LEDGERMQ_NODE, LEDGERMQ_DATA,
    LEDGERMQ_PEERS="1=HOST:PORT,2=HOST:PORT", and so on.
    """
    try:
        from cluster.node.node import run_node
        from cluster.node.settings import NodeSettings, SettingsError
    except ModuleNotFoundError as error:
        raise CommandError(
            f"a node needs the package {error.name}, which is not installed: pip install 'ledgermq[server]'"
        ) from error
    try:
        settings = NodeSettings.load(config, **({"join": True} if join else {}))
    except SettingsError as error:
        raise CommandError(str(error)) from error
    return run_node(settings)
