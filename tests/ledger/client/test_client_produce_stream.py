"""The stream that carries batches to a node, with a node that is only a few queues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ledger.client.connection.session import ProofEndedError, ProvenStream
from ledger.client.producer.produce_stream import AttemptResult, ProduceStream
from ledger.client.producer.producer_batch import Acknowledged, leaves_doubt
from ledger.errors import AuthenticationError, LedgerError, PermissionDeniedError, to_wire
from ledger.v1 import broker_pb2

ADDRESS = "n1:1"
ACKNOWLEDGED = broker_pb2.ProduceResult(base_offset=5, term=1, append_time_ms=9)


@dataclass(frozen=True)
class Batch:
    encoded: bytes
    trace: str = ""


class Node:
    """A node that answers when a test says so. `asked` has the requests, and `ended_proofs` counts the proofs that the
    client has given up."""

    def __init__(self) -> None:
        self.asked = asyncio.Queue[Any]()
        self.answers = asyncio.Queue[broker_pb2.ProduceResponse]()
        self.ended_proofs = 0

    def stub(self) -> Any:
        return SimpleNamespace(Produce=lambda: ProvenStream(self._opened, self))

    async def metadata(self) -> Any:
        return (("authorization", "Bearer token"),)

    def ended(self, metadata: Any) -> None:
        self.ended_proofs += 1

    def _opened(self, metadata: Any) -> Any:
        async def connected() -> None:
            pass

        return SimpleNamespace(
            wait_for_connection=connected, write=self.asked.put, read=self.answers.get, cancel=lambda: None
        )

    async def takes(self, stream: ProduceStream[str, Batch], user: User, *values: bytes) -> None:
        """Take a request with one batch for each of `values`."""
        stream.submit(user, "queue", [Batch(value) for value in values])
        async with asyncio.timeout(5):
            await self.asked.get()

    def answer(self, *results: broker_pb2.ProduceResult | LedgerError) -> None:
        told = [broker_pb2.ProduceResult(error=to_wire(e)) if isinstance(e, LedgerError) else e for e in results]
        self.answers.put_nowait(broker_pb2.ProduceResponse(results=told))


class User:
    """A producer that records the results of its attempts, by the bytes of their batches."""

    def __init__(self) -> None:
        self.results: dict[bytes, AttemptResult[str, Batch]] = {}
        self.some = asyncio.Event()

    def attempts_ended(self, address: str, results: Sequence[AttemptResult[str, Batch]]) -> None:
        for result in results:
            assert result.batch.encoded not in self.results
            self.results[result.batch.encoded] = result
        self.some.set()


async def test_the_end_of_a_proof_takes_back_no_acknowledgement() -> None:
    """The proof ends between two batches of a request. It is unknown what the node does with the next request."""
    node, user = Node(), User()
    stream = ProduceStream[str, Batch](ADDRESS, node.stub(), lambda _: None)
    await node.takes(stream, user, b"stored", b"without the right", b"refused")
    await node.takes(stream, user, b"later")
    ended = AuthenticationError("the token has ended")
    node.answer(ACKNOWLEDGED, PermissionDeniedError("no right"), ended)
    async with asyncio.timeout(5):
        await user.some.wait()
    assert stream.broken
    answers = {value: result.answer for value, result in user.results.items()}
    assert answers[b"stored"] == Acknowledged(5, 1, 9, duplicate=False)
    assert isinstance(answers[b"without the right"], PermissionDeniedError)
    refused, later = answers[b"refused"], answers[b"later"]
    assert isinstance(refused, ProofEndedError)
    assert not leaves_doubt(refused)
    assert isinstance(later, LedgerError)
    assert later.retriable
    assert leaves_doubt(later)
    assert all(result.sent for result in user.results.values())
    assert node.ended_proofs == 1
    await stream.close()
