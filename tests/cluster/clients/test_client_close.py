"""Tests clients that are closed in a process with several event loops, one after another."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledgermq import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.ports import free_base_port


def test_what_grpc_has_to_say_of_cancelled_calls_finds_their_loop_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """gRPC reports a cancelled call to the event loop of the call. If that loop is closed, another loop of the
    process logs an error. Here the other loop belongs to a synchronous client."""
    cluster = DevCluster(tmp_path)
    cluster.start(1, base_port=free_base_port(1))

    async def one_message() -> None:
        async with (
            AsyncAdmin(cluster.bootstrap),
            AsyncProducer(cluster.bootstrap) as producer,
            AsyncConsumer("greetings", bootstrap_servers=cluster.bootstrap) as consumer,
        ):
            await producer.send("greetings", b"hello")
            await anext(consumer)

    try:
        with Admin(cluster.bootstrap) as other:
            other.create_topic("greetings", 1)
            for _ in range(30):
                asyncio.run(one_message())
            assert other.list_topics()
    finally:
        cluster.purge()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
