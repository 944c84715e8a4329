"""Official clients with TLS and a signature, on a cluster that demands both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.rocketmq.exchange import Exchange
from tests.rocketmq.programs import LANGUAGES, ClientProgram, ProgramError, missing, running
from tests.rocketmq.secured import GROUPS, OTHER_TOPIC, TOPIC, SecuredTarget, secured_target

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# A refusal for want of a right does not tell whether the topic exists.
_UNAUTHORIZED, _TOPIC_NOT_FOUND = 40100, 40402


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredTarget]:
    with secured_target(tmp_path_factory.mktemp("secured")) as target:
        yield target


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LANGUAGES)
async def program(request: pytest.FixtureRequest, secured: SecuredTarget) -> AsyncIterator[ClientProgram]:
    if reason := missing(request.param):
        pytest.skip(reason)
    async with running(request.param, secured.trust) as started:
        yield started


async def test_a_client_that_signs_sends_and_receives_over_tls(program: ClientProgram, secured: SecuredTarget) -> None:
    async with Exchange(program, secured, **secured.signed()) as exchange:
        producer = await exchange.producer(TOPIC)
        consumer = await exchange.simple(TOPIC, f"{GROUPS}{program.language}")
        sent = await exchange.send(producer, TOPIC, "hello")
        taken = await exchange.take(consumer, 1)
        # Messages of the other languages are in the topic, too, and may come in one batch with this one.
        while sent["message_id"] not in {found["message_id"] for found in taken}:
            taken += await exchange.take(consumer, 1)


async def test_a_wrong_secret_is_refused(program: ClientProgram, secured: SecuredTarget) -> None:
    await _refused(program, secured, TOPIC, _UNAUTHORIZED, **secured.signed("not the secret"))


async def test_a_topic_without_the_right_is_refused(program: ClientProgram, secured: SecuredTarget) -> None:
    await _refused(program, secured, OTHER_TOPIC, _TOPIC_NOT_FOUND, **secured.signed())


async def _refused(program: ClientProgram, secured: SecuredTarget, topic: str, code: int, **connection: Any) -> None:
    async with Exchange(program, secured, **connection) as exchange:
        with pytest.raises(ProgramError) as found:
            await asyncio.wait_for(_send(exchange, topic), 60)
    # Java and Node.js tell only that they did not start.
    assert found.value.code in (code, None), found.value


async def _send(exchange: Exchange, topic: str) -> None:
    producer = await exchange.producer(topic)
    await exchange.send(producer, topic, "never")
