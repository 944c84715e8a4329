"""A connection of the HTTP port takes a bounded number of bytes that belong to no request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from cluster.node.http import listener
from cluster.node.http.listener import MAX_UNHANDLED_BYTES, HttpConnection

PIECE = bytes(64 << 10)


class Inner(asyncio.Protocol):
    """Counts what it is given."""

    def __init__(self) -> None:
        self.taken = 0

    def data_received(self, data: bytes) -> None:
        self.taken += len(data)


class Transport:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.is_paused = self.is_aborted = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def abort(self) -> None:
        self.is_aborted = True


class Place:
    def give_back(self) -> None:
        """Give nothing back."""


def connected() -> tuple[HttpConnection, Inner, Transport]:
    inner, transport = Inner(), Transport()
    connection = HttpConnection(inner, cast(Any, Place()))
    connection.connection_made(cast(Any, transport))
    return connection, inner, transport


async def test_a_head_without_end_is_read_no_more_and_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LINGERING_S", 0.01)
    connection, inner, transport = connected()
    for _ in range(1_000):
        connection.data_received(PIECE)
    assert inner.taken == MAX_UNHANDLED_BYTES
    assert transport.is_paused
    assert not transport.is_aborted, "the client may read the answer for a moment"
    await asyncio.sleep(0.05)
    assert transport.is_aborted


async def test_many_requests_and_a_long_form_pass() -> None:
    connection, inner, transport = connected()
    for _ in range(100):
        connection.data_received(PIECE)
        connection.request_begins(reads_body=False)
        connection.request_ends()
    connection.request_begins(reads_body=True)
    for _ in range(100):
        connection.data_received(PIECE)
    connection.request_ends()
    connection.data_received(PIECE)
    assert inner.taken == 201 * len(PIECE)
    assert not transport.is_paused
