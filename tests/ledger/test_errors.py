"""Tests errors: every code on the wire has one type, and the wire form keeps all facts of an error."""

from __future__ import annotations

import pickle

import pytest

from ledger import errors
from ledger.errors import LedgerError, from_wire, to_wire
from ledger.v1 import error_pb2

CODES = [name for name in error_pb2.Code.keys() if name != "CODE_UNSPECIFIED"]  # noqa: SIM118 (not a dict)


def types() -> dict[str, type[LedgerError]]:
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LedgerError)]
    coded = {kind.code: kind for kind in found if kind.code}
    assert len(coded) == sum(bool(kind.code) for kind in found), "two types share a code"
    return coded


def test_every_code_has_exactly_one_type() -> None:
    assert sorted(types()) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_an_error_comes_over_the_wire_as_what_it_was(code: str) -> None:
    sent = types()[code]("The disk of node 3 is tired.", leader=3, leader_address="a:1")
    came = from_wire(error_pb2.Error.FromString(to_wire(sent).SerializeToString()))
    assert type(came) is type(sent)
    assert came.code == code
    assert (came.message, str(came)) == (sent.message, sent.message)
    assert (came.leader, came.leader_address) == (3, "a:1")


@pytest.mark.parametrize(
    "error",
    [
        errors.DeliveryTimeoutError("Too late.", maybe_committed=False),
        errors.OffsetTooLowError("Too low.", first_offset=5),
        errors.DeserializationError("Not JSON.", topic="orders", queue=1, offset=5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_from_another_process_as_what_it_was(error: LedgerError) -> None:
    error.acknowledged = [1]
    came = pickle.loads(pickle.dumps(error))
    assert (type(came), str(came), vars(came)) == (type(error), str(error), vars(error))


def test_a_range_comes_over_the_wire_even_where_it_begins_at_zero() -> None:
    came = from_wire(to_wire(errors.OffsetBeyondEndError("Too far.", first_offset=0, end_offset=7)))
    assert (came.first_offset, came.end_offset) == (0, 7)
    assert isinstance(came, errors.OffsetOutOfRangeError)


def test_a_forgotten_duplicate_tells_how_far_its_producer_has_come() -> None:
    assert from_wire(to_wire(errors.DuplicateForgottenError("Long ago.", next_sequence=7))).next_sequence == 7


@pytest.mark.parametrize("not_appended", [True, False])
def test_a_refusal_tells_whether_the_batch_was_not_appended(not_appended: bool) -> None:
    assert (
        from_wire(to_wire(errors.NotLeaderError("Not here.", not_appended=not_appended))).not_appended == not_appended
    )


def test_facts_that_do_not_apply_are_none() -> None:
    came = from_wire(to_wire(errors.BusyError("Full.")))
    assert (came.leader, came.leader_address, came.first_offset, came.end_offset) == (None, None, None, None)


def test_what_to_try_again_is_what_the_codes_say() -> None:
    for code, kind in types().items():
        number = error_pb2.Code.Value(code)
        assert kind.retriable == (number in range(200, 302)), code  # 300 and 301: the next leader has another disk


@pytest.mark.parametrize(("number", "retriable"), [(199, False), (299, True), (399, False)])
def test_a_code_of_a_newer_program_keeps_its_number_and_sentence(number: int, retriable: bool) -> None:
    came = from_wire(error_pb2.Error(code=number, message="New."))  # type: ignore[arg-type]
    assert type(came) is LedgerError
    assert (came.code, came.message, came.retriable) == (str(number), "New.", retriable)
    assert to_wire(came).code == number


def test_an_error_without_a_code_is_internal_on_the_wire() -> None:
    assert to_wire(errors.ClosedError("Gone.")).code == error_pb2.INTERNAL


def test_timeouts_are_pythons_timeouts_too() -> None:
    assert issubclass(errors.RequestTimeoutError, TimeoutError)
    unknown = errors.DeliveryTimeoutError("Late.", maybe_committed=True)
    assert isinstance(unknown, TimeoutError)
    assert unknown.maybe_committed
