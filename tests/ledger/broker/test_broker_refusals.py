"""Tests the decorator of the broker's gRPC methods: it returns a LedgerError in the response, and lets gRPC handle
every other exception.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from ledger.broker.rpc.refusals import RefusingService, answers, storage_checked
from ledger.errors import BusyError, LedgerError, StorageFailedError, to_wire
from ledger.v1 import broker_pb2
from store import StoreError
from tests.ledger.broker.test_broker_query import finished

CONTEXT = cast(Any, None)
REQUEST = broker_pb2.GetRouteRequest()


class Routes(RefusingService):
    """A service with one method. The method sets the cluster's name in the response, and then raises `failure` if
    set.
    """

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.noticed: list[LedgerError] = []

    def refused(self, error: LedgerError) -> None:
        self.noticed.append(error)

    @answers(broker_pb2.GetRouteResponse)
    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, response: broker_pb2.GetRouteResponse
    ) -> None:
        """Set two fields of the response."""
        response.cluster = "test"
        if self.failure is not None:
            raise self.failure
        response.topics_index = 7


def test_what_the_method_fills_in_is_the_response() -> None:
    service = Routes()
    assert finished(service.GetRoute(REQUEST, CONTEXT)) == broker_pb2.GetRouteResponse(cluster="test", topics_index=7)
    assert service.noticed == []


def test_each_call_has_a_response_of_its_own() -> None:
    service = Routes(BusyError("full"))
    assert finished(service.GetRoute(REQUEST, CONTEXT)).HasField("error")
    service.failure = None
    assert not finished(service.GetRoute(REQUEST, CONTEXT)).HasField("error")


def test_a_ledger_error_is_the_error_of_the_response_beside_what_was_filled_in_before() -> None:
    error = BusyError("full")
    service = Routes(error)
    expected = broker_pb2.GetRouteResponse(cluster="test", error=to_wire(error))
    assert finished(service.GetRoute(REQUEST, CONTEXT)) == expected
    assert service.noticed == [error]


def test_another_exception_goes_on_to_grpc() -> None:
    service = Routes(ValueError("a fault of ours"))
    with pytest.raises(ValueError, match="a fault of ours"):
        finished(service.GetRoute(REQUEST, CONTEXT))
    assert service.noticed == []


def test_the_method_keeps_its_name_and_its_docstring() -> None:
    assert Routes.GetRoute.__name__ == "GetRoute"
    assert Routes.GetRoute.__doc__ == "Set two fields of the response."


def test_an_error_of_the_store_is_a_storage_failure_with_that_sentence() -> None:
    with (
        pytest.raises(StorageFailedError, match=r"^this node cannot read that: no space") as raised,
        storage_checked("this node cannot read that"),
    ):
        raise StoreError("no space")
    assert isinstance(raised.value.__cause__, StoreError)


def test_a_ledger_error_is_not_changed_by_the_check_of_the_store() -> None:
    with pytest.raises(BusyError, match="full"), storage_checked("this node cannot read that"):
        raise BusyError("full")
