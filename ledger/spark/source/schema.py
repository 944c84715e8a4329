"""The columns that a source has: Kafka's in Kafka's order, then ours.

A user's own schema may name any of them, in any order; what it leaves out is never made. So `.schema("value BINARY")`
is what Spark lacks for sources in Python: pruning of columns.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ledger.errors import InvalidArgumentError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_KAFKAS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
_HEADERS: dict[str, DataType] = {"headers": ArrayType(_HEADER)}
_OURS: dict[str, DataType] = {
    "tag": StringType(),
    "keys": ArrayType(StringType()),
    "term": LongType(),
    "replica": StringType(),
}
COLUMNS = {**_KAFKAS, **_HEADERS, **_OURS}
CREATE_TIME = 0
"""Kafka's timestampType of a time that the producer gave."""


def source_schema(*, include_headers: bool) -> StructType:
    """What a source has unless the user says otherwise."""
    columns = {**_KAFKAS, **(_HEADERS if include_headers else {}), **_OURS}
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def check_schema(schema: StructType) -> None:
    """InvalidArgumentError unless each column is one of ours, of its type."""
    for field in schema.fields:
        kind = COLUMNS.get(field.name)
        if kind is None:
            raise InvalidArgumentError(f'There is no column "{field.name}": there are {", ".join(COLUMNS)}.')
        if field.dataType.simpleString() != kind.simpleString():
            raise InvalidArgumentError(
                f'The column "{field.name}" is of type {kind.simpleString()}, not {field.dataType.simpleString()}: '
                "cast it where it is used."
            )
