"""The command `ledgermq cluster transfer-leader`.

If a shard has a preferred leader, leadership returns to it soon after a transfer. The command says so, and when. With
`--pin`, the new leader is pinned and keeps leadership; `--unpin` removes the pin.
"""

from __future__ import annotations

import asyncio

import click

from cluster.cli.cluster.members import members_as_json, members_summary, timeout_option, wait_option
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, shard_option
from cluster.cli.output import print_json, say
from cluster.leadership import leadership_sentence, unpinned_sentence
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import Members
from ledger.errors import TransferFailedError, TransferRefusedError

_TIMEOUT_S = 30.0


@click.command("transfer-leader")
@click.option(
    "--to",
    type=click.IntRange(1, 0xFFFF_FFFF),
    default=None,
    help="The voter that becomes the leader.  [default: the follower with the newest log]",
)
@click.option("--pin", is_flag=True, help="Let the node --to lead whenever it can, also after elections and restarts.")
@click.option("--unpin", is_flag=True, help="Remove the pin, and transfer nothing now.")
@shard_option("0")
@wait_option
@timeout_option(_TIMEOUT_S)
@bootstrap_option
@format_option
def transfer_leader(
    to: int | None,
    pin: bool,
    unpin: bool,
    shard: int | None,
    wait: bool,
    timeout_s: float,
    bootstrap: str,
    output: str,
) -> None:
    """Hand over the leadership of a shard to another voter. If the handover fails, the present leader stays the
    leader.

    Only a voter that answers and is not suspect can become the leader. A suspect node is a node that may have lost
    entries. If leaders are spread, each shard has a preferred leader, which takes leadership back a few seconds later;
    the command says when. --pin stores in the shard's log that the node --to leads instead. While a pinned node is
    down, another node leads. The pin ends with --unpin, or when the node is removed from the shard.
    """
    if pin and unpin:
        raise click.UsageError("--pin and --unpin contradict each other: give one of them")
    if pin and to is None:
        raise click.UsageError("--pin needs --to: say which node is to lead")
    if unpin and to is not None:
        raise click.UsageError("--unpin transfers nothing, so it takes no --to: transfer in a second command")
    number, timeout_ms = shard or 0, timeout_s * 1000

    async def work() -> tuple[int | None, Members | None]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            if unpin:
                await admin.unpin_leader(shard=number, timeout_ms=timeout_ms)
                return None, await admin.members(shard=number)
            target = await _transfer(admin, to or 0, number, pin=pin, wait=wait, timeout_ms=timeout_ms)
            return target, await admin.members(shard=number) if wait else None

    target, members = asyncio.run(work())
    if output == "json":
        print_json(members_as_json(target if wait else to, members))
    elif members is None:
        say("The leader has accepted the request. `ledgermq cluster info` shows the result.")
    else:
        sentence = unpinned_sentence if unpin else leadership_sentence
        say(f"{sentence(number, members)} {members_summary(members)}")


async def _transfer(admin: AsyncAdmin, to: int, shard: int, *, pin: bool, wait: bool, timeout_ms: float) -> int:
    """Transfer leadership, and return the new leader. Raises the errors of `transfer_leadership`. They say that the
    node stays pinned, if it is."""
    try:
        return await admin.transfer_leadership(to, shard=shard, pin=pin, wait=wait, timeout_ms=timeout_ms)
    except (TransferRefusedError, TransferFailedError) as error:
        if not pin:
            raise
        raise type(error)(
            f"{error}. Node {to} is pinned, so it takes leadership as soon as it can; --unpin removes the pin"
        ) from error
