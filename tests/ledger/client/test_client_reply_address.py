"""The headers of requests and replies: what a requester writes is read, and what strangers write is not believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.records import Message
from ledger.client.requests.reply_address import (
    CORRELATION_ID,
    REPLY_TO,
    ReplyAddress,
    correlation_of,
    error_of,
    reply_address,
)

ADDRESS = ReplyAddress("replies", 3, "9f2c60b1d4a7e853", b"9f2c60b1d4a7e853-17")


def message(*headers: tuple[str, bytes]) -> Message:
    return Message("prices", 0, 7, 0, 0, None, b"", None, headers, 1)


def test_the_responder_reads_what_the_requester_wrote() -> None:
    request = message(("trace", b"1"), *ADDRESS.headers())
    assert reply_address(request) == ADDRESS
    reply = message(*ADDRESS.reply_headers())
    assert (correlation_of(reply), error_of(reply)) == (ADDRESS.correlation_id, "")
    assert error_of(message(*ADDRESS.reply_headers("ValueError: \udcff" + "x" * 5000))).startswith("ValueError: ?xxx")
    assert len(error_of(message(*ADDRESS.reply_headers("x" * 5000)))) == 1000


@pytest.mark.parametrize(
    "to",
    [
        b"",
        b"replies",
        b"replies:3",
        b":3:tag",
        b"%RETRY%billing:3:tag",
        b"%TIMED:3:tag",
        b"replies:-1:tag",
        b"replies:x:tag",
        b"replies:99999:tag",
        "replies:\N{SUPERSCRIPT TWO}:tag".encode(),
        b"replies:3:",
        b"replies:3:" + b"t" * 65,
        b"\xff:3:tag",
        b"a b:3:tag",
    ],
)
def test_an_address_that_is_not_valid_is_none(to: bytes) -> None:
    assert reply_address(message((REPLY_TO, to), (CORRELATION_ID, b"1"))) is None


@pytest.mark.parametrize("correlation_id", [b"", b"x" * 129])
def test_a_correlation_id_has_a_length(correlation_id: bytes) -> None:
    assert reply_address(message((REPLY_TO, b"replies:3:tag"), (CORRELATION_ID, correlation_id))) is None


@given(st.lists(st.tuples(st.sampled_from([REPLY_TO, CORRELATION_ID, "reply-error"]), st.binary(max_size=80))))
def test_headers_of_strangers_raise_nothing(headers: list[tuple[str, bytes]]) -> None:
    read = message(*headers)
    address = reply_address(read)
    assert address is None or reply_address(message(*address.headers())) == address
    assert isinstance(error_of(read), str)
