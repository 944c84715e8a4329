"""Implements the command line `ledgermq`: the list of its commands, and the handling of failures.

    __init__.py         `_COMMANDS`, the list of commands; `main`, which runs one command and sets the exit status
    command_group.py    a click group whose help has whole sentences
    options.py          options that several commands share: --bootstrap, --format, --shard, --data
    output.py           tables, JSON and sentences for the terminal
    failure.py          which errors are printed as one sentence
    question.py         asks the user before data is deleted
    progress_line.py    a line of progress on a terminal
    metrics_file.py     the option --metrics-file: a command writes its metrics into a file
    verdict.py          marks commands whose exit status is a verdict
    stopping.py         ends a command on Ctrl-C and on SIGTERM
    completion.py       completes commands and names in a shell
    completed_names.py  the names of topics and consumer groups that a shell offers

Each of the folders backup/, cluster/, doctor/, debug/, topics/, groups/, messages/, mirror/, rocketmq/, security/,
log/, validation/, servers/, local/ and bench/ contains the commands for one kind of object, for example topics.

To add a command to an existing click group such as `ledgermq topic`, write a function with `@topic.command()` in the
module of that click group. To add a command directly to `ledgermq`, write a click command in a module of a subfolder
of cluster/cli, and add a line to `_COMMANDS`. A distribution outside this package adds commands with the entry point
group `ledgermq.commands`. Each entry point loads a `CommandEntry`; chaos/commands.py is an example.

Commands write data to standard output, and messages for the user to standard error. A command reports a failure by
raising an exception, and `main` prints the exception as one sentence. The exit status is 0 for success, 1 for a
failure, 2 for wrong usage, 130 for an interrupt with Ctrl-C, and 143 if SIGTERM stopped `produce` or `consume`. If a
command function returns a number, the number is the exit status. If the number is a verdict, mark the function with
`gives_verdict` (verdict.py): the status is 141 if the reader of the output leaves before the verdict, and 2 if
the output cannot be written.

The module of a command is imported only when the command runs. Because the modules of commands are imported late,
`ledgermq --help` is fast, and works where only the client packages are installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from cluster.allocator import keep_large_buffers
from cluster.cli.stopping import TERMINATED, TerminatedError
from cluster.cli.verdict import ReaderLeftError, UnwrittenError, is_unwritable
from cluster.grpc_engine import log_only_errors, prefer_older_engine
from ledger.version import VERSION

INTERRUPTED = 130
# A shell sets this variable when it asks for completions. click answers, with the classes in completion.py.
COMPLETE_VARIABLE = "_LEDGERMQ_COMPLETE"


class CommandEntry(NamedTuple):
    """Describes a command: its module, its function, and its line in `ledgermq --help`."""

    module: str
    name: str
    help: str


_COMMANDS = {
    "dev": CommandEntry(
        "cluster.cli.local.dev", "dev", "Run a local cluster: start, status, add-node, remove-node, stop, purge."
    ),
    "server": CommandEntry("cluster.cli.servers.server", "server", "Run one node."),
    "topic": CommandEntry("cluster.cli.topics.topic", "topic", "Create, alter, delete, list and describe topics."),
    "produce": CommandEntry(
        "cluster.cli.messages.produce", "produce", "Send lines, JSON lines, or messages of a template."
    ),
    "message": CommandEntry(
        "cluster.cli.messages.message", "message", "Get a message, find messages by key, or trace one message."
    ),
    "transaction": CommandEntry(
        "cluster.cli.messages.transaction", "transaction", "List, show, commit and roll back transactions."
    ),
    "timer": CommandEntry(
        "cluster.cli.messages.timer", "timer", "List, show and cancel messages that wait for their delivery times."
    ),
    "consume": CommandEntry("cluster.cli.messages.consume", "consume", "Print the messages of topics."),
    "group": CommandEntry(
        "cluster.cli.groups.group", "group", "Create, list, describe, reset, move and delete consumer groups."
    ),
    "dlq": CommandEntry("cluster.cli.groups.dlq", "dlq", "List or resend the dead letters of a consumer group."),
    "mirror": CommandEntry("cluster.cli.mirror.command", "mirror", "Copy topics of a cluster to another one."),
    "rocketmq": CommandEntry("cluster.cli.rocketmq.mirror", "rocketmq", "Copy topics from RocketMQ servers."),
    "cluster": CommandEntry(
        "cluster.cli.cluster.command", "cluster", "Show and change nodes, shards, leaders and the log start."
    ),
    "doctor": CommandEntry(
        "cluster.cli.doctor.command", "doctor", "List what is wrong with a cluster, and the commands that help."
    ),
    "debug": CommandEntry(
        "cluster.cli.debug.command", "debug", "Look for the cause of a problem: slow requests, or a bundle of facts."
    ),
    "user": CommandEntry(
        "cluster.cli.security.user", "user", "Add, list, rotate and remove users, and make tokens and RocketMQ secrets."
    ),
    "acl": CommandEntry("cluster.cli.security.acl", "acl", "Grant, revoke, list and test the rights of users."),
    "profile": CommandEntry(
        "cluster.cli.security.profile", "profile", "Keep addresses and security settings of clusters under names."
    ),
    "certs": CommandEntry("cluster.cli.security.certs", "certs", "Make the certificates of nodes and users."),
    "nameserver": CommandEntry(
        "cluster.cli.servers.nameserver", "nameserver", "Run a name server, or show its routes."
    ),
    "log": CommandEntry("cluster.cli.log.command", "log", "Read a node's log files: dump, verify, diff."),
    "bench": CommandEntry(
        "cluster.cli.bench.command", "bench", "Measure throughput, latency and failover of a cluster."
    ),
    "validate": CommandEntry(
        "cluster.cli.validation.validate", "validate", "Check that replicas agree, from the bytes of their logs."
    ),
    "backup": CommandEntry("cluster.cli.backup.command", "backup", "Make, list, check and remove backups."),
    "restore": CommandEntry("cluster.cli.backup.restore", "restore", "Make a new cluster from a backup."),
    "completion": CommandEntry(
        "cluster.cli.completion", "completion", "Print the completion script of bash, zsh or fish."
    ),
    "demo": CommandEntry("cluster.cli.local.demo", "demo", "Send a corpus, kill the leader, and check every line."),
}

# The entry points in this group add commands of packages that this package does not import. Each loads a CommandEntry.
_MORE_COMMANDS = "ledgermq.commands"


def _all_commands() -> dict[str, CommandEntry]:
    return _COMMANDS | {point.name: point.load() for point in sorted(entry_points(group=_MORE_COMMANDS))}


class _LazyGroup(click.Group):
    """A click group that imports a command only when the command runs. The help lines of the commands are in
    `_COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name) or _all_commands().get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.name)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command. Options of commands stand after the command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            where = f"{error.message} Options stand after the command: ledgermq COMMAND [OPTIONS]."
            raise click.NoSuchOption(error.option_name, where, error.possibilities, ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. For a misspelled name, suggest the nearest one, which click does only for groups that know
        their commands."""
        near = get_close_matches(args[0], self.list_commands(ctx), 1)
        if near and near[0] != args[0] and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with `incomplete`, without the import of any command."""
        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in _all_commands().items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        status = 0
        try:
            result = super().invoke(ctx)
            status = result if isinstance(result, int) else 0
            sys.stdout.flush()
        except BrokenPipeError as error:  # here, because click would make it an exit status of 1
            raise ReaderLeftError(status) from error
        except OSError as error:
            if not is_unwritable():
                raise
            raise UnwrittenError(error, status or 1) from error
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _all_commands().items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"ledgermq {VERSION}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def ledgermq() -> None:
    """A replicated message queue whose log is a Raft log.

    To begin, start a local cluster with `ledgermq dev start`, or run `ledgermq demo`.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that `arguments` name, and exit with the status of the command. If `arguments` is None, the
    arguments of this process are used."""
    prefer_older_engine()
    log_only_errors()
    keep_large_buffers()
    _escape_foreign_characters()
    status = _run(arguments)
    _drop_unwritten()
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    if COMPLETE_VARIABLE in os.environ:
        import_module("cluster.cli.completion")
    try:
        # What a command returns is its status; click turns ctx.exit() into a return value too.
        status = ledgermq.main(arguments, prog_name="ledgermq", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except TerminatedError:
        return TERMINATED
    except ReaderLeftError as left:
        return left.status
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        with suppress(BrokenPipeError):
            click.echo(f"Error: {_printable(sentence)}", err=True)
        return 1


def _escape_foreign_characters() -> None:
    """Let standard output print escapes, such as \\udce9, for characters that its encoding does not have. For example,
    the name of a file may have bytes that are not UTF-8. Standard error does this without our help."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_unwritten() -> None:
    """Drop output that cannot be written: its reader has left (`ledgermq consume t | head`), or the disk is full.
    Otherwise the interpreter would try again to write it, and exit with status 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _printable(text: str) -> str:
    from cluster.cli.output import printable

    return printable(text)


def _sentence(error: Exception) -> str | None:
    """Return the sentence that the user sees for an error. Return None if the error is a bug, because a bug keeps
    its traceback."""
    from cluster.cli.failure import sentence

    return sentence(error)
