"""Every public call of every client gets a value of every wrong kind in every argument, in turn, at a running node. The
call returns or raises a LedgerError, and never a TypeError from somewhere inside."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import ledgermq
from ledgermq import LedgerError

pytestmark = [pytest.mark.real, pytest.mark.long]

ASKED: Any = lambda _: "unknown"  # noqa: E731
CLIENTS: dict[str, dict[str, Any]] = {
    "Consumer": {},
    "GroupConsumer": {"group": "queues"},
    "Producer": {},
    "PushConsumer": {"group": "pushed", "listener": ASKED},
    "Requester": {},
    "Responder": {"group": "answers", "handler": ASKED},
    "SharedConsumer": {"group": "shared"},
}
# What the other arguments of a call are.
RIGHT: dict[str, Any] = {
    "checker": ASKED,
    "group": "checkout",
    "handle": "t1_handle",
    "handles": [],
    "listener": ASKED,
    "max_wait_ms": 0,
    "message": None,
    "messages": [],
    "offset": 0,
    "places": ("orders", 0),
    "queue": 0,
    "table": {"text": [b"one"]},
    "timeout_ms": 1,
    "timeout_s": 0,
    "times": {("orders", 0): 0},
    "topic": "orders",
    "value": b"one",
    "values": [b"one"],
}
# These calls do not end by themselves.
ENDLESS = {"consume", "wait_closed"}


def wrong_values() -> Iterator[Any]:
    yield from (None, True, False, -1, 1.5, math.nan, -math.inf, 1 << 70, np.int64(1), np.float64(1.5), np.bool_(True))
    yield from ("", "x", b"x", "\ud800", "a||b", "a\0b", [], [5], ["x"], {}, {5: 5}, (1, 2, 3), object(), int)
    yield from (datetime(2026, 1, 1), datetime.max.replace(tzinfo=UTC), timedelta.max, timedelta.min)
    yield (each for each in "ab")


def calls_of(client: type) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    for name, function in inspect.getmembers(client, inspect.isfunction):
        if not name.startswith("_") and name not in ENDLESS | {"start"}:
            yield name, list(inspect.signature(function).parameters.values())[1:]


def arguments(parameters: list[inspect.Parameter], wrong: inspect.Parameter, value: Any) -> tuple[list[Any], Any]:
    """Return the arguments of a call, of which one is wrong."""
    listed, named = [], {}
    for parameter in parameters:
        is_wrong = parameter is wrong
        if not is_wrong and parameter.name not in RIGHT:
            continue
        if not is_wrong and parameter.default is not parameter.empty and not parameter.name.startswith("timeout"):
            continue
        given = value if is_wrong else RIGHT[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            listed.append(given)
        else:
            named[parameter.name] = given
    return listed, named


async def is_told(call: Callable[..., Any], listed: list[Any], named: Any) -> BaseException | None:
    """Make the call for at most a second. Return its error if it is none that a program could expect."""
    try:
        async with asyncio.timeout(1):
            result = call(*listed, **named)
            if inspect.isawaitable(result):
                await result
    except (LedgerError, TimeoutError):
        return None
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_wrong_argument_is_an_error_that_a_program_expects(name: str, bootstrap: str) -> None:
    made = getattr(ledgermq, f"Async{name}")
    topics = ["orders"] if "topics" in inspect.signature(made).parameters else []
    found = []

    async def started() -> Any:
        client = made(*topics, bootstrap_servers=bootstrap, **CLIENTS[name])
        await client.start()
        return client

    client = await started()
    for call, parameters in calls_of(made):
        for parameter in parameters:
            for value in wrong_values():
                if getattr(client, "closed", False):
                    client = await started()
                listed, named = arguments(parameters, parameter, value)
                if (error := await is_told(getattr(client, call), listed, named)) is not None:
                    found.append(f"{call}({parameter.name}={value!r}): {error!r}")
    await client.stop()
    assert not found, "\n".join(found[:20])
