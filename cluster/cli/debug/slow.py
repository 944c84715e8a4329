"""The command `ledgermq debug slow` shows slow requests, and where their time went."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from cluster.cli.options import REQUEST_TIMEOUT_MS, FiniteRange, bootstrap_option, format_option, moment_text
from cluster.cli.output import print_json, print_table, say
from ledger.client.admin.admin import AsyncAdmin
from ledger.slow_request import CallingClient, NodeSlowRequests, SlowRequest
from ledger.words import counted

# Shorter parts are left out of the table.
_SHOWN_MS = 0.1


@click.command()
@click.option(
    "--threshold",
    "threshold_ms",
    type=FiniteRange(0),
    default=0.0,
    metavar="MS",
    help="Only requests that took at least this time, in ms.  [default: all that the nodes keep]",
)
@click.option("--node", type=click.IntRange(1), default=None, help="Ask only this node.  [default: all nodes]")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most this many.")
@click.option("--slowest", is_flag=True, help="Show the slowest requests first.  [default: the newest first]")
@bootstrap_option
@format_option
def slow(threshold_ms: float, node: int | None, limit: int, slowest: bool, bootstrap: str, output: str) -> int:
    """Show slow requests of clients, and where their time went.

    A node records each request that takes longer than its setting `slow_request_ms`. It keeps the newest 256, and the
    64 slowest since its start. WHERE has the parts of the time: queue (waited for its turn at the node), turn (waited
    for the group write), write, commit, apply, answer. Behind the commit, it says when the node's own flush and the
    followers had the entry, counted from the group write. For other requests: read or work.

    The exit status is 1 if a node did not answer.
    """

    async def ask() -> list[NodeSlowRequests]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.slow_requests(threshold_ms=threshold_ms, node=node)

    answers = asyncio.run(ask())
    found = [(answer.node, each) for answer in answers for each in answer.requests]
    found.sort(key=lambda item: item[1].total_ms if slowest else item[1].began_ms, reverse=True)
    failed = [answer for answer in answers if answer.error]
    if output == "json":
        print_json(
            {
                "requests": [{"node": number, **_as_json(each)} for number, each in found[:limit]],
                "found": len(found),
                "unanswered": [{"node": answer.node, "error": answer.error} for answer in failed],
            }
        )
    else:
        if found:
            columns = ["BEGAN", "NODE", "MS", "REQUEST", "SLOWEST PART", "WHERE (MS)", "CLIENT"]
            print_table(columns, [_row(number, each) for number, each in found[:limit]])
        for answer in failed:
            say(f"Node {answer.node} did not answer: {answer.error}")
        say(_summary(answers, len(found), limit))
    return 1 if failed else 0


def _summary(answers: list[NodeSlowRequests], found: int, limit: int) -> str:
    if not found:
        recorded = {answer.recorded_from_ms for answer in answers if not answer.error}
        since = f" of {min(recorded):g} ms or more" if recorded else ""
        return f"The nodes keep no such requests. They record requests{since}."
    more = f" The first {limit:,} are shown: give a larger --limit." if found > limit else ""
    return f"{counted(found, 'slow request')}.{more}"


def _row(node: int, slow: SlowRequest) -> list[object]:
    return [
        moment_text(slow.began_ms),
        node,
        f"{slow.total_ms:.1f}",
        _described(slow),
        slow.slowest_part,
        _where(slow),
        _client(slow.client),
    ]


def _described(slow: SlowRequest) -> str:
    words = [slow.method]
    if slow.topic:
        words.append(f"{slow.topic}:{slow.queue}")
    if slow.consumer_group:
        words.append(f"group {slow.consumer_group}")
    if slow.count > 1:
        words.append(counted(slow.count, "batch", "batches") if slow.method == "Produce" else f"{slow.count} queues")
    if slow.error:
        words.append(f"({slow.error})")
    return " ".join(words)


def _where(slow: SlowRequest) -> str:
    shown = []
    for part in slow.parts:
        if part.ms < _SHOWN_MS:
            continue
        text = f"{part.name} {part.ms:.1f}"
        if part.name == "commit" and (inner := _commit(slow)):
            text += f" ({inner})"
        shown.append(text)
    return ", ".join(shown)


def _commit(slow: SlowRequest) -> str:
    parts = [] if slow.flush_ms is None else [f"flush {slow.flush_ms:.1f}"]
    parts += [f"node {each.node} " + ("not yet" if each.ms is None else f"{each.ms:.1f}") for each in slow.followers]
    return ", ".join(parts)


def _client(client: CallingClient) -> str:
    who = client.user or client.name
    return f"{who} {client.peer}".strip()


def _as_json(slow: SlowRequest) -> dict[str, object]:
    return asdict(slow) | {
        "slowest_part": slow.slowest_part,
        "client": slow.client._asdict(),
        "parts": [each._asdict() for each in slow.parts],
        "followers": [each._asdict() for each in slow.followers],
    }
