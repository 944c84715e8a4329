"""Official clients with TLS and a signature, on a cluster that demands both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cluster.local.processes import DevCluster
from ledgermq import Admin
from tests.cluster.ports import free_base_port
from tests.rocketmq.exchange import Exchange
from tests.rocketmq.programs import LANGUAGES, ClientProgram, ProgramError, missing, running

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# A refusal for want of a right does not tell whether the topic exists.
_UNAUTHORIZED, _TOPIC_NOT_FOUND = 40100, 40402
_TOPIC, _OTHER_TOPIC, _GROUP = "orders", "secrets", "readers"


@dataclass(frozen=True, slots=True)
class SecuredTarget:
    endpoints: str
    ca: Path
    access_key: str
    secret_key: str
    settle_s: float = 0.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredTarget]:
    """A secured cluster of three nodes, and the user "alice", who may use one topic and one group."""
    cluster = DevCluster(tmp_path_factory.mktemp("secured"))
    try:
        (state, *_) = cluster.start(base_port=free_base_port(5), secure=True)
        with Admin(cluster.bootstrap, **cluster.client_options) as admin:
            for topic in (_TOPIC, _OTHER_TOPIC):
                admin.create_topic(topic)
            admin.add_user("alice", "a password that no RocketMQ client uses")
            admin.grant("alice", "subscribe", f"topic:{_TOPIC}")
            admin.grant("alice", "publish", f"topic:{_TOPIC}")
            admin.grant("alice", "all", f"group:{_GROUP}-*")
            secret = admin.make_rocketmq_secret("alice")
        yield SecuredTarget(state.rocketmq, cluster.credentials.directory / "ca.pem", secret.access_key, secret.secret)
    finally:
        cluster.purge()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LANGUAGES)
async def program(request: pytest.FixtureRequest, secured: SecuredTarget) -> AsyncIterator[ClientProgram]:
    """A program whose client trusts the cluster's authority. Java's client trusts every certificate, and each of the
    others reads another variable."""
    if reason := missing(request.param):
        pytest.skip(reason)
    trust = dict.fromkeys(("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"), str(secured.ca))
    async with running(request.param, trust) as started:
        yield started


def signed(secured: SecuredTarget, secret_key: str = "") -> dict[str, Any]:
    return {"tls": True, "access_key": secured.access_key, "secret_key": secret_key or secured.secret_key}


async def test_a_client_that_signs_sends_and_receives_over_tls(program: ClientProgram, secured: SecuredTarget) -> None:
    async with Exchange(program, secured, **signed(secured)) as exchange:
        producer = await exchange.producer(_TOPIC)
        consumer = await exchange.simple(_TOPIC, f"{_GROUP}-{program.language}")
        sent = await exchange.send(producer, _TOPIC, "hello")
        taken = await exchange.take(consumer, 1)
        # Messages of the other languages are in the topic, too, and may come in one batch with this one.
        while sent["message_id"] not in {found["message_id"] for found in taken}:
            taken += await exchange.take(consumer, 1)


async def test_a_wrong_secret_is_refused(program: ClientProgram, secured: SecuredTarget) -> None:
    await _refused(program, secured, _TOPIC, _UNAUTHORIZED, **signed(secured, "not the secret"))


async def test_a_topic_without_the_right_is_refused(program: ClientProgram, secured: SecuredTarget) -> None:
    await _refused(program, secured, _OTHER_TOPIC, _TOPIC_NOT_FOUND, **signed(secured))


async def _refused(program: ClientProgram, secured: SecuredTarget, topic: str, code: int, **connection: Any) -> None:
    async with Exchange(program, secured, **connection) as exchange:
        with pytest.raises(ProgramError) as found:
            await asyncio.wait_for(_send(exchange, topic), 60)
    # Java and Node.js tell only that they did not start.
    assert found.value.code in (code, None), found.value


async def _send(exchange: Exchange, topic: str) -> None:
    producer = await exchange.producer(topic)
    await exchange.send(producer, topic, "never")
