"""The command `ledgermq user` adds, lists, rotates and removes users."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.options import REQUEST_TIMEOUT_MS, FiniteRange, bootstrap_option, format_option, moment_text
from cluster.cli.output import print_json, print_table, say
from cluster.cli.question import ask
from cluster.cli.security.passwords import new_password, new_password_option
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.users_admin import DelegatedTokenText, RocketmqSecret, UserSummary

_certificate_option = click.option(
    "--certificate-only", is_flag=True, help="No password: the user authenticates with a client certificate."
)


@click.group(cls=CommandGroup)
def user() -> None:
    """Add, list, rotate and remove users. A new user has no rights: see `ledgermq acl grant`."""


@user.command()
@click.argument("name")
@new_password_option
@_certificate_option
@bootstrap_option
def add(name: str, new_password_file: Path | None, certificate_only: bool, bootstrap: str) -> None:
    """Add the user NAME, without rights."""
    password = None if certificate_only else new_password(new_password_file, name)

    async def work() -> None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await admin.add_user(name, password)

    asyncio.run(work())
    say(f"Added user {name}. It has no rights yet: grant some with `ledgermq acl grant {name} ACTION RESOURCE`.")


@user.command("list")
@bootstrap_option
@format_option
def list_users(bootstrap: str, output: str) -> None:
    """List all users, with how they authenticate and how many rules they have."""

    async def work() -> list[UserSummary]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.list_users()

    users = asyncio.run(work())
    if output == "json":
        print_json({"users": [one._asdict() for one in users]})
    elif users:
        rows = [[one.name, _proofs(one), one.rules] for one in users]
        print_table(["USER", "AUTHENTICATES WITH", "RULES"], rows)
    else:
        say("There are no users: the nodes run without authentication, or without `first_administrator_password_file`.")


def _proofs(one: UserSummary) -> str:
    return ("password" if one.has_password else "certificate") + (
        ", RocketMQ secret" if one.has_rocketmq_secret else ""
    )


@user.command()
@click.argument("name")
@new_password_option
@_certificate_option
@bootstrap_option
def rotate(name: str, new_password_file: Path | None, certificate_only: bool, bootstrap: str) -> None:
    """Replace the password of the user NAME. Its connections must prove the new password, and its delegated tokens
    and its RocketMQ secret end."""
    password = None if certificate_only else new_password(new_password_file, name)

    async def work() -> None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await admin.rotate_user(name, password)

    asyncio.run(work())
    say(f"User {name} has a new password." if password else f"User {name} has no password any more.")


@user.command()
@click.option(
    "--right",
    "rights",
    nargs=2,
    multiple=True,
    required=True,
    metavar="ACTION RESOURCE",
    help="A right of the token, such as: subscribe topic:orders. Repeat it for more rights.",
)
@click.option(
    "--hours", type=FiniteRange(0, 720, min_open=True), default=8, show_default=True, help="Hours until it ends."
)
@bootstrap_option
def token(rights: tuple[tuple[str, str], ...], hours: float, bootstrap: str) -> None:
    """Print a token with a part of your own rights, for programs that must not have your password. Clients take it
    as LEDGERMQ_TOKEN."""

    async def work() -> DelegatedTokenText:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.delegate_token(rights, round(hours * 3_600_000))

    made = asyncio.run(work())
    click.echo(made.token)
    say(f"The token ends at {moment_text(made.expires_ms)}. It is a secret.")


@user.command("rocketmq-secret")
@click.argument("name")
@click.option("--remove", is_flag=True, help="Remove the secret, and make no new one.")
@bootstrap_option
def rocketmq_secret(name: str, remove: bool, bootstrap: str) -> None:
    """Make a secret by which RocketMQ's clients prove that they are the user NAME, and print it once.

    A new secret replaces the earlier one. It needs TLS, and `secrets_key_file` on the nodes.
    """

    async def work() -> RocketmqSecret | None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            if remove:
                await admin.remove_rocketmq_secret(name)
                return None
            return await admin.make_rocketmq_secret(name)

    made = asyncio.run(work())
    if made is None:
        say(f"User {name} has no RocketMQ secret any more.")
        return
    click.echo(f"access key: {made.access_key}\nsecret:     {made.secret}")
    say("The cluster cannot show the secret again.")


@user.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove without a question.")
@bootstrap_option
def remove(name: str, yes: bool, bootstrap: str) -> None:
    """Remove the user NAME with its rules and its delegated tokens. Its connections are refused from then on."""
    if not yes:
        ask(f"Remove user {name} and its rules?")

    async def work() -> None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await admin.remove_user(name)

    asyncio.run(work())
    say(f"Removed user {name}.")
