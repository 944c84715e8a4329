"""The commands `ledgermq cluster add-node`, `promote`, `remove-node` and `recover`.

Each command ends when the cluster reports that the change is complete, and then prints one sentence. While a change is
under way, the command prints its progress to standard error. With `--no-wait` a command ends when the leader has
accepted the request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import click

from cluster.address import check_address
from cluster.cli.cluster.drain_progress import DrainProgress
from cluster.cli.options import REQUEST_TIMEOUT_MS, FiniteRange, bootstrap_option, format_option, shard_option
from cluster.cli.output import print_json, say
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.placement_records import Placement
from ledger.client.records import Doubt, Member, Members

Command = TypeVar("Command", bound=Callable[..., Any])
Seen = TypeVar("Seen")

_TELL_EVERY_S = 1.0
_TIMEOUT_S = 30.0
_CATCH_UP_TIMEOUT_S = 600.0
_DRAIN_TIMEOUT_S = 3_600.0
NODE = click.IntRange(1, 0xFFFF_FFFF)

wait_option: Callable[[Command], Command] = click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Wait until the change is complete, or only until the leader has accepted the request.",
)


def timeout_option(default_s: float) -> Callable[[Command], Command]:
    """Return the click option --timeout, in seconds."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=FiniteRange(0, min_open=True),
        default=default_s,
        show_default=True,
        help="Seconds to wait. After that the exit status is 1, and the change continues in the cluster.",
    )


def _checked_address(ctx: click.Context, parameter: click.Parameter, given: str) -> str:
    try:
        return check_address(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("add-node")
@click.argument("node", type=NODE)
@click.option(
    "--address",
    required=True,
    metavar="HOST:PORT",
    callback=_checked_address,
    help="Address at which other nodes and clients reach the new node.",
)
@click.option("--promote", is_flag=True, help="Make the node a voter when it has caught up.")
@shard_option("all shards, one after the other")
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
    """Add the node NODE as a learner, which receives the log and does not vote.

    Before this command, start the node at --address with an empty data directory and `ledgermq server run --join`. The
    command ends when the node has caught up. After this command, `ledgermq cluster promote` can make the node a voter.
    """
    if promote and not wait:
        raise click.UsageError("--promote needs --wait: a node can become a voter only after it has caught up")

    async def work(admin: AsyncAdmin) -> None:
        say(f"Adding node {node} at {address}.")
        tell = Teller[Members](lambda members: _behind(members, node))
        await admin.add_node(
            node,
            address,
            shard=shard,
            promote=promote,
            wait=wait,
            timeout_ms=timeout_s * 1000,
            on_progress=tell,
        )

    done = (
        "has caught up and is a voter" if promote else "has caught up; make it a voter with `ledgermq cluster promote`"
    )
    _run(bootstrap, output, work, shard=shard, wait=wait, node=node, done=f"Node {node} {done}.")


@click.command()
@click.argument("node", type=NODE)
@shard_option("all that it is a member of")
@wait_option
@timeout_option(_TIMEOUT_S)
@bootstrap_option
@format_option
def promote(node: int, shard: int | None, wait: bool, timeout_s: float, bootstrap: str, output: str) -> None:
    """Make the learner NODE a voter. The command fails if the learner has not caught up."""

    async def work(admin: AsyncAdmin) -> None:
        await admin.promote_node(node, shard=shard, wait=wait, timeout_ms=timeout_s * 1000)

    _run(bootstrap, output, work, shard=shard, wait=wait, node=node, done=f"Node {node} is a voter.")


@click.command("remove-node")
@click.argument("node", type=NODE)
@click.option(
    "--force",
    is_flag=True,
    help="Remove the node at once. Its replicas are not copied first: until you add others, shards have fewer "
    "replicas, and the loss of one more node can stop their writes.",
)
@shard_option("all that it is a member of")
@wait_option
@timeout_option(_DRAIN_TIMEOUT_S)
@bootstrap_option
@format_option
def remove_node(
    node: int, force: bool, shard: int | None, wait: bool, timeout_s: float, bootstrap: str, output: str
) -> None:
    """Remove node NODE from the cluster. Its replicas and its leaderships move to other nodes first.

    The command is refused, with a list, if shards would have too few replicas. If you interrupt it, the cluster goes
    on; `ledgermq cluster drain-node NODE --stop` ends it. With --shard, the node leaves only that shard, at once.

    The process of the removed node keeps running but is no longer part of the cluster; stop the process. Before you add
    the node again, give it an empty data directory.
    """

    async def work(admin: AsyncAdmin) -> None:
        await admin.remove_node(
            node,
            shard=shard,
            force=force,
            wait=wait,
            timeout_ms=timeout_s * 1000,
            on_placement=Teller[Placement](DrainProgress(node)),
        )

    done = f"Node {node} is removed" + (": you can stop its process." if shard is None else f" from shard {shard}.")
    _run(bootstrap, output, work, shard=shard, wait=wait, node=node, done=done)


@click.command()
@click.option(
    "--node", type=NODE, required=True, help="The suspect node. The node must run; its shards may be without a leader."
)
@click.option("--accept-loss", is_flag=True, help="Accept that entries which this node lost may stay lost.")
@shard_option("all shards in which the node is suspect")
@timeout_option(REQUEST_TIMEOUT_MS / 1000)
@bootstrap_option
@format_option
def recover(node: int, accept_loss: bool, shard: int | None, timeout_s: float, bootstrap: str, output: str) -> int:
    """Let a suspect node vote again, although it may have lost entries that it acknowledged.

    A node becomes suspect if its machine failed before the log was flushed. Normally the leader sends the lost entries
    to the suspect node, and the node then votes again. Use this command only if no leader can be elected because a
    voter that is not suspect is lost permanently. Without --accept-loss the command changes nothing: it prints what
    may be lost, and the exit status is 1.
    """

    async def work() -> list[Doubt]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.recover_node(node, shard=shard, accept_loss=accept_loss, timeout_ms=timeout_s * 1000)

    doubts = asyncio.run(work())
    if output == "json":
        print_json([asdict(doubt) for doubt in doubts])
    else:
        say("\n".join(_at_stake(doubt) for doubt in doubts))
    return 0 if all(doubt.accepted for doubt in doubts) else 1


OPERATIONS = (add_node, promote, remove_node, recover)


class Teller(Generic[Seen]):
    """Prints the progress of a change: each new sentence about what is seen, at most one sentence per second."""

    def __init__(self, sentence: Callable[[Seen], str]) -> None:
        self._sentence = sentence
        self._told = ""
        self._told_at = -_TELL_EVERY_S

    def __call__(self, seen: Seen) -> None:
        sentence, now = self._sentence(seen), time.monotonic()
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
    done: str,
) -> None:
    """Run `work`, then print the sentence `done` and the members of the shard."""

    async def run() -> Members | None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await work(admin)
            return await admin.members(shard=shard or 0) if wait else None

    members = asyncio.run(run())
    if output == "json":
        print_json(members_as_json(node, members))
    elif members is None:
        say("The leader has accepted the request. `ledgermq cluster info` shows the result.")
    else:
        say(f"{done} {members_summary(members)}")


def members_as_json(node: int | None, members: Members | None) -> dict[str, object]:
    """Return what `--format json` prints after a change of node `node`. Without `members` nobody waited for it."""
    if members is None:
        return {"node": node, "complete": False}
    return {
        "node": node or members.leader,
        "complete": True,
        "term": members.term,
        "leader": members.leader,
        "preferred_leader": members.preferred_leader,
        "pinned_leader": members.pinned_leader,
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


def members_summary(members: Members) -> str:
    """Return the voters, the learners and the leader of a shard, in words."""
    voters = ", ".join(str(member.node) for member in members.members if member.voter)
    learners = ", ".join(str(member.node) for member in members.members if not member.voter)
    return f"Voters: {voters}; " + (f"learners: {learners}; " if learners else "") + f"leader: {members.leader}."


def _behind(members: Members, node: int) -> str:
    member = members.get(node)
    if member is None or member.voter or member.caught_up:
        return ""
    return f"Node {node} is a learner and lacks {member.lag_entries:,} entries ({member.lag_bytes / 1e6:,.1f} MB)."


def _at_stake(doubt: Doubt) -> str:
    since = datetime.fromtimestamp(doubt.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    where = f" of shard {doubt.shard}" if doubt.shard else ""
    found = f"Node {doubt.node} may have lost entries{where} after index {doubt.last_index} ({doubt.reason}; {since})."
    if doubt.accepted:
        return (
            f"{found} The loss is accepted and the node votes again. Entries that no other node has are lost for good."
            "\nA voter that still has them must not come back with its data, because then nothing can be written: "
            "remove it first with `ledgermq cluster remove-node`."
        )
    return (
        f"{found}\nThe node does not vote until a leader has restored these entries. Start the other voters first: if "
        "a majority of them is intact, nothing is lost and you need not do more.\nOnly if an intact voter is lost for "
        "good, run this command; acknowledged messages may then be missing for good:\n\n"
        f"  ledgermq cluster recover --node {doubt.node} --accept-loss"
    )
