"""The page that resets the offsets of a consumer group: first the plan, then the button that carries it out."""

from __future__ import annotations

from aiohttp import web

from cluster.console.console import ROOT, Route, Visit
from cluster.console.form_values import queues_of, reset_target
from cluster.console.group_view import has_members, planned, state_of, topics_of
from cluster.console.lookout import asked
from cluster.console.pages.group_page import group_of
from ledger.client.admin.consumer_group_records import OffsetReset
from ledger.errors import LedgerError

# So many queues of a plan are written out. The sums count all.
MAX_ROWS = 500
_FIELDS = ("to", "time", "offset", "topic", "queues")


async def show(visit: Visit) -> web.StreamResponse:
    """Show the form, and the plan if the address says what to reset."""
    name = group_of(visit)
    visit.require_on_group("alter", name)
    fields = {field: visit.request.query.get(field, "")[:200] for field in _FIELDS}
    error, resets = "", None
    if fields["to"]:
        try:
            resets = await _reset(visit, name, fields, is_dry_run=True)
        except LedgerError as refusal:
            error = str(refusal)
    return await _page(visit, name, fields, resets, error, is_done=False)


async def reset(visit: Visit) -> web.StreamResponse:
    name = group_of(visit)
    visit.require_on_group("alter", name)
    fields = {field: visit.form.get(field, "")[:200] for field in _FIELDS}
    resets = await _reset(visit, name, fields, is_dry_run=False)
    return await _page(visit, name, fields, resets, "", is_done=True)


async def _reset(visit: Visit, name: str, fields: dict[str, str], *, is_dry_run: bool) -> list[OffsetReset]:
    target = reset_target(fields, visit.console.now_ms())
    queues = queues_of(fields["queues"])
    admin = await visit.admin()
    return await asked(
        admin.reset_offsets(name, target, topic=fields["topic"].strip() or None, queues=queues, dry_run=is_dry_run)
    )


async def _page(
    visit: Visit, name: str, fields: dict[str, str], resets: list[OffsetReset] | None, error: str, *, is_done: bool
) -> web.Response:
    found = await asked((await visit.admin()).describe_consumer_group(name))
    plan = planned(resets or ())
    return visit.page(
        "group_reset.html",
        400 if error else 200,
        title=f"Reset group {name}",
        name=name,
        fields=fields,
        topics=topics_of(found),
        state=state_of(found),
        has_members=has_members(found),
        error=error,
        queues=None if resets is None else len(resets),
        plan=plan[:MAX_ROWS],
        changed=len(plan),
        skipped=sum(each.skipped for each in plan),
        again=sum(each.again for each in plan),
        is_done=is_done,
    )


ROUTES = [
    Route("GET", f"{ROOT}/groups/{{group}}/reset", show),
    Route("POST", f"{ROOT}/groups/{{group}}/reset", reset),
]
