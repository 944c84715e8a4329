"""The command `ledgermq transaction` lists, shows, commits and rolls back transactions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.messages.message import shown
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import print_json, print_table, say
from cluster.cli.progress_line import progress_told
from cluster.message_json import bytes_as_json
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.transactions_admin import MAX_TRANSACTIONS
from ledger.client.transactions.records import PreparedMessage, TransactionDescription
from ledger.errors import LedgerError
from ledger.words import counted

# Transactions that a command ends at the same time.
_AT_ONCE = 64


@click.group(cls=CommandGroup)
def transaction() -> None:
    """List, show, commit and roll back transactions."""


@transaction.command("list")
@click.option("--group", help="Only transactions of this producer group.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_TRANSACTIONS),
    default=100,
    show_default=True,
    help="List at most this many, the oldest first.",
)
@bootstrap_option
@format_option
def list_open(group: str | None, limit: int, bootstrap: str, output: str) -> None:
    """List the transactions that are open, the oldest first.

    A transaction that stays open has no live producer of its group that knows its outcome. UNKNOWN is how often a
    producer answered that it does not know. MESSAGES, BYTES and QUEUES count the shard in which the transaction began;
    a transaction over several shards has more. With --format json, each line is a JSON object.
    """

    async def work() -> list[TransactionDescription]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.transactions(group, limit=limit)

    found = asyncio.run(work())
    if output == "json":
        for each in found:
            sys.stdout.write(json.dumps(_as_json(each), ensure_ascii=True) + "\n")
    elif found:
        print_table(["SINCE", "GROUP", "UNKNOWN", "MESSAGES", "BYTES", "QUEUES", "ID"], map(_row, found))
    if len(found) == limit:
        say(f"The first {counted(limit, 'transaction')}; there may be more: give a larger --limit.")
    else:
        say(f"{counted(len(found), 'transaction')} open." if found else "No transactions are open.")


@transaction.command()
@click.argument("transaction_id", metavar="ID")
@bootstrap_option
@format_option
def show(transaction_id: str, bootstrap: str, output: str) -> int:
    """Show one transaction, with its messages if it is open.

    The messages are those in the shard in which the transaction began, and the first 2 MiB of them.
    The exit status is 1 if the transaction with this ID is unknown, or ended more than a day ago.
    """

    async def work() -> TransactionDescription | None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.transaction(transaction_id)

    found = asyncio.run(work())
    if found is None:
        say("No transaction with this id is known: it ended more than a day ago, or never existed.")
        return 1
    if output == "json":
        print_json(_as_json(found) | {"messages": [_message_as_json(each) for each in found.messages]})
        return 0
    say(_described(found))
    if found.messages:
        print_table(["TOPIC", "QUEUE", "KEY", "TAG", "VALUE"], map(_message_row, found.messages))
    if found.state == "open" and len(found.messages) < found.message_count:
        say(f"These are the first {len(found.messages):,} of {counted(found.message_count, 'message')}.")
    return 0


@transaction.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@bootstrap_option
def commit(ids: Sequence[str], bootstrap: str) -> int:
    """Commit transactions: consumers get their messages.

    Only for transactions whose program is dead: it could still roll back. The messages in all shards are committed. The
    exit status is 1 if a transaction was not committed.
    """
    return _end(ids, bootstrap, commit=True)


@transaction.command()
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--group", help="All open transactions of this producer group, in place of ids.")
@bootstrap_option
def rollback(ids: Sequence[str], group: str | None, bootstrap: str) -> int:
    """Roll transactions back: consumers never get their messages.

    Only for transactions whose program is dead: it could still commit. The exit status is 1 if a transaction was not
    rolled back.
    """
    if (group is None) == (not ids):
        raise click.UsageError("give the ids of transactions, or --group: it says which transactions are rolled back")
    return _end(ids, bootstrap, commit=False) if group is None else _roll_back_all(group, bootstrap)


def _end(ids: Sequence[str], bootstrap: str, *, commit: bool) -> int:
    ends = _Ends(commit=commit)

    async def work() -> None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            for each in dict.fromkeys(ids):  # an id that is given twice counts once
                await ends.end(admin, each)

    asyncio.run(work())
    return ends.told()


def _roll_back_all(group: str, bootstrap: str) -> int:
    ends = _Ends(commit=False)

    async def work() -> None:
        async with (
            AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin,
            progress_told(lambda: f"{counted(ends.done, 'transaction')} rolled back so far."),
        ):
            while True:
                found = await admin.transactions(group, limit=MAX_TRANSACTIONS)
                done = ends.done
                for at in range(0, len(found), _AT_ONCE):
                    await asyncio.gather(*(ends.end(admin, each.id) for each in found[at : at + _AT_ONCE]))
                if len(found) < MAX_TRANSACTIONS or ends.done == done:
                    return

    asyncio.run(work())
    return ends.told()


class _Ends:
    """Ends transactions, counts them, and says which could not be ended."""

    def __init__(self, *, commit: bool) -> None:
        self._commit = commit
        self.done = self._failed = 0

    async def end(self, admin: AsyncAdmin, transaction: str) -> None:
        try:
            await (admin.commit_transaction if self._commit else admin.rollback_transaction)(transaction)
        except LedgerError as error:
            self._failed += 1
            say(f"{transaction}: {error}")
        else:
            self.done += 1

    def told(self) -> int:
        """Say how many transactions were ended, and return the exit status."""
        say(f"{counted(self.done, 'transaction')} {'committed' if self._commit else 'rolled back'}.")
        return 1 if self._failed else 0


def _row(found: TransactionDescription) -> list[object]:
    queues = ", ".join(f"{queue.topic or '(deleted)'} {queue.queue}" for queue in dict.fromkeys(found.queues))
    return [_moment(found.since), found.group, found.unknowns, found.message_count, found.size, queues, found.id]


def _message_row(message: PreparedMessage) -> list[object]:
    key = None if message.key is None else shown(message.key)
    return [message.topic or "(deleted)", message.queue, key, message.tag, shown(message.value)]


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _described(found: TransactionDescription) -> str:
    if found.ended is not None:
        return f"The transaction was {found.state} at {_moment(found.ended)}."
    return (
        f"The transaction of group {found.group} is open since {_moment(found.since)}; producers have answered "
        f'"unknown" {counted(found.unknowns, "time")}.'
    )


def _as_json(found: TransactionDescription) -> dict[str, object]:
    return {
        "id": found.id,
        "state": found.state,
        "group": found.group,
        "since": _moment(found.since),
        "ended": None if found.ended is None else _moment(found.ended),
        "unknowns": found.unknowns,
        "queues": [{"topic": queue.topic, "queue": queue.queue} for queue in found.queues],
        "message_count": found.message_count,
        "bytes": found.size,
    }


def _message_as_json(message: PreparedMessage) -> dict[str, object]:
    headers = [{"name": name, **bytes_as_json("value", value)} for name, value in message.headers]
    return {
        "topic": message.topic,
        "queue": message.queue,
        "timestamp_ms": message.timestamp_ms,
        **bytes_as_json("key", message.key),
        "tag": message.tag,
        "headers": headers,
        **bytes_as_json("value", message.value),
    }
