"""Requests of many clients go on together, and those of few do not wait."""

from __future__ import annotations

import asyncio

from ledger.rocketmq.gathering import FEW, Gathering
from tests.cluster.waiter import until


class Requests:
    """Requests that gather, and how many of them have begun."""

    def __init__(self, gathering: Gathering) -> None:
        self.begun = 0
        self._gathering = gathering

    def add(self, count: int, under_way: int) -> None:
        for _ in range(count):
            self._gathering.add(self._begin, under_way)

    async def some_begun(self, more_than: int = 0) -> int:
        """Return how many have begun, as soon as they are more."""
        await until(lambda: self.begun > more_than, "requests began")
        return self.begun

    def _begin(self) -> None:
        self.begun += 1


async def test_few_requests_begin_at_once() -> None:
    requests = Requests(Gathering())
    requests.add(3, FEW)
    assert requests.begun == 3


async def test_many_requests_begin_together() -> None:
    requests = Requests(Gathering())
    requests.add(5, FEW + 1)
    assert not requests.begun
    await asyncio.sleep(0)
    requests.add(5, FEW + 1)
    assert await requests.some_begun() == 10


async def test_requests_that_keep_arriving_hold_up_the_first_for_a_bounded_time() -> None:
    most_s = 0.02
    requests = Requests(Gathering(most_s))
    began_s = asyncio.get_running_loop().time()
    while not requests.begun:
        requests.add(1, 4 * FEW)
        await asyncio.sleep(0.0005)
        assert asyncio.get_running_loop().time() < began_s + 50 * most_s


async def test_few_requests_do_not_wait_when_the_many_are_over() -> None:
    gathering = Gathering()
    requests = Requests(gathering)
    requests.add(1, FEW + 1)
    await requests.some_begun()
    requests.add(1, 1)
    assert requests.begun == 1, "shortly after many, requests still gather"
    await requests.some_begun(more_than=1)
    gathering._until_s = 0.0
    requests.add(1, 1)
    assert requests.begun == 3
