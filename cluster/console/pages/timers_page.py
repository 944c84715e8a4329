"""Messages that wait for their delivery times: a list, one message, and its cancellation."""

from __future__ import annotations

from aiohttp import web

from cluster.console.console import ROOT, Route, Visit
from cluster.console.form_values import moment_of
from cluster.console.lookout import asked
from cluster.console.shown_value import shown_value
from ledger.client.admin.waiting_messages import MAX_WAITING
from ledger.client.records import WaitingMessage
from ledger.errors import LedgerError

TIMERS_A_PAGE = 100
_MAX_PAGE = MAX_WAITING // TIMERS_A_PAGE
_DONE = {
    "cancelled": "The message was cancelled. It will not be delivered.",
    "late": "The message does not wait any more: it was delivered or cancelled before.",
}


async def show(visit: Visit) -> web.StreamResponse:
    """List the waiting messages of one topic or of all, in the order of their delivery times."""
    query = {name: visit.query(name).strip() for name in ("topic", "from", "to")}
    page = visit.number("page", 1, least=1, most=_MAX_PAGE)
    found: list[WaitingMessage] = []
    error = ""
    try:
        begin, end = (
            moment_of(query[name], visit.console.now_ms()) if query[name] else None for name in ("from", "to")
        )
        admin = await visit.admin()
        # The list has no place to continue from but the time, which many messages can share.
        limit = min(MAX_WAITING, page * TIMERS_A_PAGE + 1)
        found = await asked(admin.waiting_messages(query["topic"] or None, begin=begin, end=end, limit=limit))
    except LedgerError as refusal:
        if refusal.retriable:
            raise  # the fields of the page are not the reason: the browser loads the page again
        error = str(refusal)
    first = (page - 1) * TIMERS_A_PAGE
    return visit.page(
        "timers.html",
        400 if error else 200,
        title="Timers",
        query=query,
        page=page,
        messages=found[first : first + TIMERS_A_PAGE],
        has_more=len(found) > first + TIMERS_A_PAGE and page < _MAX_PAGE,
        is_cut=page == _MAX_PAGE and len(found) == MAX_WAITING,
        now_ms=visit.console.now_ms(),
        error=error,
        done=_DONE.get(visit.query("done"), ""),
    )


async def show_one(visit: Visit) -> web.StreamResponse:
    handle = visit.request.match_info["handle"]
    message = await asked((await visit.admin()).waiting_message(handle))
    return visit.page(
        "timer.html",
        200 if message is not None else 404,
        title="Waiting message",
        handle=handle,
        message=message,
        value=None if message is None else shown_value(message.value),
        now_ms=visit.console.now_ms(),
        may_cancel=message is not None and visit.visitor.may_on_topic("publish", message.topic),
    )


async def cancel(visit: Visit) -> web.StreamResponse:
    handle = visit.request.match_info["handle"]
    is_cancelled = await asked((await visit.admin()).cancel_waiting(handle))
    return visit.goes_to(f"timers?done={'cancelled' if is_cancelled else 'late'}")


ROUTES = [
    Route("GET", f"{ROOT}/timers", show),
    Route("GET", f"{ROOT}/timers/{{handle}}", show_one),
    Route("POST", f"{ROOT}/timers/{{handle}}", cancel),
]
