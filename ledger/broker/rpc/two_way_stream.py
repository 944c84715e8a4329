"""Serves the two directions of a stream until one of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class StalledError(Exception):
    """The client of a stream does not read what the node sends."""


async def serve_both(
    reading: Coroutine[Any, Any, object],
    writing: Coroutine[Any, Any, object],
    end_writing: Callable[[BaseException | None], None],
) -> tuple[Any, Any]:
    """Read and write until one of both ends. Return what each of them returned or raised.

    If reading ends first, `end_writing(error)` lets writing end behind what it has to send. The writer may be in the
    middle of an answer, and gRPC can send nothing else before this answer is sent: so this waits for the writer, which
    bounds each answer by a time limit of its own."""
    reader, writer = asyncio.create_task(reading), asyncio.create_task(writing)
    try:
        await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
        if reader.done() and not reader.cancelled():
            end_writing(reader.exception())
            await asyncio.wait((writer,))
    finally:
        for task in (reader, writer):
            task.cancel()
        read, written = await asyncio.gather(reader, writer, return_exceptions=True)
    return read, written
