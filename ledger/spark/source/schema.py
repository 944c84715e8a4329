"""The columns of our Spark sources: the columns of Kafka's source in Kafka's order, and then our own columns.

A user's own schema may name any of these columns, in any order. The source does not make columns that the schema does
not name. Spark does not prune columns of Python data sources by itself, so `.schema("value BINARY")` saves the time of
making the other columns.
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
    "look_up_keys": ArrayType(BinaryType()),
}
COLUMNS = {**_KAFKAS, **_HEADERS, **_OURS}
# Kafka's timestampType for a timestamp that the producer gave.
CREATE_TIME = 0


def source_schema(*, include_headers: bool) -> StructType:
    """Return the columns that a source has if the user gives no schema."""
    columns = {**_KAFKAS, **(_HEADERS if include_headers else {}), **_OURS}
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def check_schema(schema: StructType) -> None:
    """Raise InvalidArgumentError if a column does not exist or has another type."""
    for field in schema.fields:
        kind = COLUMNS.get(field.name)
        if kind is None:
            raise InvalidArgumentError(f'There is no column "{field.name}": the columns are {", ".join(COLUMNS)}.')
        if field.dataType.simpleString() != kind.simpleString():
            raise InvalidArgumentError(
                f'The column "{field.name}" has type {kind.simpleString()}, not {field.dataType.simpleString()}: '
                "use its own type in the schema, and cast the column after load()."
            )
