"""Options that several commands share, and how they find a cluster when none is named.

On the command line, then in LEDGERMQ_BOOTSTRAP, then the local cluster of this directory, if it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from cluster.address import check_address
from cluster.local.processes import DEFAULT_DIRECTORY, DevCluster

Command = TypeVar("Command", bound=Callable[..., Any])

# A person waits less patiently than a program.
REQUEST_TIMEOUT_MS = 10_000
BOOTSTRAP_VARIABLE = "LEDGERMQ_BOOTSTRAP"


def _find_cluster(ctx: click.Context, parameter: click.Parameter, given: str | None) -> str:
    if given:
        return ",".join(_address(part.strip()) for part in given.split(","))
    cluster = DevCluster(DEFAULT_DIRECTORY)
    if not cluster.exists:
        raise click.UsageError(
            f"no cluster named: give --bootstrap HOST:PORT, set {BOOTSTRAP_VARIABLE}, "
            "or start a local one with `ledgermq dev start`"
        )
    if not cluster.running:
        raise click.UsageError(
            f"no cluster named, and the local one in {DEFAULT_DIRECTORY} does not run: start it with "
            f"`ledgermq dev start`, give --bootstrap HOST:PORT, or set {BOOTSTRAP_VARIABLE}"
        )
    return cluster.bootstrap


def _address(text: str) -> str:
    try:
        return check_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from error


bootstrap_option: Callable[[Command], Command] = click.option(
    "--bootstrap",
    metavar="HOST:PORT,...",
    envvar=BOOTSTRAP_VARIABLE,
    callback=_find_cluster,
    help=f"Some of the cluster's nodes.  [default: ${BOOTSTRAP_VARIABLE}, or the local cluster here]",
)

format_option: Callable[[Command], Command] = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)


def shard_option(default: str) -> Callable[[Command], Command]:
    """`default`: what is meant without it, in words."""
    option = click.option(
        "--shard", type=click.IntRange(0, 63), default=None, help=f"Of this shard alone.  [default: {default}]"
    )
    return lambda command: option(renamed_option("--group", "--shard")(command))


def renamed_option(old: str, new: str) -> Callable[[Command], Command]:
    """An option of an earlier version, hidden: a command that is given it fails with the option's new name."""

    def refuse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{old} has another name now: use {new}")

    return click.option(old, hidden=True, expose_value=False, callback=refuse)


data_option: Callable[[Command], Command] = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="The cluster's directory.",
)


class Moment(click.ParamType[datetime]):
    """A date and time in the form of ISO 8601, in UTC where it names no zone; or milliseconds since 1970."""

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
            self.fail(f"{value!r} is no time: give one as in 2026-11-21T08:30:00Z, or in ms since 1970", param, ctx)
        if moment.year < 1970:
            self.fail(f"{value!r} lies before 1970", param, ctx)
        return moment


def moment_text(ms: int) -> str:
    """Milliseconds since 1970 in the form that `Moment` reads."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Separator(click.ParamType[bytes]):
    """What separates lines or fields; not empty. Escapes as in Python (\\t, \\0, \\x1f) are understood."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            separator = value.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"{value!r} ends within an escape", param, ctx)
        if not separator:
            self.fail("it must not be empty", param, ctx)
        return bytes(separator)
