"""The commands `ledgermq log dump`, `verify` and `diff` read the files of a stopped node, or a copy of a node's files.

The commands need no cluster and write nothing, not even a lock file. Exit status 0 means that the log is whole (or
that the logs are equal). Exit status 1 means damage (or logs that differ in committed entries). Exit status 2 means
that a file cannot be read (or that logs have no entry in common).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.options import format_option
from cluster.cli.verdict import gives_verdict

if TYPE_CHECKING:
    from ledger.validation.sources.place import LogPlace

Command = TypeVar("Command", bound=Callable[..., object])


class CannotReadError(click.ClickException):
    """A path that the user gave cannot be read."""

    exit_code = 2


class _SegmentName(click.ParamType[int]):
    """The click type of a segment: the name of a segment file (its first position, with leading zeros), or any
    position in the segment."""

    name = "segment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        return self.fail(
            f"{value!r} is not a segment: give the name of a segment file, or a position in the log", param, ctx
        )


_paths = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)


@click.group(cls=CommandGroup)
def log() -> None:
    """Read the log files of a stopped node, or of a copy of its directory. The `ledgermq log` commands write nothing.

    A PATH is a node's data directory, a shard's directory in it, a log directory, or a segment file.
    """


@log.command(short_help="Print the entries of logs.")
@_paths
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=1),
    default=1,
    metavar="INDEX",
    help="Index of the first entry to print.  [default: the first]",
)
@click.option(
    "--to",
    "last",
    type=click.IntRange(min=1),
    metavar="INDEX",
    help="Index of the last entry to print.  [default: the last]",
)
@click.option("--segment", type=_SegmentName(), help="Only this segment: its file name, or a position in it.")
@click.option(
    "--limit", type=click.IntRange(min=0), help="Print at most this many entries of each log.  [default: all]"
)
@click.option("--batches", is_flag=True, help="Also print the headers of batches.")
@click.option("--decode", is_flag=True, help="Also print batch headers, messages, and the content of other entries.")
@format_option
def dump(
    paths: Sequence[Path],
    first: int,
    last: int | None,
    segment: int | None,
    limit: int | None,
    batches: bool,
    decode: bool,
    output: str,
) -> None:
    """Print the entries of logs, one entry on a line. A flaw (a damaged place) is printed between the entries where it
    lies.

    With --format json, each line is a JSON object whose "type" is segment, entry, batch, message, body, flaw or
    undecodable.
    """
    from cluster.cli.log.dump import DumpSelection, dump_log
    from ledger.validation.sources.place import UnreadableError

    wanted = DumpSelection(first, last, limit, batches=batches or decode, messages=decode)
    with _unreadable_is_said():
        for place in _places(paths):
            try:
                dump_log(place.narrowed(first, segment), wanted, as_json=output == "json")
            except UnreadableError as error:
                raise CannotReadError(str(error)) from error


@log.command(short_help="Check every byte of a replica.")
@_paths
@click.option(
    "--index-data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The node's directory for indexes (its setting `index_data`).  [default: the data directory]",
)
@format_option
@gives_verdict
def verify(paths: Sequence[Path], index_data: Path | None, output: str) -> int:
    """Check every byte of logs, and of the snapshots, indexes, vote files and clean marks that belong to the logs.

    For every flaw, the command prints the file, the position, the entry, and the place where undamaged entries begin
    again. Incomplete bytes after the end of the log are printed as torn. Torn bytes are not damage: a killed process
    leaves them, and the next start erases them.

    \b
    Status: 0  all is whole
            1  something is damaged
            2  something cannot be read, or has a version that this program does not know
    """
    from cluster.cli.log.verify import verify_logs
    from cluster.cli.output import say

    with _unreadable_is_said():
        places = _places(paths)
        if index_data is not None:
            if len(paths) > 1:
                raise click.UsageError("--index-data belongs to one node: give only one PATH with it")
            places = [place.with_indexes(index_data) for place in places]
        for place in places:
            if place.shard is not None and place.indexes is None:
                say(f"{place.path}: its indexes are not here and not checked: give their directory with --index-data")
        return verify_logs(places, as_json=output == "json")


@log.command(short_help="Compare the logs of replicas.")
@_paths
@format_option
@gives_verdict
def diff(paths: Sequence[Path], output: str) -> int:
    """Compare the logs of every pair of replicas: print the first entry that differs, or which log is longer.

    Entries that are not committed can differ between two replicas. Raft later replaces entries that differ and are not
    committed.

    \b
    Status: 0  no difference in committed entries
            1  committed entries differ
            2  something cannot be read (see `ledgermq log verify`), or two replicas have no entry in common
    """
    from cluster.cli.log.diff import diff_logs

    with _unreadable_is_said():
        places = _places(paths)
        if len(places) < 2:
            raise click.UsageError("give two logs or more to compare")
        return diff_logs(places, as_json=output == "json")


def _places(paths: Sequence[Path]) -> list[LogPlace]:
    from cluster.cli.output import say
    from ledger.validation.sources.place import places_of

    places = [place for path in paths for place in places_of(path)]
    for place in places:
        if place.holder is not None:
            say(f"{place.path}: a node runs here (process {place.holder}), so the files may change meanwhile")
        if place.void:
            say(f"{place.path}: the node is replacing this log by a received snapshot: the old entries are not checked")
    return places


@contextmanager
def _unreadable_is_said() -> Iterator[None]:
    from ledger.validation.sources.place import UnreadableError
    from store import StoreError

    try:
        yield
    except (UnreadableError, StoreError) as error:
        raise CannotReadError(str(error)) from error
