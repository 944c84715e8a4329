"""A batch contains 1 to 65,535 messages of one queue. The producer encodes the batch once, and the log stores it
unchanged.

    header.py        the fixed header and the hash columns, from which a broker stores and finds messages
    timed.py         the columns of messages with delivery times, in front of the payload
    columns.py       the payload, in Arrow's layout
    strings.py       columns of byte strings as numpy arrays, for tables
    encode.py        the producer encodes messages as bytes
    check.py         the broker checks a batch before it appends it
    decode.py        the consumer decodes bytes to messages
    firing.py        the broker makes the batches that deliver or copy waiting messages
    transactions.py  the columns of batches of transactions, and the batches that brokers make of half batches
    cut.py           the broker makes a batch of some messages of a stored batch
    rest.py          encodes a part of a batch again, without the messages that a broker has already
"""

from __future__ import annotations

from ledger.batch.check import BATCH_OVERHEAD_BYTES, check, largest_batch
from ledger.batch.columns import Headers
from ledger.batch.cut import cut
from ledger.batch.decode import Batch
from ledger.batch.encode import encode, encode_strings, readdress
from ledger.batch.firing import Waiting, copying_batch, dead_letter_batch, firing_batch
from ledger.batch.header import (
    HEADER_BYTES,
    MAX_COUNT,
    MAX_PLAIN_BYTES,
    BatchHeader,
    indexed_hashes,
    key_hashes,
    message_ids,
    place_of,
    plain_size_of,
    producer_of,
    tag_hashes,
)
from ledger.batch.rest import rest_of
from ledger.batch.timed import (
    FiredColumn,
    TimedColumn,
    copied_identities,
    fired_column,
    target_of,
    timed_column,
)
from ledger.batch.transactions import (
    DecidedColumn,
    HalfColumn,
    copied_half,
    decided_batch,
    decided_column,
    half_column,
    half_target_of,
    read_in,
)
from ledger.codec import Codec

__all__ = [
    "BATCH_OVERHEAD_BYTES",
    "HEADER_BYTES",
    "MAX_COUNT",
    "MAX_PLAIN_BYTES",
    "Batch",
    "BatchHeader",
    "Codec",
    "DecidedColumn",
    "FiredColumn",
    "HalfColumn",
    "Headers",
    "TimedColumn",
    "Waiting",
    "check",
    "copied_half",
    "copied_identities",
    "copying_batch",
    "cut",
    "dead_letter_batch",
    "decided_batch",
    "decided_column",
    "encode",
    "encode_strings",
    "fired_column",
    "firing_batch",
    "half_column",
    "half_target_of",
    "indexed_hashes",
    "key_hashes",
    "largest_batch",
    "message_ids",
    "place_of",
    "plain_size_of",
    "producer_of",
    "read_in",
    "readdress",
    "rest_of",
    "tag_hashes",
    "target_of",
    "timed_column",
]
