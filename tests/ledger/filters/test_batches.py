"""The properties of messages of a batch are what their producer gave them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.batch import Batch, cut, encode
from ledger.filters.batches import properties_of
from ledger.filters.parse import parse_filter
from ledger.filters.properties import Kind


def batch(count: int, **columns: object) -> Batch:
    return Batch(
        encode(
            [b"body"] * count,
            topic_id=1,
            queue=0,
            producer_id=1,
            epoch=0,
            first_sequence=0,
            base_timestamp_ms=0,
            **columns,  # type: ignore[arg-type]
        )
    )


def matches(some: Batch, text: str) -> list[bool]:
    parsed = parse_filter(text)
    return parsed.matches(properties_of(some, range(len(some)), parsed.names))


def test_tag_key_and_look_up_keys_have_the_names_that_rocketmq_gives_them() -> None:
    some = batch(
        3,
        tags=["paid", None, "refunded"],
        keys=[b"customer-1", b"customer-2", None],
        look_up_keys=[(b"order-1", b"order-2"), (), (b"order-3",)],
    )
    assert matches(some, "TAGS = 'paid'") == [True, False, False]
    assert matches(some, "TAGS IS NULL") == [False, True, False]
    assert matches(some, "__SHARDINGKEY = 'customer-2'") == [False, True, False]
    assert matches(some, "KEYS CONTAINS 'order-2' OR KEYS = 'order-3'") == [True, False, True]
    assert matches(some, "KEYS IS NULL") == [False, True, False]


def test_a_header_does_not_hide_the_tag() -> None:
    some = batch(1, tags=["paid"], headers=[(("TAGS", b"other"), ("KEYS", b"other"))])
    assert matches(some, "TAGS = 'paid' AND KEYS IS NULL") == [True]


def test_the_last_header_of_a_name_counts() -> None:
    assert matches(batch(1, headers=[(("a", b"1"), ("b", b"2"), ("a", b"3"))]), "a = 3 AND b = 2") == [True]


def test_a_batch_without_headers_has_no_properties() -> None:
    assert matches(batch(2), "a IS NULL AND TAGS IS NULL AND KEYS IS NULL AND __SHARDINGKEY IS NULL") == [True, True]


def test_bytes_that_are_no_text_equal_no_text() -> None:
    some = batch(2, headers=[(("a", b"\xff\xfe"),), (("a", b"EU\xff"),)], keys=[b"\xff", b"k"])
    assert matches(some, "a IS NOT NULL") == [True, True]
    assert matches(some, "a = 'EU'") == [False, False]
    assert matches(some, "a STARTSWITH 'EU'") == [False, True]
    assert matches(some, "a > 0 OR NOT a > 0") == [False, False]
    assert matches(some, "__SHARDINGKEY <> 'k'") == [True, False]


def test_names_may_have_any_characters() -> None:
    some = batch(1, headers=[(("größe", b"1"), ("trace-id", b"2"))])
    assert matches(some, '"größe" = 1 AND "trace-id" = 2') == [True]


headers = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "ab"]), st.binary(max_size=5)), max_size=5)


@given(st.data(), st.lists(headers, min_size=1, max_size=60))
def test_headers_are_found_at_every_place(data: st.DataObject, lists: list[list[tuple[str, bytes]]]) -> None:
    some = batch(len(lists), headers=lists)
    places = data.draw(st.lists(st.sampled_from(range(len(lists))), unique=True, min_size=1).map(sorted))
    for each, wanted in ((some, places), (Batch(cut(some, places)), range(len(places)))):
        found = properties_of(each, wanted, ["a", "ab", "missing"])
        for name in ("a", "ab", "missing"):
            expected = [dict(lists[place]).get(name) for place in places]
            texts = found.values(name, Kind.TEXT)
            assert [None if text is None else str(text).encode(errors="surrogateescape") for text in texts] == expected
