"""The arithmetic of bench/run_peers.py: medians, ratios, the number of messages in a run, and the comparison of
payloads.
"""

from __future__ import annotations

from random import Random

import pytest

from bench.peers.load import MessageDifferences, compare
from bench.peers.peer import Description, How
from bench.peers.rates import Against, Case, ClientRates, PeerMeasurement, PeerRun, next_count
from cluster.load.seeded_payloads import same_size_payloads

CASE = Case("each", 128)
HOW = How("one by one", "many", "from the first")


def measured(name: str, client: str, *per_s: float) -> PeerMeasurement:
    rates = ClientRates(client, HOW, [PeerRun(CASE, round(rate), 1.0) for rate in per_s])
    return PeerMeasurement(name, Description("1", "a majority", "nothing", False), [rates], 0.0, [])


def test_a_ratio_is_of_medians_and_ours_are_those_before_and_after_together() -> None:
    theirs = measured("theirs", "client", 100, 90, 1000)
    against = Against(theirs, (measured("ours", "ledgermq", 200, 210), measured("ours", "ledgermq", 300, 5)))
    assert against.theirs("client", CASE) == 100
    assert against.mine(CASE) == 205
    assert against.ratio("client", CASE) == pytest.approx(2.05)


@pytest.mark.parametrize(
    ("count", "seconds", "then"),
    [
        (2_000, 1.5, None),  # half of what is wanted is long enough
        (2_000, 1.0, 6_000),  # by its rate
        (2_000, 0.01, 20_000),  # a cold start tells little, so it grows by ten at most
        (30_000, 1.0, 50_000),  # the most that a run may have
        (50_000, 0.1, None),
    ],
)
def test_a_warm_up_goes_on_until_a_run_takes_long_enough_or_has_the_most_messages(
    count: int, seconds: float, then: int | None
) -> None:
    assert next_count(count, seconds, wanted_s=3.0, most=50_000) == then


def test_payloads_follow_from_their_seed_and_are_all_different() -> None:
    values = same_size_payloads(Random("topic-1"), 20_000, 128)
    assert values == same_size_payloads(Random("topic-1"), 20_000, 128)
    assert len(set(values)) == 20_000
    assert {len(value) for value in values} == {128}
    assert not set(values) & set(same_size_payloads(Random("topic-2"), 1_000, 128))


def test_what_was_consumed_is_compared_whatever_its_order() -> None:
    assert compare([b"a", b"b"], [b"b", b"a"]).alike
    assert compare([b"a", b"b", b"c"], [b"b", b"b", b"x"]) == MessageDifferences(missing=2, strange=1, twice=1)
