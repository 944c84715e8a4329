"""The servers and the client programs of the contract tests. They live as long as the tests of one file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rocketmq.programs import LANGUAGES, ClientProgram, missing, running
from tests.rocketmq.targets import Target, running_target


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target() -> AsyncIterator[Target]:
    async with running_target() as servers:
        yield servers


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LANGUAGES)
async def program(request: pytest.FixtureRequest) -> AsyncIterator[ClientProgram]:
    if reason := missing(request.param):
        pytest.skip(reason)
    async with running(request.param) as started:
        yield started
