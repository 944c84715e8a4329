"""Forms of browsers are decoded as `urllib.parse` decodes them, in pieces that no escape notices."""

from __future__ import annotations

import asyncio
from unittest import mock
from urllib.parse import parse_qsl

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from cluster.console import forms
from cluster.console.forms import MAX_FIELDS, SMALL_FORM_BYTES, fields_of, form_fields, is_small

PARTS = [b"%41", b"%C3%A9", b"%e2%82%ac", b"+", b"a", b"%", b"%%", b"%4", b"%ff", b"=", b"&"]


@given(parts=st.lists(st.sampled_from(PARTS), max_size=60), piece=st.integers(3, 20))
def test_a_form_is_decoded_piece_by_piece(parts: list[bytes], piece: int) -> None:
    body = b"".join(parts)
    try:
        wanted = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
    except ValueError:
        wanted = None
    with mock.patch.object(forms, "_PIECE_BYTES", piece):
        if wanted is None:
            with pytest.raises(ValueError, match="decode"):
                form_fields(body)
        else:
            assert form_fields(body) == wanted


def test_a_form_has_a_bounded_number_of_fields() -> None:
    assert len(form_fields(b"&".join(b"a%d=1" % number for number in range(MAX_FIELDS)))) == MAX_FIELDS
    with pytest.raises(ValueError, match="fields"):
        form_fields(b"&" * MAX_FIELDS)


async def test_a_large_form_is_decoded_beside_the_node() -> None:
    """A form of 16 MiB takes seconds. The event loop of the node has other work."""
    for size, is_beside in ((SMALL_FORM_BYTES, False), (SMALL_FORM_BYTES + 1, True)):
        request = _request(b"a=" + b"b" * (size - 2))
        with mock.patch.object(asyncio, "to_thread", wraps=asyncio.to_thread) as beside:
            assert len((await fields_of(request, 1 << 20))["a"]) == size - 2
        assert bool(beside.called) == is_beside != is_small(request)


def _request(body: bytes) -> web.Request:
    reader = StreamReader(BaseProtocol(asyncio.get_running_loop()), len(body), loop=asyncio.get_running_loop())
    reader.feed_data(body)
    reader.feed_eof()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body))}
    return make_mocked_request("POST", "/console/login", headers=headers, payload=reader)
