"""The command line, `ledgermq`.

A person sees one sentence when something goes wrong, and a program sees data alone on standard output and a status: 0
done, 1 it failed, 2 wrong usage, 130 interrupted. Both are settled here, in `main`; a command just raises. Commands
are loaded when they are called, so `ledgermq --help` is quick, and works where only the clients are installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import click

from cluster.allocator import keep_large_buffers
from cluster.grpc_engine import prefer_older_engine
from ledger.version import VERSION

INTERRUPTED = 130


class _ReaderLeftError(Exception):
    """Whoever read our standard output has closed it."""


class CommandEntry(NamedTuple):
    """Where a command is, and what it is for: known without loading it."""

    module: str
    name: str
    help: str


_COMMANDS = {
    "dev": CommandEntry("cluster.cli.local.dev", "dev", "A local cluster: start, status, stop, purge."),
    "server": CommandEntry("cluster.cli.servers.server", "server", "Run one node."),
    "topic": CommandEntry("cluster.cli.topics.topic", "topic", "Topics: create, list, describe; offsets by time."),
    "produce": CommandEntry(
        "cluster.cli.messages.produce", "produce", "Send lines of a file or of standard input to a topic."
    ),
    "message": CommandEntry(
        "cluster.cli.messages.message", "message", "Single messages: get one by its place, query by key."
    ),
    "consume": CommandEntry("cluster.cli.messages.consume", "consume", "Write a topic's messages to standard output."),
    "group": CommandEntry("cluster.cli.groups.group", "group", "Consumer groups: list, describe, reset, delete."),
    "dlq": CommandEntry("cluster.cli.groups.dlq", "dlq", "Dead letters of a consumer group: list, resend."),
    "cluster": CommandEntry(
        "cluster.cli.cluster.command", "cluster", "How a cluster's nodes are; members, leader, what is kept."
    ),
    "nameserver": CommandEntry("cluster.cli.servers.nameserver", "nameserver", "Run a name server; see what it knows."),
    "log": CommandEntry("cluster.cli.log.command", "log", "Look at a node's log on the disk: dump, verify, diff."),
    "bench": CommandEntry(
        "cluster.cli.bench.command", "bench", "Measure a cluster: produce, consume, e2e, failover, idle."
    ),
    "validate": CommandEntry(
        "cluster.cli.validation.validate", "validate", "Prove from the bytes that replicas agree."
    ),
    "demo": CommandEntry(
        "cluster.cli.local.demo", "demo", "Three nodes, a real corpus, a killed leader, and a verdict."
    ),
}

_MORE_COMMANDS = "ledgermq.commands"
"""The group of entry points, each an `Entry`, of parts that this one must not know."""


def _all_commands() -> dict[str, CommandEntry]:
    return _COMMANDS | {point.name: point.load() for point in sorted(entry_points(group=_MORE_COMMANDS))}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are needed; their one-line helps stand above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name) or _all_commands().get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:  # here, because click would make it an exit status of 1
            raise _ReaderLeftError from error
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _all_commands().items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"ledgermq {VERSION}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show it.")
def ledgermq() -> None:
    """A message queue whose log is a Raft log.

    Start with `ledgermq dev start`, or see it at work with `ledgermq demo`.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its status."""
    prefer_older_engine()
    keep_large_buffers()
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        # What a command returns is its status; click turns ctx.exit() into a return value too.
        status = ledgermq.main(arguments, prog_name="ledgermq", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except _ReaderLeftError:
        return _reader_left()
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        with suppress(BrokenPipeError):
            click.echo(f"Error: {sentence}", err=True)
        return 1


def _reader_left() -> int:
    # `ledgermq consume t | head`: whoever read has what it wanted. The interpreter must not flush into the pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _sentence(error: Exception) -> str | None:
    """What to tell a person, None for an error that only a programmer can do something about."""
    from cluster.cli.failure import sentence

    return sentence(error)
