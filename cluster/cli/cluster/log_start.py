"""`ledgermq cluster trim` and its like: where the log begins, and who holds it there.

What goes is gone on all nodes, so a command says how much it is, before or after.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, shard_option
from cluster.cli.output import counted, print_json, print_table, say
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import LogCut

T = TypeVar("T")

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Duration(click.ParamType[int]):
    """In ms: "90s", "15m", "24h", "7d"."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,9})([smhd])", value, re.ASCII)
        if found is None:
            return self.fail(f"{value!r} is no duration: write 90s, 15m, 24h or 7d", param, ctx)
        return int(found[1]) * _UNITS_MS[found[2]]


class Moment(click.ParamType[int]):
    """In ms since 1970: "2026-07-01", "2026-07-01T12:30:00Z", or how long ago: "72h"."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch(r"\d{1,9}[smhd]", value, re.ASCII):
            return int(datetime.now(UTC).timestamp() * 1000) - Duration().convert(value, param, ctx)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return self.fail(f"{value!r} is no time: write 2026-07-01T12:30:00Z (UTC by default), or 72h", param, ctx)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Size(click.ParamType[int]):
    """In bytes: "500000", "512M", "10G"."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,15})([KMGT]?)", value.upper().removesuffix("IB").removesuffix("B"), re.ASCII)
        if found is None:
            return self.fail(f"{value!r} is no size: write 500000, 512M or 10G (powers of 1024)", param, ctx)
        return int(found[1]) * _UNITS_BYTES[found[2]]


class Place(click.ParamType[tuple[str, int, int]]):
    """TOPIC:QUEUE:OFFSET."""

    name = "topic:queue:offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"([^:]+):(\d{1,9}):(\d{1,18})", value, re.ASCII)
        if found is None:
            return self.fail(f"{value!r} is not of the form TOPIC:QUEUE:OFFSET", param, ctx)
        return found[1], int(found[2]), int(found[3])


@click.command()
@click.option(
    "--before-time", type=Moment(), metavar="TIME", help="What was appended then or later stays. A date; 72h: ago."
)
@click.option("--keep-bytes", type=Size(), metavar="SIZE", help="So many bytes at the end of the log stay.")
@click.option(
    "--before", type=Place(), metavar="TOPIC:QUEUE:OFFSET", help="Messages of that queue from that offset on stay."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@shard_option("all; with --before that queue's")
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
    """Let go of the oldest messages, on all nodes. They are gone for good.

    Whole segments go, those that hold nothing of what is to stay; never the one in use. Refused while somebody holds
    the log.
    """
    if (before_time, keep_bytes, before).count(None) != 2:
        raise click.UsageError("say what is to stay by one of --before-time, --keep-bytes and --before")
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
    "--ttl", type=Duration(), default="24h", show_default=True, help="Until then, if it is not released: 90s, 24h, 7d."
)
@shard_option("all")
@bootstrap_option
@format_option
def hold(name: str, ttl: int, shard: int | None, bootstrap: str, output: str) -> None:
    """Keep all that the log holds now, for the reader NAME, until `release` or the end of --ttl.

    Once more with the same name makes it last longer. Meanwhile nothing goes, whatever the settings say.
    """
    taken = _ask(bootstrap, lambda admin: admin.hold_log(name, ttl_ms=ttl, shard=shard))
    if output == "json":
        print_json(asdict(taken))
    else:
        say(f"{taken.name} holds the log where it begins, until {_time(taken.expires_ms)}.")


@click.command()
@click.argument("name")
@shard_option("all")
@bootstrap_option
@format_option
def release(name: str, shard: int | None, bootstrap: str, output: str) -> None:
    """End the hold of the reader NAME. That there is none is no error."""
    released = _ask(bootstrap, lambda admin: admin.release_log(name, shard=shard))
    if output == "json":
        print_json({"name": name, "released": released})
    else:
        say(f"{name} holds the log no more." if released else f"There is no hold of {name}.")


@click.command()
@shard_option("all")
@bootstrap_option
@format_option
def holds(shard: int | None, bootstrap: str, output: str) -> None:
    """List who holds the log."""
    found = _ask(bootstrap, lambda admin: admin.log_holds(shard=shard))
    if output == "json":
        print_json({"holds": [asdict(each) for each in found]})
    elif found:
        rows = [[each.name, each.shard, each.index, _time(each.taken_ms), _time(each.expires_ms)] for each in found]
        print_table(["NAME", "GROUP", "AT INDEX", "TAKEN", "EXPIRES"], rows)
    else:
        say("Nobody holds the log.")


LOG_OPERATIONS = (trim, hold, release, holds)


def _ask(bootstrap: str, what: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
    async def work() -> T:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await what(admin)

    return asyncio.run(work())


def _told(cut: LogCut) -> str:
    held = f" The log is held by {', '.join(cut.held_by)}: until they release it, nothing goes." if cut.held_by else ""
    if not cut.entries:
        return f"Nothing to let go: no whole segment holds only what may go; {cut.bytes_kept / 1e6:,.1f} MB stay.{held}"
    goes = "would go" if cut.dry_run else "are gone"
    return (
        f"{counted(cut.messages, 'message')} "
        f"({cut.bytes / 1e6:,.1f} MB), appended up to {_time(cut.newest_ms)}, {goes}; "
        f"{cut.bytes_kept / 1e6:,.1f} MB stay.{held}"
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
