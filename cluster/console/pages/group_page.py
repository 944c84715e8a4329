"""The page of one consumer group: its members, and its progress in each queue. The page also deletes the group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from aiohttp import web

from cluster.console.console import ROOT, Console, Route, Visit
from cluster.console.group_view import (
    chosen_queues,
    figures_of,
    has_members,
    mode_of,
    owned_by,
    owners_of,
    state_of,
    topics_of,
)
from cluster.console.lookout import asked
from cluster.console.paging import paged
from ledger.client.admin.consumer_group_records import ConsumerGroupDescription
from ledger.consumer_groups import is_broadcast, validate_consumed_name
from ledger.errors import LedgerError
from ledger.retries import resending_group

QUEUES_A_PAGE = 100
MEMBERS_A_PAGE = 100
_DONE = {"created": "The group was created."}


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """What the page shows of a group. `dead_letters` counts those that were not resent; None if that is not known."""

    found: ConsumerGroupDescription
    dead_letters: int | None


def group_of(visit: Visit) -> str:
    """Return the name of the group in the address. Raises InvalidGroupNameError."""
    name = visit.request.match_info["group"]
    validate_consumed_name(name)
    return name


async def show(visit: Visit) -> web.StreamResponse:
    name = group_of(visit)
    visit.require_on_group("describe", name)
    seen = await asked(look(visit.console, visit.visitor.token, name))
    return visit.page(
        "group.html",
        title=f"Group {name}",
        name=name,
        is_shared=seen.found.mode == "shared",
        parts=parts_of(visit, name, seen),
        query=query_of(visit),
        topics=topics_of(seen.found),
        may=_rights(visit, name),
        done=_DONE.get(visit.query("done"), ""),
    )


async def live(visit: Visit) -> web.StreamResponse:
    name, token = group_of(visit), visit.visitor.token
    visit.require_on_group("describe", name)
    lookout = await visit.console.lookouts.of((token, "group", name), partial(look, visit.console, token, name))
    with lookout.watched():
        return await visit.console.streams.serve(
            visit.request,
            lookout,
            lambda: parts_of(visit, name, lookout.answer, lookout.error),
            lambda: visit.require_on_group("describe", name),
        )


async def look(console: Console, token: str, name: str) -> SeenGroup:
    """Ask the cluster about the group. Raises LedgerError."""
    found = await (await console.clients.admin(token)).describe_consumer_group(name)
    try:
        letters = None if is_broadcast(name) else await console.resends.letters(token, name)
        dead = None if letters is None else await letters.count()
    except LedgerError:
        dead = None  # the user may see the group, and not the group that resends its dead letters
    return SeenGroup(found, dead)


def query_of(visit: Visit) -> dict[str, str]:
    """Return which queues the page shows, as its address says."""
    return {"find": visit.query("find"), "order": visit.query("order") or "queue", "page": str(visit.number("page", 1))}


def parts_of(visit: Visit, name: str, seen: SeenGroup | None, error: str = "") -> dict[str, str]:
    """Return the live parts of the page by the ids of their elements."""
    parts = {"trouble": visit.text("parts/trouble.html", error=error)}
    if seen is None:
        return parts
    found, query = seen.found, query_of(visit)
    page = paged(chosen_queues(found.queues, query["find"], query["order"]), int(query["page"]), QUEUES_A_PAGE)
    topics = {queue.topic for queue in page.items}
    parts["summary"] = visit.text(
        "parts/group_summary.html",
        found=found,
        figures=figures_of(found),
        mode=mode_of(found),
        state=state_of(found),
        dead_letters=seen.dead_letters,
    )
    parts["members"] = visit.text(
        "parts/group_members.html", found=found, members=found.members[:MEMBERS_A_PAGE], owned_by=owned_by
    )
    parts["queues"] = visit.text(
        "parts/group_queues.html",
        name=name,
        found=found,
        page=page,
        # Those whose pages the user may see.
        linked={topic for topic in topics if visit.visitor.may_on_topic("describe", topic)},
        query=query,
        owners=owners_of(found),
    )
    return parts


async def delete(visit: Visit) -> web.StreamResponse:
    """Show what a deletion removes, or delete the group."""
    name = group_of(visit)
    visit.require_on_group("delete", name)
    if visit.form:
        await asked((await visit.admin()).delete_consumer_group(name))
        return visit.goes_to("groups?done=deleted")
    seen = await asked(look(visit.console, visit.visitor.token, name))
    return visit.page(
        "group_delete.html",
        title=f"Delete group {name}",
        name=name,
        found=seen.found,
        figures=figures_of(seen.found),
        dead_letters=seen.dead_letters,
        is_refused=has_members(seen.found),
        state=state_of(seen.found),
    )


def _rights(visit: Visit, name: str) -> dict[str, bool]:
    """Return what the page offers."""
    visitor = visit.visitor
    return {
        "reset": visitor.may_on_group("alter", name),
        "delete": visitor.may_on_group("delete", name),
        "letters": not is_broadcast(name) and visitor.may_on_group("subscribe", name),
        "resend": visitor.may_on_group("subscribe", name) and visitor.may_on_group("subscribe", resending_group(name)),
    }


ROUTES = [
    Route("GET", f"{ROOT}/groups/{{group}}", show),
    Route("GET", f"{ROOT}/live/groups/{{group}}", live),
    Route("GET", f"{ROOT}/groups/{{group}}/delete", delete),
    Route("POST", f"{ROOT}/groups/{{group}}/delete", delete),
]
