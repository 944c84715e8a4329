"""Reads the forms of browsers, piece by piece, so that a large form does not stop the node."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote_to_bytes

from aiohttp import web

from ledger.errors import InvalidArgumentError

MAX_FIELDS = 200
FORM_S = 20.0
# A larger form is decoded in a thread.
SMALL_FORM_BYTES = 64 << 10
# So many bytes are decoded by one call, which no other thread interrupts.
_PIECE_BYTES = 16 << 10


async def fields_of(request: web.Request, most_bytes: int) -> dict[str, str]:
    """Return the fields of a form. Raises InvalidArgumentError if it is too large, too slow, or no form."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise InvalidArgumentError("The console takes only forms of its own pages.")
    length = request.content_length
    if length is None or length > most_bytes:
        raise InvalidArgumentError(f"The form is larger than {most_bytes:,} bytes, or does not tell its size.")
    try:
        async with asyncio.timeout(FORM_S):
            body = await request.content.readexactly(length)
        return form_fields(body) if length <= SMALL_FORM_BYTES else await asyncio.to_thread(form_fields, body)
    except TimeoutError as error:
        raise InvalidArgumentError(f"The form was not complete after {FORM_S:.0f} s.") from error
    except (ValueError, asyncio.IncompleteReadError) as error:
        raise InvalidArgumentError("The form cannot be read.") from error


def is_small(request: web.Request) -> bool:
    """Return True if the form of a request needs no place among the large ones."""
    return (request.content_length or 0) <= SMALL_FORM_BYTES


def form_fields(body: bytes) -> dict[str, str]:
    """Return the fields of an encoded form. Of fields with the same name, the last counts. Raises ValueError."""
    if body.count(b"&") >= MAX_FIELDS:
        raise ValueError(f"the form has more than {MAX_FIELDS} fields")
    fields = {}
    for pair in body.split(b"&"):
        if pair:
            name, _, value = pair.partition(b"=")
            fields[_decoded(name)] = _decoded(value)
    return fields


def _decoded(data: bytes) -> str:
    data = data.replace(b"+", b" ")
    parts = []
    at = 0
    while at < len(data):
        end = at + _PIECE_BYTES
        if end < len(data) and (escape := data.rfind(b"%", end - 2, end)) != -1:
            end = escape  # an escape such as %C3 stays in one piece
        parts.append(unquote_to_bytes(data[at:end]))
        at = end
    return b"".join(parts).decode()
