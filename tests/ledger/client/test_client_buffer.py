"""Tests the buffer that limits how many bytes a producer holds in memory."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ledger.client.producer.buffer import Buffer
from ledger.errors import BufferFullError, ClosedError


async def turn() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


class Gate:
    """A buffer of 10 bytes. `placed` has the names of the calls that were admitted, in order."""

    def __init__(self) -> None:
        self.buffer = Buffer(10)
        self.placed: list[str] = []

    def nowait(self, name: str, size: int) -> None:
        self.buffer.enter_nowait(size, partial(self.placed.append, name))

    def wait(self, name: str, size: int, timeout_seconds: float | None = None) -> asyncio.Task[None]:
        return asyncio.create_task(self.buffer.enter(size, partial(self.placed.append, name), timeout_seconds))


@pytest.fixture
async def full() -> Gate:
    gate = Gate()
    gate.nowait("before", 10)
    gate.placed.clear()
    return gate


async def test_what_fits_does_not_wait() -> None:
    gate = Gate()
    entering = gate.buffer.enter(6, partial(gate.placed.append, "first"))
    with pytest.raises(StopIteration):
        entering.send(None)
    gate.nowait("second", 4)
    assert gate.placed == ["first", "second"]
    assert gate.buffer.used == 10


async def test_to_wait_is_refused_where_it_was_not_asked_for() -> None:
    gate = Gate()
    gate.nowait("first", 6)
    with pytest.raises(BufferFullError, match="6 of 10 bytes"):
        gate.nowait("second", 5)
    assert gate.buffer.used == 6
    assert gate.placed == ["first"]


async def test_who_waits_waits_in_line(full: Gate) -> None:
    gate = full
    gate.wait("large", 8)
    gate.wait("small", 1)
    await turn()
    gate.buffer.release(5)
    await turn()
    assert gate.placed == [], "the small call overtook the large call"
    with pytest.raises(BufferFullError):
        gate.nowait("smaller", 1)
    gate.buffer.release(5)
    await turn()
    assert gate.placed == ["large", "small"]
    assert gate.buffer.used == 9


async def test_nobody_overtakes_who_was_let_in_and_has_not_run_since(full: Gate) -> None:
    gate = full
    gate.wait("first call", 1)
    await turn()
    asyncio.get_running_loop().call_soon(gate.wait, "third call", 1)
    gate.buffer.release(5)
    entering = gate.buffer.enter(1, partial(gate.placed.append, "second call"))
    entering.send(None)
    await turn()
    assert gate.placed == ["first call", "second call", "third call"]
    entering.close()


async def test_nobody_is_let_in_while_bytes_are_being_released(full: Gate) -> None:
    """A release admits waiting calls only in a later turn of the event loop. The code that releases bytes may first
    place an earlier call.
    """
    gate = full
    gate.wait("later", 1)
    await turn()
    gate.buffer.release(1)
    gate.placed.append("earlier")
    await turn()
    assert gate.placed == ["earlier", "later"]


async def test_what_is_larger_than_the_buffer_goes_alone() -> None:
    gate = Gate()
    gate.nowait("small", 1)
    gate.wait("giant", 50)
    await turn()
    assert gate.placed == ["small"]
    gate.buffer.release(1)
    await turn()
    assert gate.placed == ["small", "giant"]


async def test_who_gives_up_leaves_the_line(full: Gate) -> None:
    gate = full
    large = gate.wait("large", 8)
    gate.wait("small", 3)
    await turn()
    gate.buffer.release(3)
    large.cancel()
    await turn()
    assert gate.placed == ["small"]
    assert gate.buffer.used == 10


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_who_gives_up_in_the_turn_in_which_there_is_room_is_let_in_or_not(
    full: Gate, cancelled_first: bool
) -> None:
    gate = full
    waiting = gate.wait("one", 4)
    await turn()
    if cancelled_first:
        waiting.cancel()
        gate.buffer.release(10)
    else:
        gate.buffer.release(10)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await turn()
    assert gate.buffer.used == 4 * len(gate.placed)


async def test_who_waits_too_long_is_not_let_in(full: Gate) -> None:
    gate = full
    late, behind = gate.wait("late", 8, timeout_seconds=0.001), gate.wait("behind", 1)
    with pytest.raises(TimeoutError):
        await late
    gate.buffer.release(10)
    await behind
    assert gate.placed == ["behind"]


async def test_to_close_turns_away_who_waits_and_who_comes(full: Gate) -> None:
    gate = full
    waiting = [gate.wait("a", 1), gate.wait("b", 1)]
    await turn()
    gate.buffer.close()
    gate.buffer.release(10)
    for one in waiting:
        with pytest.raises(ClosedError):
            await one
    with pytest.raises(ClosedError):
        await gate.buffer.enter(1, partial(gate.placed.append, "c"))
    with pytest.raises(ClosedError):
        gate.nowait("d", 1)
    assert gate.placed == []
    assert gate.buffer.used == 0


async def test_the_line_is_gone_when_those_in_it_are(full: Gate) -> None:
    gate = full
    stays, leaves = gate.wait("stays", 2), gate.wait("leaves", 2)
    await turn()
    gone = asyncio.create_task(gate.buffer.line_gone())
    await turn()
    leaves.cancel()
    gate.wait("comes later", 10)
    await turn()
    assert not gone.done()
    gate.buffer.release(10)
    await gone
    assert stays.done()
    assert gate.placed == ["stays"]
    await Gate().buffer.line_gone()
