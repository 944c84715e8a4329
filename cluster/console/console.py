"""The routes of the console. Each request is checked here, before a page sees it: who asks, from where, and with which
form."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import resources
from typing import Any

from aiohttp import web

from cluster.console.charts import ChartPainter
from cluster.console.clients import LOGIN_MS, ConsoleAdmin, ConsoleClients
from cluster.console.forms import fields_of, is_small
from cluster.console.live import LiveStreams
from cluster.console.logins import COOKIE, PROOF_FIELD, ConsoleAccess, Logins, Visitor, check_form, check_origin
from cluster.console.lookout import Lookouts
from cluster.console.page import HEADERS, Pages
from cluster.console.places import WorkPlaces
from cluster.console.resends import Resends
from cluster.console.watch import ClusterWatch, Watches
from ledger.access.rules import CLUSTER, Action
from ledger.errors import (
    AuthenticationError,
    InvalidArgumentError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    PermissionDeniedError,
    RequestTimeoutError,
    UnavailableError,
    UnknownGroupError,
    UnknownQueueError,
    UnknownTopicError,
)

log = logging.getLogger("ledgermq.node.console")

ROOT = "/console"
# The largest form of a user: a message of 4 MiB, whose characters may be percent-encoded. `MAX_FORMS` large
# ones are read at the same time. The form of a login is small, because strangers send it.
MAX_FORM_BYTES = 16 << 20
MAX_FORMS = 4
MAX_LOGIN_BYTES = 8 << 10
# Requests that read or send messages, and downloads, at the same time; and how long another one waits.
MAX_READS = 8
MAX_DOWNLOADS = 3
PLACE_WAIT_S = 5.0
# Logins that are computed at the same time, and the wait after a wrong password.
MAX_LOGINS = 4
WRONG_S = 0.5
# A page that cannot be shown now is loaded again by the browser after this time.
TRY_AGAIN_S = 2
# The pages in the head of every page: path below `ROOT`, name, and the right on the cluster that the page needs.
NAVIGATION: tuple[tuple[str, str, Action | None], ...] = (
    ("", "Cluster", "describe"),
    ("topics", "Topics", None),
    ("groups", "Groups", None),
    ("timers", "Timers", None),
    ("transactions", "Transactions", None),
    ("operations", "Operations", "describe"),
    ("audit", "Audit log", "administer"),
)
_STATUS_OF_LOGIN = {AuthenticationError: 401, PermissionDeniedError: 403, InvalidArgumentError: 400}
# The colours, which the reports have too.
PALETTE = "palette.css"
_STATIC_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Visit:
    """One request of a visitor. `form` has the fields of a form, or is empty."""

    request: web.Request
    visitor: Visitor
    console: Console
    form: Mapping[str, str]

    async def admin(self) -> ConsoleAdmin:
        """Return the admin client of the visitor. Raises LedgerError."""
        return await self.console.clients.admin(self.visitor.token)

    async def watch(self) -> ClusterWatch:
        return await self.console.watches.of(self.visitor.token)

    def page(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """Return the rendered page of a template."""
        return self.console.pages.response(template, status, visitor=self.visitor, here=self.request.path, **values)

    def text(self, template: str, **values: Any) -> str:
        """Return a rendered part of a page."""
        return self.console.pages.text(template, visitor=self.visitor, **values)

    def number(self, name: str, default: int = 0, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return a number of the path or of the query. Raises InvalidArgumentError."""
        return number_in({**self.request.query, **self.request.match_info}, name, default, least=least, most=most)

    def query(self, name: str, most: int = 200) -> str:
        """Return a text of the query or of the form, cut to `most` characters; "" if there is none."""
        return (self.form.get(name) or self.request.query.get(name, ""))[:most]

    def goes_to(self, path: str) -> web.Response:
        """Return the answer that sends the browser to a page of the console."""
        return web.Response(status=303, headers={**HEADERS, "Location": f"{ROOT}/{path}"})

    def require(self, action: Action) -> None:
        """Raise PermissionDeniedError if the visitor does not have the right on the cluster."""
        if not self.visitor.may(action, CLUSTER):
            raise PermissionDeniedError(f"User {self.visitor.name} has no right to {action} the cluster.")

    def require_on_group(self, action: Action, group: str) -> None:
        """Raise PermissionDeniedError if the visitor does not have the right on the consumer group."""
        if not self.visitor.may_on_group(action, group):
            raise PermissionDeniedError(f"User {self.visitor.name} has no right to {action} group {group[:80]!r}.")


def is_of_console(path: str) -> bool:
    """Return True if the console answers requests of this path."""
    return path in ("/", ROOT) or path.startswith(f"{ROOT}/")


def number_in(values: Mapping[str, str], name: str, default: int = 0, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return the number with this name, or `default` if there is none. Raises InvalidArgumentError."""
    text = values.get(name, "").strip()
    if not text and default >= least:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and least <= int(text) <= most):
        raise InvalidArgumentError(f"{name} = {text[:40]!r} is no number from {least} to {most}")
    return int(text)


# Answers one request of a visitor.
Page = Callable[[Visit], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """A page at `path`, which begins with `ROOT`. `method` is GET or POST."""

    method: str
    path: str
    page: Page
    is_live: bool = False


class Console:
    """The console of one node, from its first request to `close`."""

    def __init__(
        self,
        facts: Mapping[str, Any],
        access: ConsoleAccess | None,
        clients: ConsoleClients,
        now_ms: Callable[[], int],
        routes: list[Route],
        *,
        is_open: bool,
        is_secure: bool,
    ) -> None:
        """`facts` are shown on every page: cluster and node. `access` has the users; None: no authentication, and the
        console answers only if `is_open`. `is_secure` means that the port has TLS."""
        paths = {route.path for route in routes}
        self._navigation = [link for link in NAVIGATION if f"{ROOT}/{link[0]}" in paths]
        self.pages = Pages(
            {
                **facts,
                "root": ROOT,
                "pages_of": self._pages_of,
                "login_is_needed": access is not None,
                "is_secure": is_secure,
            }
        )
        self.clients = clients
        self.now_ms = now_ms
        self.watches = Watches(clients.admin, now_ms)
        self.lookouts = Lookouts()
        self.resends = Resends(clients)
        self.streams = LiveStreams()
        self.painter = ChartPainter()
        self._logins = Logins(access)
        self._is_open = is_open
        self._is_secure = is_secure
        self._logging_in = asyncio.Semaphore(MAX_LOGINS)
        self._reading_forms = asyncio.Semaphore(MAX_FORMS)
        self.reads = WorkPlaces(MAX_READS, PLACE_WAIT_S, "pages that read or send messages")
        self.downloads = WorkPlaces(MAX_DOWNLOADS, PLACE_WAIT_S, "downloads of messages")
        self._routes = routes

    def routes(self) -> list[web.RouteDef]:
        """Return the routes for the HTTP port."""
        found = [
            web.get("/", self._to_root),
            web.get(ROOT, self._to_root),
            web.get(f"{ROOT}/login", self._login_page),
            web.post(f"{ROOT}/login", self._login),
            web.post(f"{ROOT}/logout", self._logout),
            web.get(f"{ROOT}/static/{{name:[a-z.-]{{1,40}}}}", self._static),
        ]
        found.extend(web.route(route.method, route.path, self._handler(route)) for route in self._routes)
        found.append(web.get(f"{ROOT}/{{rest:.*}}", self._unknown))
        return found

    async def close(self) -> None:
        await self.streams.close()
        await self.watches.close()
        await self.lookouts.close()
        await self.resends.close()
        await self.clients.close()

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            visitor: Visitor | None = None
            try:
                visitor = self._visitor(request)
                form = await self._form(request, visitor) if route.method == "POST" else {}
                return await route.page(Visit(request, visitor, self, form))
            except LedgerError as error:
                return self._refusal(request, error, visitor)
            except web.HTTPException:
                raise
            except Exception:
                log.exception("the console failed to show %r, which is a defect of ledgermq", request.path[:200])
                return self.pages.response(
                    "error.html",
                    500,
                    title="The console failed",
                    text="The log of the node has the details.",
                    visitor=None,
                )

        return handle

    def _visitor(self, request: web.Request) -> Visitor:
        if not self._logins.are_needed and not self._is_open:
            raise PermissionDeniedError(
                "This cluster has no authentication, so nobody can log in. Set `authentication = true`, or use the "
                'setting `console = "open"` for a node that serves only its own machine.'
            )
        return self._logins.visitor(request)

    async def _form(self, request: web.Request, visitor: Visitor) -> dict[str, str]:
        """Return the fields of a form that a page of this visitor has sent. Raises LedgerError."""
        async with nullcontext() if is_small(request) else self._reading_forms:
            fields = await fields_of(request, MAX_FORM_BYTES)
        check_form(visitor, request, fields.pop(PROOF_FIELD, ""))
        return fields

    def _refusal(self, request: web.Request, error: LedgerError, visitor: Visitor | None = None) -> web.Response:
        """Return the page of an error, with the links of all pages if the visitor is known."""
        match error:
            case AuthenticationError() if self._logins.are_needed:
                if request.method == "GET" and not request.path.startswith(f"{ROOT}/live/"):
                    return self._redirect(f"{ROOT}/login")
                status, title = 401, "Log in"
            case PermissionDeniedError() | AuthenticationError():
                status, title = 403, "Not allowed"
            case UnavailableError() | NoLeaderError() | NotLeaderError() | RequestTimeoutError():
                status, title = 503, "Not now"
            case InvalidArgumentError():
                status, title = 400, "This cannot be shown"
            case UnknownTopicError() | UnknownQueueError() | UnknownGroupError():
                status, title = 404, "Not found"
            case _:
                status, title = 409, "The cluster refused"
        here, tries_again = request.path, status == 503 and request.method == "GET"
        page = self.pages.response(
            "error.html", status, title=title, text=str(error), tries_again=tries_again, visitor=visitor, here=here
        )
        if tries_again:
            page.headers["Refresh"] = str(TRY_AGAIN_S)
        return page

    def _pages_of(self, visitor: Visitor) -> list[tuple[str, str]]:
        """Return path and name of the pages that the head of a page links: those that the visitor may see. If this node
        does not know the rights now, all pages are linked, and refuse."""
        try:
            return [(path, name) for path, name, right in self._navigation if right is None or visitor.may(right)]
        except LedgerError:
            return [(path, name) for path, name, _ in self._navigation]

    async def _to_root(self, _: web.Request) -> web.Response:
        return self._redirect(f"{ROOT}/")

    async def _unknown(self, request: web.Request) -> web.Response:
        text = f"The console has no page {request.path[:200]}."
        return self.pages.response("error.html", 404, title="No such page", text=text, visitor=None)

    def _redirect(self, to: str) -> web.Response:
        return web.Response(status=303, headers={**HEADERS, "Location": to})

    # -- login

    async def _login_page(self, request: web.Request) -> web.Response:
        if not self._logins.are_needed:
            return self._redirect(f"{ROOT}/")
        return self.pages.response("login.html", error="", user="", visitor=None)

    async def _login(self, request: web.Request) -> web.Response:
        if not self._logins.are_needed:
            return self._redirect(f"{ROOT}/")
        user = ""
        try:
            check_origin(request)
            fields = await fields_of(request, MAX_LOGIN_BYTES)
            user, password = fields.get("user", "")[:127], fields.get("password", "")[:1_024]
            if self._logging_in.locked():
                raise UnavailableError("Too many users log in at this moment: try again shortly.")
            async with self._logging_in:
                token = await self.clients.login(user, password)
        except LedgerError as error:
            await asyncio.sleep(WRONG_S)
            status = _STATUS_OF_LOGIN.get(type(error), 503)
            return self.pages.response("login.html", status, error=str(error), user=user, visitor=None)
        response = self._redirect(f"{ROOT}/")
        response.set_cookie(
            COOKIE,
            token,
            max_age=LOGIN_MS // 1000,
            path=ROOT,
            httponly=True,
            samesite="Strict",
            secure=self._is_secure,
        )
        return response

    async def _logout(self, request: web.Request) -> web.Response:
        try:
            visitor = self._visitor(request)
            await self._form(request, visitor)
        except LedgerError as error:
            return self._refusal(request, error)
        self._logins.end(visitor)
        await self.clients.forget(visitor.token)
        response = self._redirect(f"{ROOT}/login")
        response.del_cookie(COOKIE, path=ROOT)
        return response

    # -- files

    async def _static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        kind = _STATIC_TYPES.get(name[name.rfind(".") :])
        of_reports = resources.files("ledger.report") / name
        file = of_reports if name == PALETTE else resources.files("cluster.console") / "static" / name
        if kind is None or not file.is_file():
            return await self._unknown(request)
        headers = {**HEADERS, "Cache-Control": "max-age=300"}
        return web.Response(body=file.read_bytes(), content_type=kind, charset="utf-8", headers=headers)
