"""Transactions that are open: a list, one transaction with its messages, and its commit or rollback by an operator."""

from __future__ import annotations

from aiohttp import web

from cluster.console.console import ROOT, Route, Visit
from cluster.console.lookout import asked
from cluster.console.shown_value import ShownValue, shown_value
from ledger.client.admin.transactions_admin import MAX_TRANSACTIONS
from ledger.client.transactions.records import PreparedMessage, TransactionDescription
from ledger.errors import InvalidArgumentError, LedgerError

TRANSACTIONS_A_PAGE = 100
# So many messages of a transaction are shown, and so many bytes of each.
MAX_MESSAGES = 50
MAX_SHOWN_BYTES = 2_048
_MAX_PAGE = MAX_TRANSACTIONS // TRANSACTIONS_A_PAGE


async def show(visit: Visit) -> web.StreamResponse:
    """List the open transactions of one producer group or of all, the oldest first."""
    group = visit.query("group").strip()
    page = visit.number("page", 1, least=1, most=_MAX_PAGE)
    found: list[TransactionDescription] = []
    error = ""
    try:
        limit = min(MAX_TRANSACTIONS, page * TRANSACTIONS_A_PAGE + 1)
        found = await asked((await visit.admin()).transactions(group or None, limit=limit))
    except LedgerError as refusal:
        if refusal.retriable:
            raise  # the fields of the page are not the reason: the browser loads the page again
        error = str(refusal)
    first = (page - 1) * TRANSACTIONS_A_PAGE
    return visit.page(
        "transactions.html",
        400 if error else 200,
        title="Transactions",
        group=group,
        page=page,
        transactions=found[first : first + TRANSACTIONS_A_PAGE],
        has_more=len(found) > first + TRANSACTIONS_A_PAGE and page < _MAX_PAGE,
        is_cut=page == _MAX_PAGE and len(found) == MAX_TRANSACTIONS,
        queues_of=queues_of,
        now_ms=visit.console.now_ms(),
        error=error,
    )


async def show_one(visit: Visit) -> web.StreamResponse:
    return await _page(visit, visit.request.match_info["transaction"])


async def end(visit: Visit) -> web.StreamResponse:
    """Commit the transaction, or roll it back."""
    text = visit.request.match_info["transaction"]
    admin = await visit.admin()
    match visit.form.get("end"):
        case "commit":
            await asked(admin.commit_transaction(text))
        case "rollback":
            await asked(admin.rollback_transaction(text))
        case _:
            raise InvalidArgumentError("A transaction is ended by commit or rollback.")
    return visit.goes_to(f"transactions/{text}")


async def _page(visit: Visit, text: str) -> web.Response:
    found = await asked((await visit.admin()).transaction(text))
    return visit.page(
        "transaction.html",
        200 if found is not None else 404,
        title="Transaction",
        text=text,
        found=found,
        messages=[] if found is None else [shown_message(each) for each in found.messages[:MAX_MESSAGES]],
        queues_of=queues_of,
        now_ms=visit.console.now_ms(),
        may_end=found is not None
        and found.state == "open"
        and bool(found.queues)
        and visit.visitor.may_on_topic("publish", found.queues[0].topic),
    )


def shown_message(message: PreparedMessage) -> tuple[PreparedMessage, ShownValue]:
    return message, shown_value(message.value[:MAX_SHOWN_BYTES])


def queues_of(found: TransactionDescription) -> str:
    """Return the queues of a transaction in its first shard, as text."""
    names = [f"{queue.topic or '(deleted)'} {queue.queue}" for queue in dict.fromkeys(found.queues)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


ROUTES = [
    Route("GET", f"{ROOT}/transactions", show),
    Route("GET", f"{ROOT}/transactions/{{transaction}}", show_one),
    Route("POST", f"{ROOT}/transactions/{{transaction}}", end),
]
