"""Tests the quotas of clients: the token bucket, and the table with the buckets of all clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.quotas.quota import MAX_THROTTLE_MS, Quota, QuotaRates
from ledger.broker.quotas.token_bucket import TokenBucket
from ledger.errors import ThrottledError

# --- one bucket ------------------------------------------------------------------------------------------------------


def test_there_is_a_seconds_worth_at_once_and_then_the_rate() -> None:
    bucket = TokenBucket(100, now=0)
    bucket.take(100, 0)
    assert bucket.wait_s(0) > 0
    assert bucket.wait_s(0.5) == 0
    bucket.take(50, 0.5)
    assert bucket.wait_s(0.5) > 0


def test_what_is_larger_than_the_bucket_passes_and_is_made_good() -> None:
    bucket = TokenBucket(100, now=0)
    bucket.take(1_100, 0)
    assert bucket.wait_s(0) == pytest.approx(10, abs=0.02)
    assert bucket.wait_s(9.9) > 0
    assert bucket.wait_s(10.02) == 0


def test_it_holds_no_more_than_a_seconds_worth() -> None:
    bucket = TokenBucket(100, now=0)
    assert bucket.wait_s(1_000) == 0
    bucket.take(101, 1_000)
    assert bucket.wait_s(1_000) > 0


def test_a_clock_that_stands_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(100, now=10)
    bucket.take(100, 10)
    assert bucket.wait_s(5) > 0
    assert bucket.wait_s(10) > 0


@given(
    st.floats(0.5, 1e6), st.lists(st.tuples(st.floats(0, 3), st.floats(0.01, 1e4)), max_size=60), st.floats(0.01, 1e4)
)
def test_whoever_asks_first_gets_the_rate_on_average(
    rate: float, takings: list[tuple[float, float]], last: float
) -> None:
    """A client that takes tokens only when allowed never gets more than one second's worth, plus the rate for the
    elapsed time, plus one request. A client that waits for the returned time gets tokens, and so gets the rate on
    average.
    """
    bucket, now, taken, largest = TokenBucket(rate, 0), 0.0, 0.0, last
    for pause, amount in takings:
        now += pause
        largest = max(largest, amount)
        if wait := bucket.wait_s(now):
            now += wait * (1 + 1e-9) + 1e-9
            assert bucket.wait_s(now) == 0
        bucket.take(amount, now)
        taken += amount
        assert taken <= (rate * (1 + now) + largest) * (1 + 1e-6)


# --- many clients ----------------------------------------------------------------------------------------------------


def refused_ms(quota: Quota, client: str, now: float) -> int:
    """Return the wait in ms with which the quota refuses the client; 0 if the quota admits it."""
    try:
        quota.admit(client, now)
    except ThrottledError as error:
        return error.throttle_ms or 1
    return 0


def test_a_client_over_its_quota_is_told_for_how_long_and_others_are_not_concerned() -> None:
    quota = Quota("sends", QuotaRates(bytes_per_s=1_000))
    quota.charge("a", 1, 1_500, now=0)
    with pytest.raises(ThrottledError, match=r"sends more than its quota .*1000 bytes/s.*wait 501 ms") as refused:
        quota.admit("a", 0)
    assert refused.value.throttle_ms == 501
    assert refused.value.retriable
    quota.admit("b", 0)
    quota.admit("a", 0.502)


def test_the_stricter_of_bytes_and_messages_counts() -> None:
    quota = Quota("sends", QuotaRates(bytes_per_s=1_000, messages_per_s=10))
    quota.charge("small", 20, 20, now=0)
    quota.charge("large", 1, 3_000, now=0)
    assert 1_000 < refused_ms(quota, "small", 0) < 1_200
    assert 2_000 < refused_ms(quota, "large", 0) < 2_200


def test_nobody_is_told_to_wait_for_longer_than_a_bound() -> None:
    quota = Quota("fetches", QuotaRates(bytes_per_s=1))
    quota.charge("a", 1, 1 << 24, now=0)
    assert refused_ms(quota, "a", 0) == MAX_THROTTLE_MS


def test_without_a_quota_nobody_is_known_or_refused() -> None:
    quota = Quota("sends", QuotaRates())
    quota.charge("a", 1_000_000, 1 << 40, now=0)
    quota.admit("a", 0)
    assert not quota.is_set
    assert quota.clients == 0


def test_the_table_of_clients_is_bounded_and_forgets_only_who_owes_nothing() -> None:
    quota = Quota("sends", QuotaRates(messages_per_s=10), max_clients=20)
    quota.charge("debtor", 1_000, 1, now=0)
    for number in range(200):
        quota.charge(f"passer-by {number}", 1, 1, now=number / 10)
        assert quota.clients <= 20
    assert refused_ms(quota, "debtor", 20) > 0, "the debtor is kept although all other clients are newer"


def test_where_all_owe_newcomers_share_one_account() -> None:
    quota = Quota("sends", QuotaRates(messages_per_s=10), max_clients=2)
    for client in ("a", "b", "c"):
        quota.charge(client, 1_000, 1, now=0)
    assert quota.clients == 2
    assert refused_ms(quota, "d", 0) > 0
    assert refused_ms(quota, "d", 101) == 0
