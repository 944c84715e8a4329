"""The command `ledgermq restore` makes the data directories of a new cluster from a backup."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

import click

from cluster.address import check_address
from cluster.cli.backup.options import key_file_option, target_argument
from cluster.cli.backup.progress import BytesProgress
from cluster.cli.backup.restored_settings import settings_text
from cluster.cli.options import MomentType, format_option, moment_text
from cluster.cli.output import print_json, print_table, say
from ledger.backup.catalogue import chosen_manifest
from ledger.backup.restore import RestoreSettings, restore_backup
from ledger.backup.targets.open_target import open_target


class NodeAddressType(click.ParamType[tuple[int, str]]):
    """The click type of a node of the new cluster, written NUMBER=HOST:PORT."""

    name = "node"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, str]:
        if isinstance(value, tuple):
            return value
        number, _, address = value.partition("=")
        try:
            if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= 0xFFFF_FFFF):
                raise ValueError(f"{number!r} is no number of a node")
            return int(number), check_address(address)
        except ValueError as error:
            return self.fail(f"{value!r} does not have the form 1=HOST:PORT ({error})", param, ctx)


@click.command()
@target_argument
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIRECTORY")
@click.option("--cluster", "cluster_name", required=True, metavar="NAME", help="Name of the new cluster: a new one.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    required=True,
    type=NodeAddressType(),
    metavar="N=HOST:PORT",
    help="A node of the new cluster, and its address. Repeat it for each node, up to five.",
)
@click.option("--backup", "name", metavar="BACKUP", help="Backup to restore.  [default: the newest]")
@click.option(
    "--until",
    type=MomentType(),
    metavar="TIME",
    help="Restore the cluster as it was at this time (UTC by default).  [default: the end of the backup]",
)
@key_file_option
@format_option
def restore(
    target: str,
    directory: Path,
    cluster_name: str,
    nodes: tuple[tuple[int, str], ...],
    name: str | None,
    until: datetime | None,
    key_file: Path | None,
    output: str,
) -> None:
    """Make the data directories of a new cluster from a backup in TARGET.

    DIRECTORY gets a data directory and a settings file for each node, and a new cluster secret. Copy them to the
    machines of the nodes, and start all nodes: `ledgermq server run --config DIRECTORY/node-1.toml`. The new cluster
    has another name than the old one, so that their nodes never mix.
    """
    addresses = dict(nodes)
    if len(addresses) < len(nodes):
        raise click.BadParameter("a node is named twice: give each node another number", param_hint="--node")
    if not 1 <= len(cluster_name) <= 127:
        raise click.BadParameter("a name has 1 to 127 characters", param_hint="--cluster")
    directory = directory.absolute()
    opened = open_target(target, key_file)
    manifest = chosen_manifest(opened, name)
    until_ms = None if until is None else int(until.timestamp() * 1000)
    settings = RestoreSettings(cluster_name, addresses, directory, until_ms)
    with BytesProgress("restore", manifest.bytes) as progress:
        restored = restore_backup(opened, manifest, settings, on_read=progress.add)
    for node in addresses:
        path = directory / f"node-{node}.toml"
        path.write_text(settings_text(node, cluster_name, addresses, directory), encoding="utf-8")
    if output == "json":
        print_json({"backup": manifest.name, "shards": [asdict(each) for each in restored]})
        return
    columns = ("SHARD", "NODES", "LAST ENTRY", "APPENDED", "MB")
    print_table(
        columns,
        [
            (
                each.shard,
                ", ".join(map(str, each.nodes)),
                each.last_index,
                moment_text(each.last_ms),
                f"{each.bytes / 1e6:,.1f}",
            )
            for each in restored
        ],
    )
    first = min(addresses)
    say(
        f"Restored backup {manifest.name} into {directory}. Look at the settings in node-{first}.toml and the others, "
        f"then start every node: ledgermq server run --config {quote(f'{directory}/node-{first}.toml')}"
    )
