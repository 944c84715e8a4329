"""Options and click types that several commands share.

A command finds its cluster by the option --bootstrap, or by the variable LEDGERMQ_BOOTSTRAP if the option is missing.
If neither the option nor the variable is given, a command uses the addresses of the chosen profile, or the local
cluster of the current directory (`ledgermq dev start`), if that cluster runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from cluster.address import check_address
from cluster.cli.completion import profile_names
from cluster.local.processes import DEFAULT_DIRECTORY, DevCluster
from ledger.client.connection.security import PROFILE_FILE_VARIABLE, PROFILE_VARIABLE, profile_of
from ledger.errors import InvalidArgumentError
from ledger.local_socket import SOCKET, is_socket, socket_address

Command = TypeVar("Command", bound=Callable[..., Any])

# Shorter than the default of the clients (30 s), because a person waits.
REQUEST_TIMEOUT_MS = 10_000
BOOTSTRAP_VARIABLE = "LEDGERMQ_BOOTSTRAP"
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LARGEST = 1e9
_LOCAL = "local socket"
_SECURITY = "security options"


def _find_cluster(ctx: click.Context, parameter: click.Parameter, given: str | None) -> str:
    if ctx.resilient_parsing:  # the shell asks for completions
        return given or ""
    if (local := ctx.meta.get(_LOCAL)) is not None:
        return str(local)
    ask_for_password()
    if not given:
        given = profile_servers()
    if given:
        return checked_addresses(given)
    cluster = DevCluster(DEFAULT_DIRECTORY)
    if not cluster.exists:
        raise click.UsageError(
            f"no cluster is named: give --bootstrap HOST:PORT, set {BOOTSTRAP_VARIABLE}, "
            "or start a local one with `ledgermq dev start`"
        )
    if not cluster.running:
        raise click.UsageError(
            f"no cluster is named, and the local cluster in {DEFAULT_DIRECTORY} does not run: start it with "
            f"`ledgermq dev start`, give --bootstrap HOST:PORT, or set {BOOTSTRAP_VARIABLE}"
        )
    return _local_addresses(cluster)


def _local_addresses(cluster: DevCluster) -> str:
    if cluster.is_secure:  # the clients of this process use the profile of the local cluster
        os.environ.setdefault(PROFILE_FILE_VARIABLE, str(cluster.credentials.profiles))
    return cluster.bootstrap


def meant_cluster(ctx: click.Context) -> str:
    """Return the addresses of the cluster that a half-typed command means, or "" if it means none. Raises UsageError or
    BadParameter if an option or the profile cannot be used. The function asks for no
    password."""
    if (local := ctx.meta.get(_LOCAL)) is not None:
        return str(local)
    os.environ.update(ctx.meta.get(_SECURITY, {}))
    given = ctx.params.get("bootstrap") or profile_servers()
    if given:
        return checked_addresses(given)
    cluster = DevCluster(DEFAULT_DIRECTORY)
    return _local_addresses(cluster) if cluster.exists and cluster.running else ""


def profile_servers() -> str | None:
    """Return the addresses in the chosen profile, or None. Raises UsageError if the profile cannot be used."""
    try:
        servers = profile_of(os.environ.get(PROFILE_VARIABLE, "")).get("servers")
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    return None if servers is None else str(servers)


def ask_for_password() -> None:
    """Ask for the password of --user, if it comes from nowhere else. Without a terminal, the client refuses later."""
    user = os.environ.get("LEDGERMQ_USER")
    known = os.environ.get("LEDGERMQ_PASSWORD") or os.environ.get("LEDGERMQ_PASSWORD_FILE")
    if user and not known and sys.stdin.isatty():
        os.environ["LEDGERMQ_PASSWORD"] = click.prompt(f"Password of {user}", hide_input=True, err=True)


def _to_environment(variable: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that hands an option to all clients of this process, and of its child processes, in the
    environment."""

    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is None:
            return
        text = "1" if value is True else str(value)
        if ctx.resilient_parsing:  # the shell asks for completions, and may ask the cluster: see `meant_cluster`
            ctx.meta.setdefault(_SECURITY, {})[variable] = text
        else:
            os.environ[variable] = text

    return callback


def _security_option(name: str, help_text: str, **more: Any) -> Callable[[Command], Command]:
    variable = f"LEDGERMQ_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(
        name,
        variable.lower(),
        expose_value=False,
        is_eager=True,
        callback=_to_environment(variable),
        help=help_text,
        **more,
    )


_A_FILE = click.Path(dir_okay=False, path_type=Path)
_SECURITY_OPTIONS = (
    _security_option(
        "--profile",
        "Profile with addresses and security settings (`ledgermq profile`).",
        metavar="NAME",
        shell_complete=profile_names,
    ),
    _security_option("--user", "User; the password is asked for, or comes from --password-file.", metavar="NAME"),
    _security_option("--password-file", "File with the password of the user.", type=_A_FILE),
    _security_option("--ca", "Authorities that sign the certificates of the nodes (PEM); turns on TLS.", type=_A_FILE),
    _security_option("--tls", "Use TLS with the authorities of the system.", is_flag=True, default=None),
    _security_option("--client-certificate", "Certificate of this client, in place of a password.", type=_A_FILE),
    _security_option("--client-key", "Key of --client-certificate.", type=_A_FILE),
)


def _find_socket(ctx: click.Context, _: click.Parameter, data: Path | None) -> None:
    if data is None:
        return
    if not (data / SOCKET).exists():
        if ctx.resilient_parsing:
            return
        raise click.BadParameter(
            f"{data} has no {SOCKET}: name the data directory of a node that runs with `authentication = true`",
            param_hint="--local",
        )
    ctx.meta[_LOCAL] = socket_address(data)


def checked_addresses(given: str) -> str:
    """Return the addresses, separated by commas, without blanks. Raises click.BadParameter."""
    parts = [part.strip() for part in given.split(",")]
    return ",".join(_address(part) for part in parts if part) or _address(given)


def _address(text: str) -> str:
    if is_socket(text):
        return text
    try:
        return check_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from error


_addresses_option: Callable[[Command], Command] = click.option(
    "--bootstrap",
    metavar="HOST:PORT,...",
    envvar=BOOTSTRAP_VARIABLE,
    callback=_find_cluster,
    help="Addresses of one or more nodes, or of name servers.  "
    f"[default: ${BOOTSTRAP_VARIABLE}, the profile, or the local cluster of this directory]",
)


_local_option: Callable[[Command], Command] = click.option(
    "--local",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DATA",
    expose_value=False,
    is_eager=True,
    callback=_find_socket,
    help="Data directory of a node of this machine. Reach this node by its local socket, as an administrator.",
)


def security_options(command: Command) -> Command:
    """Add the options that say who the caller is."""
    for option in reversed(_SECURITY_OPTIONS):
        command = option(command)
    return command


def bootstrap_option(command: Command) -> Command:
    """Add the options that say which cluster a command talks to, and who the caller is."""
    return _addresses_option(_local_option(security_options(command)))


format_option: Callable[[Command], Command] = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format: text for people, json for programs.",
)


def shard_option(default: str) -> Callable[[Command], Command]:
    """Return the click option --shard. `default` is the text that the help shows as the default of the option."""
    option = click.option(
        "--shard", type=click.IntRange(0, 63), default=None, help=f"Number of the shard.  [default: {default}]"
    )
    return lambda command: option(renamed_option("--group", "--shard")(command))


def renamed_option(old: str, new: str) -> Callable[[Command], Command]:
    """Return a hidden click option with an option name of an earlier version. If a user gives this option, the
    command fails and names the new option `new`."""

    def refuse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{old} was renamed: use {new}")

    return click.option(old, hidden=True, expose_value=False, callback=refuse)


data_option: Callable[[Command], Command] = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="Directory of the cluster.",
)


class Duration(click.ParamType[int]):
    """The click type of a duration such as "90s", "15m", "24h" or "7d"; it returns milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,9})([smhd])", value, re.ASCII)
        if found is None:
            return self.fail(f"{value!r} is not a duration: write it as 90s, 15m, 24h or 7d", param, ctx)
        return int(found[1]) * _UNITS_MS[found[2]]


class FiniteRange(click.FloatRange):
    """The click type of a number in a range, such as a duration in seconds or a rate. `nan`, `inf` and numbers above
    1e9 are refused, because no command can compute a time with them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not abs(number) <= _LARGEST:  # no comparison with nan is true
            self.fail(f"{value} is not a number up to {_LARGEST:,.0f}", param, ctx)
        return number


class MomentType(click.ParamType[datetime]):
    """The click type of a date and time in ISO 8601 (UTC if no time zone is given), or of milliseconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if value.isascii() and value.isdecimal():
                return datetime.fromtimestamp(int(value) / 1000, UTC)
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r} is not a time: give a time such as 2026-11-21T08:30:00Z, or milliseconds since 1970",
                param,
                ctx,
            )
        if moment.year < 1970:
            self.fail(f"{value!r} lies before 1970: give a later time", param, ctx)
        return moment


def moment_text(ms: int) -> str:
    """Return the time `ms` (milliseconds since 1970) as text that `MomentType` can read; a time without a date, which a
    producer may give to a message, as a number of milliseconds."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


class Separator(click.ParamType[bytes]):
    """The click type of a separator of lines or fields: at least one character, with escapes as in
    Python (\\t, \\0, \\x1f).
    """

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            separator = value.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"{value!r} has an incomplete or unknown escape: write \\\\ for a backslash", param, ctx)
        if not separator:
            self.fail("the separator must not be empty: give one character or more", param, ctx)
        return bytes(separator)
