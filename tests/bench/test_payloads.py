"""Payloads are all different and random, and a reader finds every fault in them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from cluster.load.failure import LoadError
from cluster.load.stamped_payloads import (
    PayloadCheck,
    PayloadSupply,
    StampedPayloads,
    Verified,
    rows_of,
    rows_of_values,
)

RUN = 7


def verified(values: list[bytes], sent: dict[int, int] | None = None, failed: int = 0) -> Verified:
    check = PayloadCheck(only=RUN)
    for rows in rows_of_values(values):
        check.add(rows)
    return check.verified(sent, failed)


def test_payloads_are_all_different_and_do_not_compress() -> None:
    values = StampedPayloads(128, RUN).take(0, 200_000)
    assert set(map(len, values)) == {128}
    assert len(set(values)) == len(values)
    joined = b"".join(values[:4_000])
    assert len(zlib.compress(joined)) > 0.9 * len(joined)


def test_parts_of_a_run_and_other_runs_differ() -> None:
    values = [StampedPayloads(32, run, part).take(0, 1)[0] for run, part in ((1, 0), (1, 1), (2, 0))]
    assert len(set(values)) == 3


@pytest.mark.parametrize("size", [0, 1, 15])
def test_small_ones_are_just_bytes(size: int) -> None:
    assert [len(value) for value in StampedPayloads(size, RUN).take(0, 3)] == [size] * 3


def test_a_supply_gives_the_same_whether_prepared_or_not() -> None:
    plain = StampedPayloads(40, RUN).take(0, 5_000)
    supply = PayloadSupply(StampedPayloads(40, RUN))
    supply.prepare(100)
    given = supply.take(60) + supply.take(60) + [supply.take_one() for _ in range(2_000)] + supply.take(2_880)
    assert given == plain
    assert supply.given == 5_000


def test_all_that_was_sent_is_verified() -> None:
    values = StampedPayloads(64, RUN, 0).take(0, 900) + StampedPayloads(64, RUN, 1).take(0, 300)
    assert verified(values, {0: 900, 1: 300}) == Verified(1200, 0, 0, 0)
    assert verified(values).holds


def test_a_flipped_bit_is_found() -> None:
    values = StampedPayloads(64, RUN).take(0, 10)
    for at in (16, 40, 63):
        broken = bytearray(values[3])
        broken[at] ^= 1
        assert verified([*values[:3], bytes(broken), *values[4:]]).wrong == 1, at


def test_what_is_missing_is_counted() -> None:
    values = StampedPayloads(64, RUN).take(0, 10)
    assert verified(values[:4] + values[5:]).missing == 1
    assert verified(values[:8]).missing == 0, "nobody knows of the last ones"
    assert verified(values[:8], {0: 10}).missing == 2
    assert verified(values[:8], {0: 10}, failed=2).holds
    assert not verified([], {0: 1}).holds


def test_what_came_twice_is_counted() -> None:
    values = StampedPayloads(64, RUN).take(0, 10)
    assert verified([*values, values[2], values[2]], {0: 10}) == Verified(12, 0, 0, 2)


def test_other_runs_and_sizes_in_the_topic_do_not_count() -> None:
    values = (
        StampedPayloads(64, RUN).take(0, 10)
        + StampedPayloads(64, 99).take(5, 3)
        + StampedPayloads(20, RUN, 1).take(0, 2)
    )
    assert verified(values, {0: 10, 1: 2}) == Verified(12, 0, 0, 0)


def test_a_stamp_that_nobody_wrote_is_wrong_and_costs_no_memory() -> None:
    value = bytearray(StampedPayloads(64, RUN).take(0, 1)[0])
    value[8:16] = (1 << 62).to_bytes(8, "little")
    assert not verified([bytes(value)]).holds


@pytest.mark.parametrize("bodies", [b"short" * 2, b"x" * 33])
def test_messages_of_others_are_refused(bodies: bytes) -> None:
    with pytest.raises(LoadError, match="name another topic"):
        rows_of(np.frombuffer(bodies, np.uint8), 2)
