"""`ledgermq log`: what lies on the disk of a node that is down, or in a copy of its directory.

These commands need no cluster and write nothing, not even a lock; the status tells a program what they found: 0 whole
(or the same), 1 damaged (or forked), 2 it could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from cluster.cli.options import format_option

if TYPE_CHECKING:
    from ledger.validation.sources.place import LogPlace

Command = TypeVar("Command", bound=Callable[..., object])


class CannotReadError(click.ClickException):
    """What was named cannot be looked at."""

    exit_code = 2


class _SegmentName(click.ParamType[int]):
    """A position, or a segment's name, which is one."""

    name = "segment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        return self.fail(f"{value!r} is no segment: those are named by their first position", param, ctx)


_paths = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)


@click.group()
def log() -> None:
    """Look at a node's log on the disk, with the node down or at a copy; nothing is ever written.

    A PATH is a node's data directory, a shard's directory in it, its log directory, or a segment file.
    """


@log.command(short_help="Write the entries of logs.")
@_paths
@click.option("--from", "first", type=click.IntRange(min=1), default=1, metavar="INDEX", help="Begin with this entry.")
@click.option("--to", "last", type=click.IntRange(min=1), metavar="INDEX", help="End with this entry.")
@click.option("--segment", type=_SegmentName(), help="Only this segment: its name, or a position in it.")
@click.option("--limit", type=click.IntRange(min=0), help="Stop after so many entries, of each log.")
@click.option("--batches", is_flag=True, help="Also the headers of batches.")
@click.option("--decode", is_flag=True, help="Also the messages in them, and what other entries say.")
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
    """Write the entries of logs to standard output, one a line, as they are read; flaws stand where they are.

    In JSON, each line is an object with a "type": segment, entry, batch, message, body, or flaw.
    """
    from cluster.cli.log.dump import Wanted, dump_log
    from ledger.validation.sources.place import UnreadableError

    wanted = Wanted(first, last, limit, batches=batches or decode, messages=decode)
    with _unreadable_is_said():
        for place in _places(paths):
            try:
                dump_log(place.narrowed(first, segment), wanted, as_json=output == "json")
            except UnreadableError as error:
                raise CannotReadError(str(error)) from error


@log.command(short_help="Check logs and what lies beside them.")
@_paths
@click.option(
    "--index-data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the node has its indexes, if not with its data (its setting `index_data`).",
)
@format_option
def verify(paths: Sequence[Path], index_data: Path | None, output: str) -> int:
    """Check every byte of logs, and the votes, marks, bases and indexes (ConsumeQueues, keys) beside them.

    Tells all damage, each with file, position, index, and where whole entries are found again. What a killed write may
    leave behind the log's end is told as torn: the next start erases it, and it is no damage.

    \b
    Status: 0  all is whole
            1  something is damaged
            2  something could not be read, or is of a version that this program does not know
    """
    from cluster.cli.log.verify import verify_logs
    from cluster.cli.output import say

    with _unreadable_is_said():
        places = _places(paths)
        if index_data is not None:
            if len(paths) > 1:
                raise click.UsageError("name one node with its --index-data at a time")
            places = [place.with_indexes(index_data) for place in places]
        for place in places:
            if place.shard is not None and place.indexes is None:
                say(f"{place.path}: its indexes are not here, and not looked at: name their directory by --index-data")
        return verify_logs(places, as_json=output == "json")


@log.command(short_help="Compare the logs of replicas.")
@_paths
@format_option
def diff(paths: Sequence[Path], output: str) -> int:
    """Compare the logs of replicas: where they part, and which is a prefix of which.

    Replicas may differ in a tail that no entry calls committed: Raft replaces that.

    \b
    Status: 0  they are the same, prefixes of each other, or part in what is not known to be committed
            1  they part in what is committed
            2  something could not be read: see `ledgermq log verify`
    """
    from cluster.cli.log.diff import diff_logs

    with _unreadable_is_said():
        places = _places(paths)
        if len(places) < 2:
            raise click.UsageError("name two logs or more to compare")
        return diff_logs(places, as_json=output == "json")


def _places(paths: Sequence[Path]) -> list[LogPlace]:
    from cluster.cli.output import say
    from ledger.validation.sources.place import places_of

    places = [place for path in paths for place in places_of(path)]
    for place in places:
        if place.holder is not None:
            say(f"{place.path}: a node runs on it (process {place.holder}): what is read may be changing")
        if place.void:
            say(
                f"{place.path}: its log is being replaced by another node's: what is left of the old one is passed over"
            )
    return places


@contextmanager
def _unreadable_is_said() -> Iterator[None]:
    from ledger.validation.sources.place import UnreadableError
    from store import StoreError

    try:
        yield
    except (UnreadableError, StoreError) as error:
        raise CannotReadError(str(error)) from error
