"""The signature of RocketMQ's clients: what is accepted, and that nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.access.rocketmq import WINDOW_S, is_signed, read_signature, sign_date
from ledger.errors import AuthenticationError

NOW_MS = 1_767_323_045_000  # 2026-01-02 03:04:05 UTC
DATE = "20260102T030405Z"
KNOWN = "b8233e003c697c8c4218a6afc2bc397a08e8f645"


def header(secret: str, date: str = DATE, credential: str = "alice") -> str:
    signature = sign_date(secret, date).hex()
    return f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signature}"


def date_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def test_a_known_signature() -> None:
    """Computed with `openssl dgst -sha1 -hmac secret`."""
    assert sign_date("secret", DATE).hex() == KNOWN


@pytest.mark.parametrize("credential", ["alice", "alice/", "alice//Rocketmq", "alice/x/y"])
def test_the_headers_of_the_official_clients(credential: str) -> None:
    text = header("secret", credential=credential)
    for form in (text, text[: -len(KNOWN)] + text[-len(KNOWN) :].upper()):
        found = read_signature(form)
        assert found.access_key == "alice"
        assert is_signed(found, DATE, "secret", NOW_MS)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), st.integers(-(10**9), 10**9))
def test_a_signature_counts_for_its_date_its_secret_and_five_minutes(secret: str, late_ms: int) -> None:
    found = read_signature(header(secret))
    assert is_signed(found, DATE, secret, NOW_MS + late_ms) == (abs(late_ms) <= WINDOW_S * 1000)
    assert not is_signed(found, DATE, secret + "x", NOW_MS)
    assert not is_signed(found, date_of(NOW_MS + 1000), secret, NOW_MS)


@given(st.integers(0, 19), st.integers(1, 255))
def test_a_changed_signature_is_refused(at: int, change: int) -> None:
    found = read_signature(header("secret"))
    digest = bytearray(found.digest)
    digest[at] ^= change
    assert not is_signed(found._replace(digest=bytes(digest)), DATE, "secret", NOW_MS)


def test_local_time_counts_only_if_its_offset_is_listed() -> None:
    local = date_of(NOW_MS + 8 * 3_600_000)
    found = read_signature(header("secret", local))
    assert not is_signed(found, local, "secret", NOW_MS)
    assert is_signed(found, local, "secret", NOW_MS, utc_offsets_s=(0, 8 * 3600))


@given(st.integers(0, 130))
def test_a_header_that_is_cut_is_refused_with_one_text(length: int) -> None:
    whole = header("secret")
    with pytest.raises(AuthenticationError, match="the access key, its secret or the date of the signature is wrong"):
        read_signature(whole[: min(length, len(whole) - 1)])


@given(st.text(max_size=200))
def test_a_strange_header_is_no_signature_or_one_with_a_key(text: str) -> None:
    try:
        found = read_signature(text)
    except AuthenticationError:
        return
    assert found.access_key
    assert len(found.digest) == 20


@given(st.text(max_size=30) | st.just("20269999T999999Z") | st.just("２０２６0102T030405Z"))
def test_a_strange_date_is_refused(date: str) -> None:
    found = read_signature(header("secret", date if date.isascii() and date.isprintable() else DATE))
    assert date == DATE or not is_signed(found, date, "secret", NOW_MS)


@pytest.mark.parametrize(
    "text",
    [
        header("secret").replace("Credential=alice", "Credential="),
        header("secret").replace("x-mq-date-time", "x-mq-client-id"),
        header("secret") + ", Signature=" + "0" * 40,
        header("secret").replace("HMAC-SHA1", "HMAC-SHA256"),
        header("secret") + " " * 1100,
    ],
)
def test_other_headers_are_refused(text: str) -> None:
    with pytest.raises(AuthenticationError):
        read_signature(text)
