"""The list of consumer groups with their lag, and the form that creates a group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from aiohttp import web

from cluster.console.clients import ConsoleClients
from cluster.console.console import ROOT, Route, Visit
from cluster.console.group_view import GROUP_ORDERS, chosen_groups
from cluster.console.lookout import asked
from cluster.console.paging import paged
from ledger.client.admin.consumer_group_records import ConsumerGroupSummary
from ledger.consumer_groups import validate_group_name
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.state.group_modes import DEFAULT_ATTEMPTS, MAX_ATTEMPTS, MIN_ATTEMPTS

GROUPS_A_PAGE = 50
# What a form for a new group can choose: value -> (mode, order).
_MODES: dict[str, tuple[str, str | None]] = {
    "queue": ("queue", None),
    "shared": ("shared", None),
    "key": ("shared", "key"),
}


async def show(visit: Visit) -> web.StreamResponse:
    groups = await asked(list_groups(visit.console.clients, visit.visitor.token))
    return visit.page(
        "groups.html",
        title="Groups",
        parts=parts_of(visit, groups),
        orders=list(GROUP_ORDERS),
        query=query_of(visit),
        may_create=visit.visitor.may_somewhere("alter", "group"),
        done=visit.query("done"),
    )


async def live(visit: Visit) -> web.StreamResponse:
    token = visit.visitor.token
    lookout = await visit.console.lookouts.of((token, "groups"), partial(list_groups, visit.console.clients, token))
    with lookout.watched():
        return await visit.console.streams.serve(
            visit.request,
            lookout,
            lambda: parts_of(visit, lookout.answer, lookout.error),
            # The login may have ended.
            lambda: visit.visitor.may("describe"),
        )


async def list_groups(clients: ConsoleClients, token: str) -> list[ConsumerGroupSummary]:
    return await (await clients.admin(token)).list_consumer_groups()


def query_of(visit: Visit) -> dict[str, str]:
    """Return which groups the page shows, as its address says."""
    return {"find": visit.query("find"), "order": visit.query("order") or "name", "page": str(visit.number("page", 1))}


def parts_of(visit: Visit, groups: Sequence[ConsumerGroupSummary] | None, error: str = "") -> dict[str, str]:
    """Return the live parts of the page by the ids of their elements."""
    parts = {"trouble": visit.text("parts/trouble.html", error=error)}
    if groups is not None:
        query = query_of(visit)
        chosen = chosen_groups(groups, query["find"], query["order"])
        page = paged(chosen, int(query["page"]), GROUPS_A_PAGE)
        parts["groups"] = visit.text("parts/groups.html", page=page, total=len(groups), query=query)
    return parts


async def create(visit: Visit) -> web.StreamResponse:
    """Show the form of a new group, then the consequence, and at last create the group."""
    name = visit.query("name").strip()
    choice = visit.query("mode") or "shared"
    error = ""
    attempts = DEFAULT_ATTEMPTS
    is_planned = False
    if visit.form:
        try:
            attempts = _attempts(visit)
            validate_group_name(name)
            if choice not in _MODES:
                raise InvalidArgumentError("Choose a mode.")
            visit.require_on_group("alter", name)
            if visit.form.get("confirmed") == "yes":
                mode, order = _MODES[choice]
                admin = await visit.admin()
                await asked(admin.create_consumer_group(name, mode=mode, order=order, max_attempts=attempts))
                return visit.goes_to(f"groups/{name}?done=created")
            is_planned = True
        except LedgerError as refusal:
            error = str(refusal)
    return visit.page(
        "group_create.html",
        400 if error else 200,
        title="Create a group",
        error=error,
        is_planned=is_planned,
        name=name,
        mode=choice,
        attempts=attempts,
        least=MIN_ATTEMPTS,
        most=MAX_ATTEMPTS,
    )


def _attempts(visit: Visit) -> int:
    text = visit.form.get("attempts", "").strip() or str(DEFAULT_ATTEMPTS)
    if text.isascii() and text.isdecimal() and len(text) < 6 and MIN_ATTEMPTS <= int(text) <= MAX_ATTEMPTS:
        return int(text)
    raise InvalidArgumentError(f"The number of attempts must be from {MIN_ATTEMPTS} to {MAX_ATTEMPTS:,}.")


ROUTES = [
    Route("GET", f"{ROOT}/groups", show),
    Route("GET", f"{ROOT}/live/groups", live),
    # No name of a group contains "+", so no group has this address.
    Route("GET", f"{ROOT}/groups/+create", create),
    Route("POST", f"{ROOT}/groups/+create", create),
]
