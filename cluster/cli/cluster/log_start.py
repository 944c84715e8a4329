"""The commands `ledgermq cluster trim`, `hold`, `release` and `holds` control which messages the log keeps.

A trim removes messages on all nodes permanently. `ledgermq cluster trim` prints how much it removes; with --dry-run it
prints this and removes nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from cluster.cli.options import REQUEST_TIMEOUT_MS, Duration, bootstrap_option, format_option, shard_option
from cluster.cli.output import print_json, print_table, say
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import LogCut
from ledger.words import counted

T = TypeVar("T")

_UNITS_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class TimeOrAge(click.ParamType[int]):
    """The click type of a time such as "2026-07-01", "2026-07-01T12:30:00Z" or "72h" (72 hours ago); it returns ms
    since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch(r"\d{1,9}[smhd]", value, re.ASCII):
            return int(datetime.now(UTC).timestamp() * 1000) - Duration().convert(value, param, ctx)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return self.fail(
                f"{value!r} is not a time: write 2026-07-01T12:30:00Z (UTC by default), or 72h for 72 hours ago",
                param,
                ctx,
            )
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Size(click.ParamType[int]):
    """The click type of a size such as "500000", "512M" or "10G" (powers of 1024); it returns bytes."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,15})([KMGT]?)", value.upper().removesuffix("IB").removesuffix("B"), re.ASCII)
        if found is None:
            return self.fail(f"{value!r} is not a size: write 500000, 512M or 10G (powers of 1024)", param, ctx)
        return int(found[1]) * _UNITS_BYTES[found[2]]


class QueuePlaceType(click.ParamType[tuple[str, int, int]]):
    """The click type of an offset in a queue, written TOPIC:QUEUE:OFFSET."""

    name = "topic:queue:offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"([^:]+):(\d{1,9}):(\d{1,18})", value, re.ASCII)
        if found is None:
            return self.fail(f"{value!r} does not have the form TOPIC:QUEUE:OFFSET, as in orders:3:1042", param, ctx)
        return found[1], int(found[2]), int(found[3])


@click.command()
@click.option(
    "--before-time",
    type=TimeOrAge(),
    metavar="TIME",
    help="Keep messages appended then or later. A time, or 72h for 72 hours ago.",
)
@click.option(
    "--keep-bytes", type=Size(), metavar="SIZE", help="Keep this much at the end of the log: 500000, 512M, 10G (bytes)."
)
@click.option(
    "--before",
    type=QueuePlaceType(),
    metavar="TOPIC:QUEUE:OFFSET",
    help="Keep the messages of this queue from this offset on.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@shard_option("all shards; with --before, the shard of the queue")
@bootstrap_option
@format_option
def trim(
    before_time: int | None,
    keep_bytes: int | None,
    before: tuple[str, int, int] | None,
    dry_run: bool,
    shard: int | None,
    bootstrap: str,
    output: str,
) -> None:
    """Remove the oldest messages on all nodes, permanently.

    Give exactly one of the options --before-time, --keep-bytes and --before. The command removes only whole segments,
    and never the newest segment, so the log can keep more messages than you asked for. The command fails while a hold
    exists. `ledgermq cluster holds` lists the holds, which keep messages from being trimmed.
    """
    if (before_time, keep_bytes, before).count(None) != 2:
        raise click.UsageError(
            "give exactly one of --before-time, --keep-bytes and --before: it says which messages are kept"
        )
    cut = _ask(
        bootstrap,
        lambda admin: admin.trim_log(
            before_time_ms=before_time, keep_bytes=keep_bytes, before=before, shard=shard, dry_run=dry_run
        ),
    )
    if output == "json":
        print_json(asdict(cut))
        return
    for each in cut.by_shard:
        say(f"Shard {each.shard}: {_told(each)}")
    say(_told(cut))


@click.command()
@click.argument("name")
@click.option(
    "--ttl",
    type=Duration(),
    default="24h",
    show_default=True,
    help="How long the hold lasts without a release: 90s, 15m, 24h, 7d.",
)
@shard_option("all")
@bootstrap_option
@format_option
def hold(name: str, ttl: int, shard: int | None, bootstrap: str, output: str) -> None:
    """Keep every message that is in the log now, for the reader NAME.

    The hold ends with `ledgermq cluster release NAME`, or after --ttl. Until the hold ends, neither retention nor a
    trim removes a message. To extend a hold, repeat the command with the same name.
    """
    taken = _ask(bootstrap, lambda admin: admin.hold_log(name, ttl_ms=ttl, shard=shard))
    if output == "json":
        print_json(asdict(taken))
    else:
        say(f"The hold {taken.name} keeps the whole log until {_time(taken.expires_ms)}.")


@click.command()
@click.argument("name")
@shard_option("all")
@bootstrap_option
@format_option
def release(name: str, shard: int | None, bootstrap: str, output: str) -> None:
    """End the hold of the reader NAME. If NAME has no hold, the command succeeds without a change."""
    released = _ask(bootstrap, lambda admin: admin.release_log(name, shard=shard))
    if output == "json":
        print_json({"name": name, "released": released})
    else:
        say(f"Released the hold {name}." if released else f"There is no hold {name}.")


@click.command()
@shard_option("all")
@bootstrap_option
@format_option
def holds(shard: int | None, bootstrap: str, output: str) -> None:
    """List the holds: which reader keeps the log, from which index, and until when."""
    found = _ask(bootstrap, lambda admin: admin.log_holds(shard=shard))
    if output == "json":
        print_json({"holds": [asdict(each) for each in found]})
    elif found:
        rows = [[each.name, each.shard, each.index, _time(each.taken_ms), _time(each.expires_ms)] for each in found]
        print_table(["NAME", "SHARD", "AT INDEX", "TAKEN", "EXPIRES"], rows)
    else:
        say("There are no holds.")


LOG_OPERATIONS = (trim, hold, release, holds)


def _ask(bootstrap: str, what: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
    async def work() -> T:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await what(admin)

    return asyncio.run(work())


def _told(cut: LogCut) -> str:
    held = (
        f" The log is held by {', '.join(cut.held_by)}: nothing is removed until each hold is released."
        if cut.held_by
        else ""
    )
    if not cut.entries:
        kept = f"{cut.bytes_kept / 1e6:,.1f} MB"
        return f"Nothing to remove: every whole segment holds entries to keep. The log keeps {kept}.{held}"
    removed = "would be removed" if cut.dry_run else "are removed"
    return (
        f"{counted(cut.messages, 'message')} "
        f"({cut.bytes / 1e6:,.1f} MB), appended up to {_time(cut.newest_ms)}, {removed}. "
        f"The log keeps {cut.bytes_kept / 1e6:,.1f} MB.{held}"
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
