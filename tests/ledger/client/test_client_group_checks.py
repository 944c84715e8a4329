"""The streams over which nodes ask a producer for the ends of transactions, as the producer sees them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from ledger.client.connection.session import ProvenStream
from ledger.client.transactions import checks
from ledger.client.transactions.checks import GroupChecks


class Session:
    """Proves who the client is, with another token after each end."""

    def __init__(self) -> None:
        self.token = 1

    async def metadata(self) -> Any:
        return (("authorization", str(self.token)),)

    def ended(self, metadata: Any) -> None:
        if metadata == (("authorization", str(self.token)),):
            self.token += 1


class Node:
    """A node that knows no token of before its restart. `taken` has the tokens of the streams that it serves."""

    def __init__(self) -> None:
        self.session = Session()
        self.taken: list[str] = []
        self.has_taken = asyncio.Event()

    def __call__(self) -> ProvenStream:
        return ProvenStream(self.opened, self.session)

    def opened(self, metadata: Any) -> Any:
        (_, token), *_ = metadata
        refused = grpc.aio.AioRpcError(
            grpc.StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), details="who are you?"
        )

        async def write(_: Any) -> None:
            if token == "1":
                raise refused
            self.taken.append(token)
            self.has_taken.set()

        return SimpleNamespace(write=write, read=asyncio.Event().wait, cancel=lambda: None)


async def test_a_node_that_has_restarted_asks_again_after_a_new_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_AGAIN_S", 0.0)
    node = Node()
    client: Any = SimpleNamespace(
        routes=SimpleNamespace(table=SimpleNamespace(nodes={1: "n1:1"})),
        connections=SimpleNamespace(stub=lambda address: SimpleNamespace(CheckTransactions=node)),
    )
    answering = GroupChecks(client, "billing", lambda asked: "unknown")
    async with asyncio.timeout(5):
        await node.has_taken.wait()
    await answering.stop()
    assert node.taken == ["2"]
