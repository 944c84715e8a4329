"""Tests the limits on what a broker keeps in memory for its clients. Above a limit, the broker refuses further requests
until there is room again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from ledger.broker.consumer_groups.acknowledgements import Acknowledgements
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.fetch.response_budget import PATIENCE_S, ResponseBudget
from ledger.broker.rpc import broker as rim
from ledger.errors import BusyError
from ledger.state.commands import AcknowledgedOffset, AcknowledgeOffsets


class Call:
    """Stands for the context of a gRPC call that has not ended."""

    def __init__(self, peer: str = "ipv4:127.0.0.1:1") -> None:
        self._peer = peer
        self._on_end: list[Callable[[Any], None]] = []

    def peer(self) -> str:
        return self._peer

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._on_end.append(callback)

    def end(self) -> None:
        for callback in self._on_end:
            callback(self)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise RuntimeError(f"{code.name}: {details}")


async def test_bytes_of_answers_count_until_their_call_has_ended() -> None:
    response_budget, calls = ResponseBudget(most_bytes=100), [Call(), Call()]
    response_budget.leaves(99, calls[0])
    response_budget.check_room()
    response_budget.leaves(50, calls[1])
    with pytest.raises(BusyError, match="149 bytes of responses are not sent yet"):
        response_budget.check_room()
    calls[1].end()
    response_budget.check_room()
    calls[0].end()
    assert response_budget.bytes_under_way == 0


async def test_without_room_the_connections_of_the_oldest_responses_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    budget, calls = ResponseBudget(most_bytes=100), [Call(name) for name in ("first", "second", "third", "fourth")]
    for call in calls[:3]:
        budget.leaves(30, call)
    now_s = 2 * PATIENCE_S
    assert budget.stalled_peers() == set(), "there is room"
    budget.leaves(30, calls[3])
    assert budget.stalled_peers() == {"first", "second", "third"}, "the others have more than half of the limit"
    calls[0].end()
    calls[1].end()
    assert budget.stalled_peers() == set()


async def test_a_young_response_ends_no_connection() -> None:
    budget = ResponseBudget(most_bytes=100)
    budget.leaves(100, Call())
    assert budget.stalled_peers() == set()


async def test_fetches_that_wait_are_bounded_by_their_queues() -> None:
    fetch_waiters = FetchWaiters(max_places=5)
    first, second = fetch_waiters.wait_for([(1, 0), (1, 1), (1, 2)]), fetch_waiters.wait_for([(1, 0), (2, 0)])
    with pytest.raises(BusyError, match=r"limit of waiting fetches on this node is reached \(5 queues\)"):
        fetch_waiters.wait_for([(3, 0)])
    fetch_waiters.announce(1, 2)
    await first
    await asyncio.sleep(0)
    third = fetch_waiters.wait_for([(3, 0), (3, 1), (3, 2)])
    for waiting in (second, third):
        waiting.cancel()
    await asyncio.sleep(0)
    fetch_waiters.wait_for([(1, queue) for queue in range(5)] * 1_000).cancel()


async def test_acknowledgements_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledgements have three limits: offsets of a group, requests of a group (a request may have no offset), and
    the number of groups.
    """
    monkeypatch.setattr("ledger.broker.consumer_groups.acknowledgements.MAX_WAITING", 2)
    monkeypatch.setattr("ledger.broker.consumer_groups.acknowledgements.MAX_GATHERING", 2)
    proposed: list[asyncio.Future[Any]] = []

    def propose(_: object) -> asyncio.Future[Any]:
        proposed.append(asyncio.get_running_loop().create_future())
        return proposed[-1]

    acknowledgements = Acknowledgements(propose)
    offset = AcknowledgedOffset(topic_id=1, queue=0, epoch=0, resets=0, offset=0)
    acknowledgements.add("many", [offset, offset])
    with pytest.raises(BusyError, match="2 offsets of 'many' wait"):
        acknowledgements.add("many", [offset])
    for _ in range(2):
        acknowledgements.add("empty", [])
    with pytest.raises(BusyError, match="'empty' wait"):
        acknowledgements.add("empty", [])
    with pytest.raises(BusyError, match="2 consumer groups acknowledge offsets"):
        acknowledgements.add("third", [offset])
    await asyncio.sleep(0)
    assert proposed, "the earlier acknowledgements are proposed nevertheless"
    acknowledgements.add("many", [offset])


async def test_an_entry_has_a_bounded_number_of_acknowledged_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into an entry is proposed when the entry is applied, and every request gets its own results."""
    monkeypatch.setattr("ledger.broker.consumer_groups.acknowledgements.MAX_QUEUES_OF_ENTRY", 3)
    proposed: list[tuple[AcknowledgeOffsets, asyncio.Future[Any]]] = []

    def propose(command: AcknowledgeOffsets) -> asyncio.Future[Any]:
        proposed.append((command, asyncio.get_running_loop().create_future()))
        return proposed[-1][1]

    acknowledgements = Acknowledgements(propose)
    sizes = (2, 1, 4, 1)
    waiting: list[Any] = [
        acknowledgements.add("many", [AcknowledgedOffset(1, n, 0, 0, n) for n in range(size)]) for size in sizes
    ]
    for entries in (1, 2, 3):
        await asyncio.sleep(0)
        assert len(proposed) == entries
        command, future = proposed[-1]
        future.set_result([(entries, each.queue) for each in command.offsets])
    assert [len(command.offsets) for command, _ in proposed] == [3, 4, 1]
    assert await asyncio.gather(*waiting) == [[(1, 0), (1, 1)], [(1, 0)], [(2, n) for n in range(4)], [(3, 0)]]


async def test_produce_streams_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rim, "MAX_STREAMS", 2)
    gate = asyncio.Event()

    async def served(*_: Any) -> None:
        await gate.wait()

    monkeypatch.setattr(rim, "serve_produce", served)
    facts: Any = SimpleNamespace(replicas=None, view=None)
    broker = rim.BrokerService(facts, facts)
    streams = [asyncio.create_task(broker.Produce(None, Call())) for _ in range(2)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED: this node has 2 produce streams"):
        await broker.Produce(None, Call())  # type: ignore[arg-type]
    gate.set()
    await asyncio.gather(*streams)
    await broker.Produce(None, Call())  # type: ignore[arg-type]
