"""A consumer of a consumer group without a cluster: how its waiting calls end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.errors import RequestTimeoutError
from ledgermq import AsyncGroupConsumer


def a_member(**assigned_queues: Any) -> AsyncGroupConsumer:
    """Return a consumer that counts as started. `assigned_queues` are attributes of its assigned queues."""
    consumer = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")
    consumer._client.started = True
    consumer._news, consumer._progress = asyncio.Event(), asyncio.Event()
    consumer._assigned_queues = SimpleNamespace(  # type: ignore[assignment]
        places=list, is_settled=False, trouble=lambda: None, **assigned_queues
    )
    return consumer


async def test_waiting_for_an_assignment_raises_the_error_of_a_request_without_an_answer() -> None:
    member = a_member()
    assert await member.wait_assigned(1) == [], "the time of the caller has passed"
    member._assigned_queues.trouble = lambda: RequestTimeoutError("no answer")  # type: ignore[method-assign]
    with pytest.raises(RequestTimeoutError, match="no answer"):
        await member.wait_assigned(1_000)
