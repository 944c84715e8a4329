"""The dead letters of a consumer group, and their resend. The page of a message shows their contents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from cluster.console.console import ROOT, Route, Visit
from cluster.console.lookout import Lookout, asked
from cluster.console.pages.group_page import group_of
from cluster.console.resends import Resend
from cluster.console.shown_value import line, whole
from cluster.dead_letters import Ends, Resent
from ledger.client.records import Message
from ledger.errors import InvalidArgumentError, LedgerError, PermissionDeniedError
from ledger.retries import dead_letter_topic, resending_group

LETTERS_A_PAGE = 50
_MAX_QUEUES = 1_024
_NUMBER = re.compile("[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """One line of the list. `attempts` counts the failed deliveries."""

    queue: int
    offset: int
    append_time_ms: int
    origin: str
    attempts: int
    key: str
    tag: str
    size: int
    value: str


def shown_letter(message: Message) -> ShownLetter:
    return ShownLetter(
        message.queue,
        message.offset,
        message.append_time_ms,
        whole(message.origin[:400]),
        message.attempt - 1,
        line(message.key),
        whole(message.tag or ""),
        len(message.value),
        line(message.value),
    )


async def show(visit: Visit) -> web.StreamResponse:
    """List the dead letters, the oldest first."""
    return await _page(visit, _group(visit))


async def _page(visit: Visit, name: str, error: str = "", resent: Resent | None = None) -> web.Response:
    letters = await visit.console.resends.letters(visit.visitor.token, name)
    is_everything = visit.query("all") == "yes"
    begin = places_of(visit.request.query.get("from", ""))
    if not begin and not is_everything:
        begin = await _resent_before(visit, name)
    async with visit.console.reads.one():
        found, after = await asked(letters.read(begin, LETTERS_A_PAGE, shown_letter))
    resend = visit.console.resends.find(visit.visitor.token, name)
    return visit.page(
        "dead_letters.html",
        400 if error else 200,
        title=f"Dead letters of {name}",
        name=name,
        topic=dead_letter_topic(name),
        letters=found,
        after=places_text(after),
        is_first="from" not in visit.request.query,
        is_everything=is_everything,
        may_resend=_may_resend(visit, name),
        parts={"resend": visit.text("parts/resend.html", resend=resend)},
        error=error,
        resent=resent,
    )


async def resend(visit: Visit) -> web.StreamResponse:
    """Send the chosen dead letters again, or begin to send all."""
    name = _group(visit)
    visit.require_on_group("subscribe", resending_group(name))
    if visit.form.get("what") == "all":
        await visit.console.resends.begin(visit.visitor.token, name)
        return visit.goes_to(f"groups/{name}/dead-letters")
    places = chosen(visit.form)
    letters = await visit.console.resends.letters(visit.visitor.token, name)
    resent, error = Resent(), ""
    try:
        async with visit.console.reads.one():
            await asked(letters.resend_some(places, resent))
    except LedgerError as refusal:
        error = str(refusal)
    return await _page(visit, name, error, resent)


async def live(visit: Visit) -> web.StreamResponse:
    """Show how far the resend of all dead letters is."""
    name, token = _group(visit), visit.visitor.token

    async def look() -> Resend | None:
        return visit.console.resends.find(token, name)

    lookout: Lookout[Resend | None] = await visit.console.lookouts.of((token, "resend", name), look, 0.5)
    with lookout.watched():
        return await visit.console.streams.serve(
            visit.request,
            lookout,
            lambda: {"resend": visit.text("parts/resend.html", resend=lookout.answer)},
            lambda: visit.require_on_group("subscribe", name),
        )


def chosen(form: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return the places (queue, offset) of the chosen letters. Raises InvalidArgumentError."""
    places = []
    for field in form:
        if field.startswith("letter-"):
            queue, _, offset = field.removeprefix("letter-").partition("-")
            if not (_NUMBER.fullmatch(queue) and _NUMBER.fullmatch(offset)):
                raise InvalidArgumentError(f'"{whole(field[:40])}" names no dead letter.')
            places.append((int(queue), int(offset)))
    if not 1 <= len(places) <= LETTERS_A_PAGE:
        raise InvalidArgumentError(f"Choose 1 to {LETTERS_A_PAGE} dead letters; {len(places)} are chosen.")
    return sorted(places)


def places_of(text: str) -> Ends:
    """Return the offsets in a text such as "0-17.2-5" (queue 0 from offset 17, queue 2 from offset 5). Raises
    InvalidArgumentError."""
    found: Ends = {}
    for part in text.split(".")[: _MAX_QUEUES + 1] if text else ():
        queue, _, offset = part.partition("-")
        if not (_NUMBER.fullmatch(queue) and _NUMBER.fullmatch(offset)):
            raise InvalidArgumentError(f'"{whole(part[:40])}" names no place among the dead letters.')
        found[int(queue)] = int(offset)
    if len(found) > _MAX_QUEUES:
        raise InvalidArgumentError(f"The address names more than {_MAX_QUEUES:,} queues.")
    return found


def places_text(places: Ends) -> str:
    """Return the text that `places_of` reads."""
    return ".".join(f"{queue}-{offset}" for queue, offset in sorted(places.items()))


async def _resent_before(visit: Visit, name: str) -> Ends:
    letters = await visit.console.resends.letters(visit.visitor.token, name)
    try:
        return await asked(letters.resent_before())
    except PermissionDeniedError:
        return {}  # this user sees all dead letters, and not which of them were resent


def _group(visit: Visit) -> str:
    name = group_of(visit)
    visit.require_on_group("subscribe", name)
    return name


def _may_resend(visit: Visit, name: str) -> bool:
    return visit.visitor.may_on_group("subscribe", resending_group(name))


ROUTES = [
    Route("GET", f"{ROOT}/groups/{{group}}/dead-letters", show),
    Route("POST", f"{ROOT}/groups/{{group}}/dead-letters", resend),
    Route("GET", f"{ROOT}/live/groups/{{group}}/dead-letters", live),
]
