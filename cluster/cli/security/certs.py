"""The command `ledgermq certs` makes the certificates of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from cryptography import x509

from cluster.authority import DAYS, AuthorityError, KeyPair, new_authority, read_authority, write_pair
from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError
from cluster.cli.output import print_table, say
from cluster.local.toml_text import toml_text
from cluster.provision import provision
from ledger.access.rules import validate_user_name
from ledger.errors import InvalidArgumentError

_directory_option = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certs"),
    show_default=True,
    help="Directory of the authority (ca.pem, ca.key) and of the certificates.",
)
_cluster_option = click.option("--cluster", default="dev", show_default=True, help="Name of the cluster.")
_days_option = click.option(
    "--days", type=click.IntRange(1, 3650), default=DAYS, show_default=True, help="Days until the certificate ends."
)
_force_option = click.option("--force", is_flag=True, help="Replace files that exist.")
_hosts_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1"),
    show_default=True,
    help="Host name or IP address at which clients reach it. Give it once for each.",
)


def _issuing(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (_force_option, _days_option, _cluster_option, _directory_option):
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def certs() -> None:
    """Make the certificates of a cluster: an authority, and certificates of nodes, name servers and users.

    Keep ca.key on one safe machine. A node needs its own certificate and key, and ca.pem.
    """


@certs.command()
@_directory_option
@_cluster_option
@_force_option
def init(directory: Path, cluster: str, force: bool) -> None:
    """Make the authority of a cluster: ca.pem and ca.key."""
    certificate, key = _write(directory, "ca", new_authority(cluster).pair, force)
    say(f"Wrote {certificate} (for nodes and clients) and {key} (keep it secret and safe).")


@certs.group()
def issue() -> None:
    """Issue a certificate that the authority signs."""


@issue.command()
@click.argument("number", type=click.IntRange(1, 0xFFFF_FFFF))
@_hosts_option
@_issuing
def node(number: int, hosts: tuple[str, ...], directory: Path, cluster: str, days: int, force: bool) -> None:
    """Issue the certificate of node NUMBER. Run it again with --force to renew: a running node reads the new files."""
    authority = toml_text(str(directory / "ca.pem"))  # refuses a name that no settings file can contain
    pair = _authority(directory, cluster).node(number, hosts, days)
    certificate, key = _write(directory, f"node-{number}", pair, force)
    say(f"Wrote {certificate} and {key}. Settings of the node:\n")
    click.echo(
        f"tls_certificate = {toml_text(str(certificate))}\ntls_key = {toml_text(str(key))}\ntls_ca = {authority}"
    )


@issue.command()
@_hosts_option
@_issuing
def nameserver(hosts: tuple[str, ...], directory: Path, cluster: str, days: int, force: bool) -> None:
    """Issue the certificate of a name server."""
    certificate, key = _write(directory, "nameserver", _authority(directory, cluster).name_server(hosts, days), force)
    say(f"Wrote {certificate} and {key}.")


@issue.command()
@click.argument("name")
@_issuing
def user(name: str, directory: Path, cluster: str, days: int, force: bool) -> None:
    """Issue a certificate by which clients prove that they are the user NAME."""
    try:
        validate_user_name(name)
    except InvalidArgumentError as error:
        raise CommandError(str(error)) from error
    certificate, key = _write(directory, f"user-{name}", _authority(directory, cluster).user(name, days), force)
    say(f"Wrote {certificate} and {key}: give them to clients as --client-certificate and --client-key.")


@certs.command("provision")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    required=True,
    metavar="NUMBER=HOST,...",
    help="A node, with the host names and IP addresses at which it is reached. Give it once for each node.",
)
@click.option(
    "--authority",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the authority, which no node needs.  [default: the same as --directory]",
)
@_cluster_option
@_directory_option
def provision_command(nodes: tuple[str, ...], authority: Path | None, cluster: str, directory: Path) -> None:
    """Make all files of a new secured cluster: authority, certificates, and the password of the user admin.

    Files that exist stay. A certificate is replaced if it ends within 60 days or if its hosts have changed, so the
    command can be repeated at each start of the nodes.
    """
    try:
        made = provision(authority or directory, directory, cluster, dict(map(_node_and_hosts, nodes)))
    except AuthorityError as error:
        raise CommandError(str(error)) from error
    say(f"Wrote {', '.join(made)}." if made else f"Nothing to do: {directory} has all files.")


def _node_and_hosts(text: str) -> tuple[int, list[str]]:
    number, _, hosts = text.partition("=")
    found = [host.strip() for host in hosts.split(",") if host.strip()]
    if not number.isdecimal() or not 1 <= int(number) <= 0xFFFF_FFFF or not found:
        raise click.BadParameter(f"{text!r} is not of the form 1=queue-1.example.com,10.0.0.1", param_hint="--node")
    return int(number), found


@certs.command()
@_directory_option
def show(directory: Path) -> None:
    """Show the certificates of a directory, with the day when each ends."""
    rows: list[list[object]] = []
    for path in sorted(directory.glob("*.pem")):
        try:
            found = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError):
            rows.append([path.name, "no certificate", None, None])
            continue
        left = (found.not_valid_after_utc - datetime.now(UTC)).days
        rows.append([path.name, found.subject.rfc4514_string(), f"{found.not_valid_after_utc:%Y-%m-%d}", left])
    if rows:
        print_table(["FILE", "SUBJECT", "ENDS", "DAYS LEFT"], rows)
    else:
        say(f"{directory} has no certificates: make an authority with `ledgermq certs init`.")


def _authority(directory: Path, cluster: str) -> Any:
    try:
        return read_authority(directory, cluster)
    except AuthorityError as error:
        raise CommandError(str(error)) from error


def _write(directory: Path, name: str, pair: KeyPair, force: bool) -> tuple[Path, Path]:
    try:
        return write_pair(directory, name, pair, replace=force)
    except AuthorityError as error:
        raise CommandError(str(error)) from error
