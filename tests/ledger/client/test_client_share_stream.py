"""The stream of a member of a shared group, as its client sees it. The test writes the answers of the node."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.connection.session import ProvenStream
from ledger.client.shared.share_stream import ShareStream
from ledger.client.shared.shared_consumer import AsyncSharedConsumer
from ledger.errors import AuthenticationError, InvalidArgumentError, LedgerError, PermissionDeniedError, to_wire
from ledger.v1.consumer_group_pb2 import SharedTopic, ShareOpening, ShareResponse


class Call:
    """A call that answers the opening once, and then nothing."""

    def __init__(self, answer: ShareResponse) -> None:
        self._answers = [answer]

    async def wait_for_connection(self) -> None:
        """Be connected."""

    async def write(self, request: Any) -> None:
        """Take the request."""

    async def read(self) -> ShareResponse:
        if not self._answers:
            await asyncio.Event().wait()
        return self._answers.pop()

    def cancel(self) -> None:
        """End."""


def stream(answer: ShareResponse, wanted: str) -> ShareStream:
    stub: Any = SimpleNamespace(Share=lambda: Call(answer))
    return ShareStream("n1:1", stub, ShareOpening(topics=[SharedTopic(topic_id=1), SharedTopic(filter=wanted)]))


async def test_a_node_that_knows_no_filters_is_refused_and_not_believed() -> None:
    opened = stream(ShareResponse(number=1), "price > 10")
    with pytest.raises(InvalidArgumentError, match="older version of ledgermq, which has no filters: upgrade all"):
        await opened.opened
    await opened.close()


@pytest.mark.parametrize(("filters", "wanted"), [(True, "price > 10"), (False, "")])
async def test_other_streams_open(filters: bool, wanted: str) -> None:
    opened = stream(ShareResponse(number=1, filters=filters), wanted)
    await opened.opened
    await opened.close()


@pytest.mark.parametrize("where", ["", "  ", "a" * 4_097])
async def test_a_filter_has_a_text_of_limited_length(where: str) -> None:
    with pytest.raises(InvalidArgumentError, match="A filter has 1 to 4,096 characters"):
        AsyncSharedConsumer("orders", group="work", bootstrap_servers="n1:1", where=where)


class Session:
    """The proof of a client. It counts how often the token has ended."""

    def __init__(self) -> None:
        self.ends = 0

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", "token"),)

    def ended(self, metadata: object) -> None:
        self.ends += 1


async def broken_by(error: LedgerError, session: Session) -> LedgerError:
    """Return the error of a stream that the node ends with `error`."""
    call = Call(ShareResponse(error=to_wire(error)))
    stub: Any = SimpleNamespace(Share=lambda: ProvenStream(lambda **_: call, session))
    opened = ShareStream("n1:1", stub, ShareOpening(topics=[SharedTopic(topic_id=1)]))
    with pytest.raises(LedgerError):
        await opened.opened
    assert opened.error is not None
    await opened.close()
    return opened.error


async def test_a_member_whose_proof_has_ended_proves_anew_who_it_is() -> None:
    """For example, the user has a new password, and the client reads it from a file."""
    session = Session()
    error = await broken_by(AuthenticationError("the proof has ended"), session)
    assert isinstance(error, AuthenticationError)
    assert error.retriable, "the member opens another stream"
    assert session.ends == 1, "the next stream has a new proof"


async def test_a_member_without_a_right_keeps_its_proof() -> None:
    session = Session()
    assert not (await broken_by(PermissionDeniedError("no right"), session)).retriable
    assert session.ends == 0
