"""The bound on what a producer holds."""

from __future__ import annotations

import asyncio

import pytest

from ledger.client.buffer import Buffer
from ledger.errors import BufferFullError


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_fits_does_not_wait() -> None:
    buffer = Buffer(10)
    await buffer.reserve(6)
    buffer.reserve_nowait(4)
    assert buffer.used == 10


async def test_to_wait_is_refused_where_it_was_not_asked_for() -> None:
    buffer = Buffer(10)
    buffer.reserve_nowait(6)
    with pytest.raises(BufferFullError, match="6 of 10 bytes"):
        buffer.reserve_nowait(5)
    assert buffer.used == 6


async def test_who_waits_waits_in_line() -> None:
    buffer = Buffer(10)
    buffer.reserve_nowait(10)
    large, small = asyncio.ensure_future(buffer.reserve(8)), asyncio.ensure_future(buffer.reserve(1))
    await turn()
    buffer.release(5)
    await turn()
    assert not large.done()
    assert not small.done(), "it overtook the large one"
    with pytest.raises(BufferFullError):
        buffer.reserve_nowait(1)
    buffer.release(5)
    await turn()
    assert large.done()
    assert small.done()
    assert buffer.used == 9


async def test_what_is_larger_than_the_buffer_goes_alone() -> None:
    buffer = Buffer(10)
    buffer.reserve_nowait(1)
    giant = asyncio.ensure_future(buffer.reserve(50))
    await turn()
    assert not giant.done()
    buffer.release(1)
    await turn()
    assert giant.done()


async def test_who_gives_up_leaves_the_line() -> None:
    buffer = Buffer(10)
    buffer.reserve_nowait(10)
    large, small = asyncio.ensure_future(buffer.reserve(8)), asyncio.ensure_future(buffer.reserve(3))
    await turn()
    buffer.release(3)
    large.cancel()
    await turn()
    assert small.done()
    assert buffer.used == 10


async def test_who_gives_up_in_the_turn_it_got_its_place_gives_it_back() -> None:
    buffer = Buffer(10)
    buffer.reserve_nowait(10)
    waiting = asyncio.ensure_future(buffer.reserve(4))
    await turn()
    buffer.release(10)
    waiting.cancel()
    await turn()
    assert waiting.cancelled()
    assert buffer.used == 0
