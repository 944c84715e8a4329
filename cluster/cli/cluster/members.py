"""`ledgermq cluster add-node` and its like: what an operator does with members and leadership.

A command ends when the cluster itself says that all has come about, and says so in one sentence; what happens
meanwhile stands on standard error. With `--no-wait` it ends as soon as the leader has taken the request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from cluster.address import check_address
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, shard_option
from cluster.cli.output import print_json, say
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import Doubt, Member, Members

Command = TypeVar("Command", bound=Callable[..., Any])

_TELL_EVERY_S = 1.0
_TIMEOUT_S = 30.0
_CATCH_UP_TIMEOUT_S = 600.0
_NODE = click.IntRange(1, 0xFFFF_FFFF)

wait_option: Callable[[Command], Command] = click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="End when it has come about, or as soon as the leader has taken the request.",
)


def timeout_option(default_s: float) -> Callable[[Command], Command]:
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=default_s,
        show_default=True,
        help="Seconds. What is under way then goes on; the exit status is 1.",
    )


def _checked_address(ctx: click.Context, parameter: click.Parameter, given: str) -> str:
    try:
        return check_address(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("add-node")
@click.argument("node", type=_NODE)
@click.option(
    "--address",
    required=True,
    metavar="HOST:PORT",
    callback=_checked_address,
    help="Where the other nodes, and clients, reach it.",
)
@click.option("--promote", is_flag=True, help="Make it a voter once it has caught up.")
@shard_option("all, one after the other")
@wait_option
@timeout_option(_CATCH_UP_TIMEOUT_S)
@bootstrap_option
@format_option
def add_node(
    node: int,
    address: str,
    promote: bool,
    shard: int | None,
    wait: bool,
    timeout_s: float,
    bootstrap: str,
    output: str,
) -> None:
    """Add the new node NODE as a learner, which gets the log and does not vote.

    It must run at that address with an empty directory and `join = true` (`ledgermq server run --join`). The command
    ends when it has caught up; then it can be promoted.
    """
    if promote and not wait:
        raise click.UsageError("--promote needs --wait: a node can vote only once it has caught up")

    async def work(admin: AsyncAdmin) -> None:
        say(f"Adding node {node} at {address}.")
        tell = Teller(lambda members: _behind(members, node))
        await admin.add_node(
            node,
            address,
            shard=shard,
            promote=promote,
            wait=wait,
            timeout_ms=timeout_s * 1000,
            on_progress=tell,
        )

    done = "has caught up and votes" if promote else "has caught up; make it a voter with `ledgermq cluster promote`"
    _run(bootstrap, output, work, shard=shard, wait=wait, node=node, done=f"Node {node} {done}.")


@click.command()
@click.argument("node", type=_NODE)
@shard_option("all that it is a member of")
@wait_option
@timeout_option(_TIMEOUT_S)
@bootstrap_option
@format_option
def promote(node: int, shard: int | None, wait: bool, timeout_s: float, bootstrap: str, output: str) -> None:
    """Make a voter of the learner NODE. Refused while it has not caught up."""

    async def work(admin: AsyncAdmin) -> None:
        await admin.promote_node(node, shard=shard, wait=wait, timeout_ms=timeout_s * 1000)

    _run(bootstrap, output, work, shard=shard, wait=wait, node=node, done=f"Node {node} votes.")


@click.command("remove-node")
@click.argument("node", type=_NODE)
@shard_option("all that it is a member of")
@wait_option
@timeout_option(_TIMEOUT_S)
@bootstrap_option
@format_option
def remove_node(node: int, shard: int | None, wait: bool, timeout_s: float, bootstrap: str, output: str) -> None:
    """Remove the node NODE; a leader hands over by that. Refused for the last voter.

    Its process goes on, takes no part any more, and can be stopped. To add it again it needs an empty directory.
    """

    async def work(admin: AsyncAdmin) -> None:
        await admin.remove_node(node, shard=shard, wait=wait, timeout_ms=timeout_s * 1000)

    done = f"Node {node} is removed" + (": its process can be stopped." if shard is None else f" from shard {shard}.")
    _run(bootstrap, output, work, shard=shard, wait=wait, node=node, done=done)


@click.command("transfer-leader")
@click.option("--to", type=_NODE, default=None, help="A voter.  [default: the most up-to-date other one]")
@shard_option("0")
@wait_option
@timeout_option(_TIMEOUT_S)
@bootstrap_option
@format_option
def transfer_leader(
    to: int | None, shard: int | None, wait: bool, timeout_s: float, bootstrap: str, output: str
) -> None:
    """Make another node lead. Where that cannot be, or does not come about, the leader goes on.

    Refused for a learner, a node that does not answer, and one that may have lost entries. Where a shard has a
    preferred leader, that one leads again as soon as it can.
    """
    target = 0

    async def work(admin: AsyncAdmin) -> None:
        nonlocal target
        target = await admin.transfer_leadership(to or 0, shard=shard or 0, wait=wait, timeout_ms=timeout_s * 1000)

    _run(bootstrap, output, work, shard=shard, wait=wait, node=to, done=lambda: f"Node {target} leads.")


@click.command()
@click.option("--node", type=_NODE, required=True, help="The suspect node. It must run; it need not have a leader.")
@click.option("--accept-loss", is_flag=True, help="What this node lost may stay lost.")
@shard_option("all where it is suspect")
@timeout_option(REQUEST_TIMEOUT_MS / 1000)
@bootstrap_option
@format_option
def recover(node: int, accept_loss: bool, shard: int | None, timeout_s: float, bootstrap: str, output: str) -> int:
    """Have a suspect node vote and count again although it may have lost what it acknowledged.

    A node is suspect after its machine went down before its log was flushed. As soon as a leader is elected it is given
    back what it lost; this command is for when none can be, because an intact voter never comes back. Without
    --accept-loss it only says what is at stake, and the exit status is 1.
    """

    async def work() -> list[Doubt]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.recover_node(node, shard=shard, accept_loss=accept_loss, timeout_ms=timeout_s * 1000)

    doubts = asyncio.run(work())
    if output == "json":
        for doubt in doubts:
            print_json(asdict(doubt))
    else:
        say("\n".join(_at_stake(doubt) for doubt in doubts))
    return 0 if all(doubt.accepted for doubt in doubts) else 1


OPERATIONS = (add_node, promote, remove_node, transfer_leader, recover)


class Teller:
    """Tells a person how it goes: what is new, once a second at most."""

    def __init__(self, sentence: Callable[[Members], str]) -> None:
        self._sentence = sentence
        self._told = ""
        self._told_at = -_TELL_EVERY_S

    def __call__(self, members: Members) -> None:
        sentence, now = self._sentence(members), time.monotonic()
        if sentence and sentence != self._told and now - self._told_at >= _TELL_EVERY_S:
            self._told, self._told_at = sentence, now
            say(sentence)


def _run(
    bootstrap: str,
    output: str,
    work: Callable[[AsyncAdmin], Awaitable[None]],
    *,
    shard: int | None,
    wait: bool,
    node: int | None,
    done: str | Callable[[], str],
) -> None:
    """Does it, and says how the cluster stands then."""

    async def run() -> Members | None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await work(admin)
            return await admin.members(shard=shard or 0) if wait else None

    members = asyncio.run(run())
    if output == "json":
        print_json(_as_json(node, members))
    elif members is None:
        say("The leader has taken the request; see `ledgermq cluster info` for what comes of it.")
    else:
        say(f"{done if isinstance(done, str) else done()} {_summary(members)}")


def _as_json(node: int | None, members: Members | None) -> dict[str, object]:
    if members is None:
        return {"node": node, "complete": False}
    return {
        "node": node or members.leader,
        "complete": True,
        "term": members.term,
        "leader": members.leader,
        "members": [_member_as_json(member) for member in members.members],
    }


def _member_as_json(member: Member) -> dict[str, object]:
    return {
        "node": member.node,
        "address": member.address,
        "role": "voter" if member.voter else "learner",
        "suspect": member.suspect,
        "caught_up": member.caught_up,
        "lag_entries": member.lag_entries,
        "lag_bytes": member.lag_bytes,
    }


def _summary(members: Members) -> str:
    voters = ", ".join(str(member.node) for member in members.members if member.voter)
    learners = ", ".join(str(member.node) for member in members.members if not member.voter)
    return f"Voters: {voters}; " + (f"learners: {learners}; " if learners else "") + f"leader: {members.leader}."


def _behind(members: Members, node: int) -> str:
    member = members.get(node)
    if member is None or member.voter or member.caught_up:
        return ""
    return f"Node {node} is a learner, and lacks {member.lag_entries:,} entries ({member.lag_bytes / 1e6:,.1f} MB)."


def _at_stake(doubt: Doubt) -> str:
    since = datetime.fromtimestamp(doubt.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    where = f" of shard {doubt.shard}" if doubt.shard else ""
    found = f"Node {doubt.node} may have lost entries{where} behind index {doubt.last_index} ({doubt.reason}; {since})."
    if doubt.accepted:
        return (
            f"{found} That is accepted: it votes and counts again. Whatever no other node has of it is lost for good."
        )
    return (
        f"{found}\nUntil a leader has given them back it neither votes nor counts. Start the other voters first: with "
        "a majority of them intact nothing is lost, and nothing need be done.\nOnly where an intact voter never comes "
        "back: messages that were acknowledged may then be missing for good, with\n\n"
        f"  ledgermq cluster recover --node {doubt.node} --accept-loss"
    )
