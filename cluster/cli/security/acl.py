"""The command `ledgermq acl` grants, revokes, lists and tests the rights of users."""

from __future__ import annotations

import asyncio

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import print_json, print_table, say
from ledger.access.rules import ACTIONS, ALL_ACTIONS, Rule, Verdict
from ledger.client.admin.admin import AsyncAdmin

_ACTION = click.Choice([*ACTIONS, ALL_ACTIONS])
_deny_option = click.option("--deny", is_flag=True, help="The rule forbids. It wins over every rule that allows.")


@click.group(cls=CommandGroup)
def acl() -> None:
    """Grant, revoke, list and test the rights of users.

    A RESOURCE is topic:NAME, group:NAME, cluster or *. A NAME that ends with * stands for all names that begin with the
    part before it: `ledgermq acl grant alice publish 'topic:orders-*'`.
    """


@acl.command()
@click.argument("user")
@click.argument("action", type=_ACTION)
@click.argument("resource")
@_deny_option
@bootstrap_option
def grant(user: str, action: str, resource: str, deny: bool, bootstrap: str) -> None:
    """Let USER do ACTION with RESOURCE, or forbid it with --deny."""

    async def work() -> None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await admin.grant(user, action, resource, deny=deny)

    asyncio.run(work())
    say(f"Granted: {Rule(user, action, resource, deny)}.")


@acl.command()
@click.argument("user")
@click.argument("action", type=_ACTION)
@click.argument("resource")
@_deny_option
@bootstrap_option
def revoke(user: str, action: str, resource: str, deny: bool, bootstrap: str) -> int:
    """Remove a rule, written as `ledgermq acl list` shows it. Open connections feel it at once."""

    async def work() -> bool:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.revoke(user, action, resource, deny=deny)

    rule = Rule(user, action, resource, deny)
    if asyncio.run(work()):
        say(f"Revoked: {rule}.")
        return 0
    say(f"There is no rule {rule}: `ledgermq acl list {user}` shows the rules.")
    return 1


@acl.command("list")
@click.argument("user", required=False)
@bootstrap_option
@format_option
def list_rules(user: str | None, bootstrap: str, output: str) -> None:
    """List the rules of USER, or of all users."""

    async def work() -> list[Rule]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.list_rules(user)

    rules = asyncio.run(work())
    if output == "json":
        print_json({"rules": [_as_json(one) for one in rules]})
    elif rules:
        rows = [[one.user, "deny" if one.deny else "allow", one.action, one.resource] for one in rules]
        print_table(["USER", "EFFECT", "ACTION", "RESOURCE"], rows)
    else:
        say("There are no rules." if user is None else f"User {user} has no rules, and so no rights.")


@acl.command("test")
@click.argument("user")
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("resource")
@bootstrap_option
@format_option
def test_right(user: str, action: str, resource: str, bootstrap: str, output: str) -> int:
    """Say whether USER may do ACTION with RESOURCE, and which rule decides. The exit status is 0 if it may, and 1
    if it may not."""

    async def work() -> Verdict:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.test_right(user, action, resource)

    allowed, rule = asyncio.run(work())
    if output == "json":
        print_json({"allowed": allowed, "rule": None if rule is None else _as_json(rule)})
    else:
        why = f"by the rule: {rule}" if rule is not None else "because no rule matches"
        say(f"{user} {'may' if allowed else 'may not'} {action} {resource}, {why}.")
    return 0 if allowed else 1


def _as_json(rule: Rule) -> dict[str, object]:
    return {
        "user": rule.user,
        "effect": "deny" if rule.deny else "allow",
        "action": rule.action,
        "resource": rule.resource,
    }
