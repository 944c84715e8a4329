"""Crowds of clients that each await their sends: how they are run, and the figures of a run."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from bench.peers.awaiting import AwaitedRun, AwaitingRounds, Crowd, middle
from bench.peers.peer import Description, How, PeerError
from bench.peers.rates import Against, ClientRates, PeerMeasurement

HERE = "tests.bench.test_peer_awaiting"
ANSWER_S = 0.02


class SlowClient:
    """A client whose sends take 20 ms."""

    how: ClassVar[How] = How("each", "bulk", "consume")
    most_waiting_clients: ClassVar[int] = 1_000

    async def open(self, address: str, topic: str) -> None:
        self.is_open = (address, topic) == ("an address", "awaiting-1")

    async def send_one(self, value: bytes) -> None:
        assert self.is_open
        assert len(value) == 64
        await asyncio.sleep(ANSWER_S)


class FailingClient(SlowClient):
    async def send_one(self, value: bytes) -> None:
        raise ConnectionError("the server is gone")


class TheseServers:
    """Stands for servers: the process of the test."""

    pids = (os.getpid(),)


def rounds(client: str) -> AwaitingRounds:
    path = f"{HERE}:{client}"
    return AwaitingRounds(Path(sys.executable), path, "an address", TheseServers(), 0.6, lambda _: None)  # type: ignore[arg-type]


@pytest.mark.real
@pytest.mark.parametrize("processes", [1, 2])
def test_each_client_has_one_send_at_a_time(processes: int) -> None:
    crowd = Crowd(10, processes, size=64)
    run = rounds("SlowClient").measure(crowd)
    assert run.crowd == crowd
    assert run.p50_ms >= ANSWER_S * 1e3
    assert run.p99_ms >= run.p50_ms
    assert 0 < run.per_s <= 10 / ANSWER_S
    assert run.client_us > 0


@pytest.mark.real
def test_a_client_that_fails_is_told_with_its_error() -> None:
    with pytest.raises(PeerError, match="the server is gone"):
        rounds("FailingClient").measure(Crowd(2, size=64))


def awaited(per_s: float, crowd: Crowd) -> AwaitedRun:
    return AwaitedRun(crowd, per_s, p50_ms=1, p99_ms=2, client_us=3, server_us=4)


def measured(runs: Sequence[AwaitedRun]) -> PeerMeasurement:
    rates = ClientRates("client", SlowClient.how, awaited=list(runs))
    return PeerMeasurement("peer", Description("1", "a majority", "nothing", False), [rates], 0.0, [])


def test_crowds_are_compared_by_medians() -> None:
    one, many = Crowd(1), Crowd(100)
    theirs = measured([awaited(10, one), awaited(30, one), awaited(20, one)])
    against = Against(theirs, (measured([awaited(1, one), awaited(5, many)]), measured([awaited(3, one)])))
    assert middle([awaited(10, one), awaited(30, one), awaited(20, one)]) == awaited(20, one)
    assert against.awaited("client", one) == (awaited(20, one), awaited(2, one))
    assert against.awaited("client", many) is None, "the peer was not measured with many clients"
