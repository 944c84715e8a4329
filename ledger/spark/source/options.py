"""Checks the options of a Spark source or sink, and returns them as one frozen value.

Options have the names of Kafka's options if they have the same meaning. A misspelt option, a wrong value or a
contradiction between options is an error, which names the option and says what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ledger.client.consumer.tags import wanted_tags
from ledger.errors import InvalidArgumentError
from ledger.spark.source.positions import (
    EARLIEST,
    LATEST,
    Position,
    positions_at_times,
    positions_from,
    queues_from,
)
from ledger.topics import validate_topic_name

T = TypeVar("T")

SERVERS = ("bootstrap.servers", "servers", "kafka.bootstrap.servers")
SELECTIONS = ("subscribe", "subscribePattern", "assign")
READ_OPTIONS = (
    *SERVERS,
    *SELECTIONS,
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss", "includeHeaders"),
    *("replica", "tag", "verifyCrc"),
)
WRITE_OPTIONS = (
    *SERVERS,
    *("topic", "rowOrder", "compression", "maxPartitionBytes", "producer", "epoch", "checkpointLocation"),
)

REPLICAS = ("leader", "any", "all")
ROW_ORDERS = ("key", "content", "arrival")


@dataclass(frozen=True, slots=True)
class Selection:
    """Says which queues a source reads. Exactly one of the fields is set: topics by name, a pattern for names, or
    single queues."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None

    def __str__(self) -> str:
        if self.assigned is not None:
            return ", ".join(f"{topic}:{queue}" for topic, queues in self.assigned.items() for queue in queues)
        return ", ".join(self.topics) if self.pattern is None else f"topics like {self.pattern}"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    servers: tuple[str, ...]
    selection: Selection
    starting: Position
    ending: Position
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    include_headers: bool
    # One of REPLICAS, or the number of a node.
    replica: str
    # None: all messages.
    tags: frozenset[str] | None
    verify_crc: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    servers: tuple[str, ...]
    # None: the column "topic" names the topic of each row.
    topic: str | None
    row_order: str
    compression: str | None
    max_partition_bytes: int
    # Producer and epoch of a batch that the user may write again after a failure; None: the batch has no name.
    name: tuple[str, int] | None


def read_options(given: Mapping[str, str], *, streaming: bool | None = None) -> ReadOptions:
    """Return the checked options of a source. Raises InvalidArgumentError.

    `streaming` is True for a stream, False for a table, and None if it is not known yet.
    """
    options = GivenOptions(given, READ_OPTIONS)
    starting = _starting(options, LATEST if streaming else EARLIEST)
    ending = _ending(options)
    if streaming is False and starting == LATEST:
        raise options.wrong("startingOffsets", 'a batch cannot start at "latest"; use "earliest" or JSON')
    if streaming and (name := options.first_of("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")):
        raise options.wrong(name, "a stream has no end; leave it out, or use spark.read")
    if ending == EARLIEST:
        raise options.wrong("endingOffsets", 'use "latest" or JSON')
    return ReadOptions(
        servers=_servers(options),
        selection=_selection(options),
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=options.optional("maxOffsetsPerTrigger", _positive),
        min_partitions=options.optional("minPartitions", _positive),
        fail_on_data_loss=options.get("failOnDataLoss", boolean, True),
        include_headers=options.get("includeHeaders", boolean, False),
        replica=options.get("replica", _replica, "leader"),
        tags=options.get("tag", wanted_tags, None),
        verify_crc=options.get("verifyCrc", boolean, True),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the checked options of a sink. Raises InvalidArgumentError."""
    options = GivenOptions(given, WRITE_OPTIONS)
    return WriteOptions(
        servers=_servers(options),
        topic=options.optional("topic", _topic),
        row_order=options.get("rowOrder", _one_of(ROW_ORDERS), "key"),
        compression=options.optional("compression", _one_of(("lz4", "zstd"))),
        max_partition_bytes=options.get("maxPartitionBytes", _positive, 512 << 20),
        name=_name(options),
    )


class GivenOptions:
    """The given options as strings, by name; upper and lower case are equal.

    The constructor raises InvalidArgumentError if a name is not in `known`.
    """

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() not in names:
                close = difflib.get_close_matches(name.lower(), names, 1)
                meant = f'did you mean "{names[close[0]]}"?' if close else f"the options are {', '.join(known)}."
                raise InvalidArgumentError(f'There is no option "{name}" (it is set to "{value}"): {meant}')
            self._values[names[name.lower()]] = value

    def first_of(self, *names: str) -> str | None:
        """Return the first of `names` that the user set as an option, or None if the user set none of them."""
        return next((name for name in names if name in self._values), None)

    def text(self, name: str) -> str:
        return self._values[name]

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        return self.get(name, read, None)

    def get(self, name: str, read: Callable[[str], T], default: T) -> T:
        """Return `read(text)` of the option's text, or `default` if it was not given.

        If `read` raises ValueError, raise InvalidArgumentError, which names the option and its value.
        """
        if name not in self._values:
            return default
        try:
            return read(self._values[name])
        except ValueError as error:
            raise self.wrong(name, str(error)) from error

    def wrong(self, name: str, reason: str) -> InvalidArgumentError:
        return InvalidArgumentError(f'The option "{name}" is "{self._values.get(name)}": {reason}.')


def _servers(options: GivenOptions) -> tuple[str, ...]:
    from ledger.client.connection.channels import (
        parse_addresses,  # here, because Spark imports this module to learn a name
    )

    name = options.first_of(*SERVERS)
    if name is None:
        raise InvalidArgumentError(
            'The option "bootstrap.servers" is missing: give the address of a node, "host:port".'
        )
    return options.get(name, parse_addresses, ())


def _selection(options: GivenOptions) -> Selection:
    given = [name for name in SELECTIONS if options.first_of(name)]
    if len(given) != 1:
        told = f"{' and '.join(given)} are" if given else "none is"
        raise InvalidArgumentError(f"Give exactly one of the options {', '.join(SELECTIONS)}; {told} given.")
    match given[0]:
        case "subscribe":
            return Selection(topics=options.get("subscribe", topic_list, ()))
        case "subscribePattern":
            return Selection(pattern=options.get("subscribePattern", regular_expression, ""))
        case _:
            return Selection(assigned=options.optional("assign", queues_from))


def _starting(options: GivenOptions, default: Position) -> Position:
    """Return the start of reading. As in Kafka's source, one time has precedence over times by queue, and times by
    queue have precedence over offsets."""
    strict = options.get("startingOffsetsByTimestampStrategy", _one_of(("error", "latest")), "error") == "error"
    if options.first_of("startingTimestamp"):
        return options.get("startingTimestamp", lambda text: Position(time_ms=_time(text), strict=strict), default)
    if options.first_of("startingOffsetsByTimestamp"):
        return options.get("startingOffsetsByTimestamp", lambda text: positions_at_times(text, strict=strict), default)
    return options.get("startingOffsets", positions_from, default)


def _ending(options: GivenOptions) -> Position:
    if options.first_of("endingTimestamp"):
        return options.get("endingTimestamp", lambda text: Position(time_ms=_time(text)), LATEST)
    if options.first_of("endingOffsetsByTimestamp"):
        return options.get("endingOffsetsByTimestamp", lambda text: positions_at_times(text, strict=False), LATEST)
    return options.get("endingOffsets", lambda text: positions_from(text, ending=True), LATEST)


def _name(options: GivenOptions) -> tuple[str, int] | None:
    producer, epoch = options.optional("producer", _not_empty), options.optional("epoch", _epoch)
    if (producer is None) != (epoch is None):
        raise InvalidArgumentError(
            'Give both of the options "producer" (a name) and "epoch" (the number of the batch), or none of them.'
        )
    return None if producer is None or epoch is None else (producer, epoch)


# -- single values: each function raises ValueError with what is allowed


def _topic(text: str) -> str:
    validate_topic_name(text)
    return text


def topic_list(text: str) -> tuple[str, ...]:
    topics = tuple(part.strip() for part in text.split(",") if part.strip())
    if not topics:
        raise ValueError("name one topic, or several topics separated by commas")
    for topic in topics:
        validate_topic_name(topic)
    return tuple(dict.fromkeys(topics))


def regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is not a regular expression ({error})") from error
    return text


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("use a whole number of at least 1")
    return int(text)


def _epoch(text: str) -> int:
    if not text.strip().isdecimal() or int(text) >= 1 << 32:
        raise ValueError("use a whole number of at least 0 that is higher for each new batch")
    return int(text)


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("use a name that is not empty")
    return text


def _time(text: str) -> int:
    if not text.strip().isdecimal() or int(text) >= 1 << 62:
        raise ValueError("use milliseconds since 1970, as a whole number")
    return int(text)


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError('use "true" or "false"')
    return text.lower() == "true"


def _replica(text: str) -> str:
    text = text.strip().lower()
    if text not in REPLICAS and not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"use {', '.join(REPLICAS)}, or the number of a node")
    return text


def _one_of(values: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"use {' or '.join(values)}")
        return text.lower()

    return read
