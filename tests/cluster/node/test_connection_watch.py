"""When a node looks at the connections of its gRPC ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Mapping

import pytest

from cluster.node.security import connection_watch as module
from cluster.node.security.connection_limits import ConnectionLimits
from cluster.node.security.connection_watch import ConnectionWatch
from tests.cluster.waiter import until


class FakePort(ConnectionLimits):
    """Counts what the watch asks of a port."""

    def __init__(self) -> None:
        self.looks = self.judgements = 0

    def look(self, sockets: Mapping[int, int]) -> None:
        self.looks += 1

    def judge(self) -> None:
        self.judgements += 1


class Process:
    """A process whose clocks are the test's."""

    def __init__(self) -> None:
        self.now_s, self.used_s = 100.0, 1.0
        self.ports = [FakePort(), FakePort()]
        self.watch = ConnectionWatch(self.ports, cpu_s=lambda: self.used_s, monotonic_s=lambda: self.now_s)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.001)


def test_a_look_is_due_when_the_process_has_worked() -> None:
    process = Process()
    process.used_s += 0.9 * module.BUSY_CPU_S
    assert not process.watch.is_due()
    process.used_s += 0.2 * module.BUSY_CPU_S
    assert process.watch.is_due()


def test_a_look_is_due_after_some_time_though_the_process_does_nothing() -> None:
    process = Process()
    process.now_s += 0.9 * module.MOST_PAUSE_S
    assert not process.watch.is_due()
    process.now_s += 0.2 * module.MOST_PAUSE_S
    assert process.watch.is_due()


async def test_one_look_serves_all_ports(quick: None) -> None:
    process = Process()
    running = asyncio.create_task(process.watch.run())
    for look in (1, 2):
        process.used_s += 2 * module.BUSY_CPU_S
        await until(lambda look=look: process.ports[-1].judgements == look, "the look is made")  # type: ignore[misc]
        assert [(port.looks, port.judgements) for port in process.ports] == [(look, look)] * 2
        assert not process.watch.is_due(), "the look counts"
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_process_without_a_free_descriptor_looks_again_later(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, looks = Process(), 0

    def fail() -> dict[int, int]:
        nonlocal looks
        looks += 1
        process.used_s += 2 * module.BUSY_CPU_S
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "sockets_of_this_process", fail)
    process.used_s += 2 * module.BUSY_CPU_S
    running = asyncio.create_task(process.watch.run())
    await until(lambda: looks >= 1 and not process.watch.is_due(), "it has looked")
    process.now_s += module.MOST_PAUSE_S
    await until(lambda: looks >= 2, "it has looked twice")
    assert not running.done()
    assert not any(port.judgements for port in process.ports)
    running.cancel()
