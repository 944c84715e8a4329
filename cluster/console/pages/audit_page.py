"""The page of the audit log: the newest administrative acts that each node has served."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import web

from cluster.console.clients import ConsoleAdmin
from cluster.console.console import ROOT, Route, Visit
from ledger.errors import LedgerError
from ledger.v1 import inspection_pb2

MAX_LINES = 200
ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class AuditedAct:
    """One line of the audit log of a node. `time_ms` is in ms since 1970."""

    node: int
    time_ms: int
    text: str


async def show(visit: Visit) -> web.StreamResponse:
    visit.require("administer")
    admin = await visit.admin()
    nodes = [(node.node, node.address) for node in await admin.cluster(timeout_ms=1_000)]
    answers = await asyncio.gather(*(_lines(admin, node, address) for node, address in nodes))
    acts = sorted((act for lines, _ in answers for act in lines), key=lambda act: act.time_ms, reverse=True)
    words = visit.request.query.get("words", "").strip()[:100]
    if words:
        acts = [act for act in acts if words.lower() in act.text.lower()]
    return visit.page(
        "audit.html",
        title="Audit log",
        acts=acts[:MAX_LINES],
        count=len(acts),
        words=words,
        errors=[error for _, error in answers if error],
    )


async def _lines(admin: ConsoleAdmin, node: int, address: str) -> tuple[list[AuditedAct], str]:
    """Return the lines of one node, or why there are none."""
    try:
        request = inspection_pb2.GetAuditLogRequest()
        response = await admin.ask(address, lambda stub, seconds: stub.GetAuditLog(request, timeout=seconds), ANSWER_S)
    except LedgerError as error:
        return [], f"Node {node}: {error}"
    return [AuditedAct(node, line.time_ms, line.text) for line in response.lines], ""


ROUTES = [Route("GET", f"{ROOT}/audit", show)]
