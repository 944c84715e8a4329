"""The commands `ledgermq backup create`, `list`, `check` and `prune`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

import click

from cluster.cli.backup.backup_metrics import BackupMetrics
from cluster.cli.backup.options import key_file_option, target_argument
from cluster.cli.backup.progress import BytesProgress
from cluster.cli.backup.replaying import replayed_flaws
from cluster.cli.cluster.log_start import Size
from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError
from cluster.cli.metrics_file import metrics_file_option
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, moment_text
from cluster.cli.output import data_console, print_json, print_table, say
from cluster.cli.stopping import sigterm_stops
from cluster.cli.verdict import gives_verdict
from ledger.backup.catalogue import backups_in, load_manifest, manifests_in, newest_backup
from ledger.backup.catalogue import prune as prune_backups
from ledger.backup.check import flaws_of
from ledger.backup.create import DEFAULT_RATE, BackupSettings, CopyState, create_backup
from ledger.backup.errors import DamagedBackupError
from ledger.backup.manifest import Manifest
from ledger.backup.targets.key_file import make_key_file
from ledger.backup.targets.open_target import open_target
from ledger.client.connection.security import security_of
from ledger.client.sync.admin import Admin
from ledger.local_socket import is_socket
from ledger.validation.sources.backup_access import SCHEME
from ledger.words import counted


@click.group(cls=CommandGroup)
def backup() -> None:
    """Make, list, check and remove backups of a cluster. `ledgermq restore` makes a new cluster from a backup.

    TARGET is a directory, or s3://BUCKET/PREFIX in S3 or a compatible store. Several backups of one cluster share it.
    For S3 install 'ledgermq[s3]', and set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for another store
    than Amazon's, AWS_ENDPOINT_URL_S3.
    """


@backup.command()
@target_argument
@key_file_option
@click.option(
    "--max-rate",
    type=Size(),
    default=DEFAULT_RATE,
    metavar="SIZE",
    help="Copy at most this much in a second: 500000, 8M (bytes); 0 sets no limit.  [default: 16M]",
)
@metrics_file_option
@bootstrap_option
@format_option
def create(
    target: str, key_file: Path | None, max_rate: int, metrics_file: Path | None, bootstrap: str, output: str
) -> None:
    """Make a backup of the running cluster: messages, topics, consumer groups, offsets, users and rules.

    The first backup copies the whole log of each shard. Later ones to the same TARGET copy only the entries since the
    last one. If the command is interrupted, the next one continues where it was. While it runs, the cluster keeps its
    log (`ledgermq cluster holds`). In a secured cluster the user needs the rights `administer` and `read-log` on the
    cluster.
    """
    if is_socket(bootstrap):
        raise CommandError(
            "a backup reads the logs over the HTTP ports of the nodes, and not over a local socket: give --bootstrap "
            "and --user in place of --local"
        )
    metrics, begun = BackupMetrics(metrics_file, target), time.monotonic()
    try:
        made = _made(target, key_file, max_rate, bootstrap, begun)
    except BaseException:
        metrics.failed()
        raise
    metrics.succeeded(made)
    if output == "json":
        print_json(_fields(made))
        return
    seconds = time.monotonic() - begun
    say(
        f"Backup {made.name} has {made.entries:,} entries of {counted(len(made.shards), 'shard')}, "
        f"{made.bytes / 1e6:,.1f} MB; {made.copied / 1e6:,.1f} MB were copied in {seconds:.1f} s. "
        f"Check it with `ledgermq backup check {quote(target)}`."
    )


def _made(target: str, key_file: Path | None, max_rate: int, bootstrap: str, begun: float) -> Manifest:
    """Make a backup and return its manifest. `begun` is the time of `time.monotonic` at which the command began."""
    security = security_of({}, bootstrap.split(","))
    settings = BackupSettings(max_rate, tls=security.tls)
    with (
        sigterm_stops(),
        Admin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin,
        BytesProgress("backup", None) as progress,
    ):

        def tell(state: CopyState) -> None:
            rate = state.copied / 1e6 / max(time.monotonic() - begun, 1e-3)
            progress.say(
                f"shard {state.shard}: entry {state.index:,} of {state.last_index:,}; {state.copied / 1e6:,.1f} MB "
                f"copied, {rate:,.0f} MB/s"
            )

        return create_backup(admin, open_target(target, key_file), settings, on_progress=tell)


@backup.command("list")
@target_argument
@key_file_option
@format_option
def list_backups(target: str, key_file: Path | None, output: str) -> None:
    """List the backups in TARGET, the oldest first.

    All messages that were acknowledged before the time in the column TAKEN are in the backup.
    """
    opened = open_target(target, key_file)
    manifests, damaged = manifests_in(opened, backups_in(opened))
    for flaw in damaged.values():
        say(f"Warning: {flaw}. The backup cannot be used.")
    if output == "json":
        told = [{"name": name, "flaw": flaw} for name, flaw in damaged.items()]
        print_json({"backups": [_fields(each) for each in manifests], "damaged": told})
        return
    if not manifests and not damaged:
        say(f"{opened.title} has no whole backup: make one with `ledgermq backup create {quote(target)}`.")
        return
    rows: list[tuple[object, ...]] = [
        (
            each.name,
            each.cluster,
            moment_text(each.taken_ms),
            len(each.shards),
            f"{each.entries:,}",
            f"{each.bytes / 1e6:,.1f}",
            f"{each.copied / 1e6:,.1f}",
        )
        for each in manifests
    ]
    rows += [(name, "damaged", None, None, None, None, None) for name in damaged]
    rows.sort(key=lambda row: str(row[0]))
    print_table(("BACKUP", "CLUSTER", "TAKEN", "SHARDS", "ENTRIES", "MB", "COPIED MB"), rows)


@backup.command()
@target_argument
@click.argument("name", metavar="[BACKUP]", required=False)
@click.option("--quick", is_flag=True, help="Do not replay the logs: faster, and enough to find damage of the target.")
@key_file_option
@format_option
@gives_verdict
def check(target: str, name: str | None, quick: bool, key_file: Path | None, output: str) -> int:
    """Check a backup without restoring it: each object, each entry, and that the entries follow each other. Then replay
    the logs, as `ledgermq validate` does.

    The default is the newest backup.

    \b
    Status: 0  whole
            1  damaged: an object is missing, or has other bytes
    """
    opened = open_target(target, key_file)
    name = name or newest_backup(opened)
    try:
        manifest = load_manifest(opened, name)
    except DamagedBackupError as damage:
        return _told(name, [str(damage)], None, output)
    with BytesProgress("check", manifest.bytes) as progress:
        flaws = list(flaws_of(opened, manifest, progress.add))
        if not flaws and not quick:
            progress.say("replaying the logs")
            flaws = replayed_flaws(f"{SCHEME}{target}#{manifest.name}", key_file)
    return _told(manifest.name, flaws, manifest, output)


def _told(name: str, flaws: list[str], manifest: Manifest | None, output: str) -> int:
    if output == "json":
        print_json({"backup": name, "verdict": "damaged" if flaws else "whole", "flaws": flaws})
        return int(bool(flaws))
    for flaw in flaws:
        data_console().print(flaw, style="red", soft_wrap=True)
    if flaws:
        data_console().print(
            f"DAMAGED: {counted(len(flaws), 'flaw')} in backup {name}. Use another backup, or repair the files from a "
            "copy of the target. Without a copy, remove the damaged files: the next `ledgermq backup create` copies "
            "them again.",
            style="bold red",
            soft_wrap=True,
        )
        return 1
    assert manifest is not None
    data_console().print(
        f"whole: backup {name}, {manifest.entries:,} entries of {counted(len(manifest.shards), 'shard')}, "
        f"{manifest.bytes / 1e6:,.1f} MB",
        style="bold green",
        soft_wrap=True,
    )
    return 0


@backup.command()
@target_argument
@key_file_option
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="Keep the newest N backups, and remove others.",
)
@format_option
def prune(target: str, key_file: Path | None, keep: int, output: str) -> None:
    """Remove old backups, and the files that no backup uses any more.

    If the manifest of a backup that is kept is damaged, nothing is removed.
    """
    opened = open_target(target, key_file)
    with opened.lock():
        removed, freed = prune_backups(opened, keep)
    if output == "json":
        print_json({"removed": removed, "freed_bytes": freed})
        return
    say(f"Removed {counted(len(removed), 'backup')} and {freed / 1e6:,.1f} MB.")


@backup.command("new-key")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def new_key(file: Path) -> None:
    """Write a new key for encrypted backups to FILE.

    Keep a copy of the key apart from the cluster and from the backups. Without it nobody can read the backups.
    """
    make_key_file(file)
    say(f"Wrote {file}. Give it to `ledgermq backup create` with --key-file, and keep a copy in another place.")


def _fields(manifest: Manifest) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(manifest).items() if key != "shards"}
    shards = [
        {
            "shard": shard.shard,
            "first_index": shard.start.index + 1,
            "last_index": shard.tail.index,
            "last_ms": shard.tail.append_time_ms,
            "bytes": shard.bytes,
        }
        for shard in manifest.shards
    ]
    return {**fields, "bytes": manifest.bytes, "entries": manifest.entries, "shards": shards}
