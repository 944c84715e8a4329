"""The properties of messages of a batch.

A message has its headers as properties. Three names stand for something else, as in RocketMQ:

    TAGS            the tag
    KEYS            the look-up keys, with a blank between them
    __SHARDINGKEY   the key

If a message has several headers of one name, the last one counts. Bytes that are no UTF-8 are equal to no text of a
filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ledger.batch import Batch
from ledger.batch.columns import BinaryColumn, HeaderColumn
from ledger.filters.properties import Properties

TAG_PROPERTY = "TAGS"
LOOK_UP_KEYS_PROPERTY = "KEYS"
KEY_PROPERTY = "__SHARDINGKEY"

Texts = Sequence[str | None]


def properties_of(batch: Batch, places: Sequence[int], names: Iterable[str]) -> Properties:
    """Return the properties with these names of the messages at `places` of the batch. Each place is from 0 to
    len(batch) - 1."""
    wanted = frozenset(names)
    texts: dict[str, Texts] = {name: read(batch, places) for name, read in _NO_HEADERS.items() if name in wanted}
    headers = wanted - _NO_HEADERS.keys()
    if headers and batch.columns.headers is not None:
        texts.update(_headers(batch.columns.headers, places, headers))
    return Properties(len(places), texts)


def _tags(batch: Batch, places: Sequence[int]) -> Texts:
    return _texts(batch.columns.tags, places)


def _keys(batch: Batch, places: Sequence[int]) -> Texts:
    return _texts(batch.columns.keys, places)


def _look_up_keys(batch: Batch, places: Sequence[int]) -> Texts:
    column = batch.columns.look_up_keys
    if column is None:
        return [None] * len(places)
    return [_text(b" ".join(keys)) if keys else None for keys in column.some(places)]


_NO_HEADERS: Mapping[str, Callable[[Batch, Sequence[int]], Texts]] = {
    TAG_PROPERTY: _tags,
    LOOK_UP_KEYS_PROPERTY: _look_up_keys,
    KEY_PROPERTY: _keys,
}


def _texts(column: BinaryColumn | None, places: Sequence[int]) -> Texts:
    if column is None:
        return [None] * len(places)
    return [None if each is None else _text(each) for each in column.some_optional(places)]


def _headers(column: HeaderColumn, places: Sequence[int], names: frozenset[str]) -> dict[str, Texts]:
    by_bytes = {name.encode(errors="surrogatepass"): name for name in names}
    found = column.named(places, by_bytes)
    return {
        by_bytes[name]: [None if each is None else _text(each) for each in values] for name, values in found.items()
    }


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
