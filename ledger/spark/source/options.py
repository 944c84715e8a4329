"""What a user may set of a source or sink, checked: Spark's strings in, one frozen value out.

Options are called as Kafka's are where they mean the same, and nothing is passed over in silence: what is misspelt,
contradicts itself or has a wrong value is refused, by its name and with what would be right.
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
    """Which queues: exactly one of the three is set."""

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
    replica: str
    """One of REPLICAS, or the number of a node."""
    tags: frozenset[str] | None
    """None: all messages."""
    verify_crc: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    servers: tuple[str, ...]
    topic: str | None
    """None: a column says which."""
    row_order: str
    compression: str | None
    max_partition_bytes: int
    name: tuple[str, int] | None
    """Of a batch that may be written again: its producer, and an epoch of that; None: it is written once."""


def read_options(given: Mapping[str, str], *, streaming: bool | None = None) -> ReadOptions:
    """Raises InvalidArgumentError. `streaming`: whether these are of a stream or of a batch; None: not known yet."""
    options = Options(given, READ_OPTIONS)
    starting = _starting(options, LATEST if streaming else EARLIEST)
    ending = _ending(options)
    if streaming is False and starting == LATEST:
        raise options.wrong("startingOffsets", 'a batch cannot begin with the "latest"; use "earliest" or JSON')
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
    """Raises InvalidArgumentError."""
    options = Options(given, WRITE_OPTIONS)
    return WriteOptions(
        servers=_servers(options),
        topic=options.optional("topic", _topic),
        row_order=options.get("rowOrder", _one_of(ROW_ORDERS), "key"),
        compression=options.optional("compression", _one_of(("lz4", "zstd"))),
        max_partition_bytes=options.get("maxPartitionBytes", _positive, 512 << 20),
        name=_name(options),
    )


class Options:
    """Strings by name, where case does not matter. Refuses names that are none of `known`."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() not in names:
                close = difflib.get_close_matches(name.lower(), names, 1)
                meant = f'did you mean "{names[close[0]]}"?' if close else f"there are {', '.join(known)}"
                raise InvalidArgumentError(f'There is no option "{name}" (it is "{value}" here): {meant}')
            self._values[names[name.lower()]] = value

    def first_of(self, *names: str) -> str | None:
        """The first of these that was given."""
        return next((name for name in names if name in self._values), None)

    def text(self, name: str) -> str:
        return self._values[name]

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        return self.get(name, read, None)

    def get(self, name: str, read: Callable[[str], T], default: T) -> T:
        """What `read` makes of it: a ValueError of it becomes one that names the option and its value."""
        if name not in self._values:
            return default
        try:
            return read(self._values[name])
        except ValueError as error:
            raise self.wrong(name, str(error)) from error

    def wrong(self, name: str, reason: str) -> InvalidArgumentError:
        return InvalidArgumentError(f'The option "{name}" is "{self._values.get(name)}": {reason}.')


def _servers(options: Options) -> tuple[str, ...]:
    from ledger.client.connection.channels import (
        parse_addresses,  # here, since Spark imports this module to learn a name
    )

    name = options.first_of(*SERVERS)
    if name is None:
        raise InvalidArgumentError(
            'The option "bootstrap.servers" is missing: give the address of a node, "host:port".'
        )
    return options.get(name, parse_addresses, ())


def _selection(options: Options) -> Selection:
    given = [name for name in SELECTIONS if options.first_of(name)]
    if len(given) != 1:
        told = f"{' and '.join(given)} are" if given else "none is"
        raise InvalidArgumentError(
            f"Exactly one of the options {', '.join(SELECTIONS)} says what to read; {told} given."
        )
    match given[0]:
        case "subscribe":
            return Selection(topics=options.get("subscribe", topic_list, ()))
        case "subscribePattern":
            return Selection(pattern=options.get("subscribePattern", regular_expression, ""))
        case _:
            return Selection(assigned=options.optional("assign", queues_from))


def _starting(options: Options, default: Position) -> Position:
    """The precedence is Kafka's: a time, times, offsets."""
    strict = options.get("startingOffsetsByTimestampStrategy", _one_of(("error", "latest")), "error") == "error"
    if options.first_of("startingTimestamp"):
        return options.get("startingTimestamp", lambda text: Position(time_ms=_time(text), strict=strict), default)
    if options.first_of("startingOffsetsByTimestamp"):
        return options.get("startingOffsetsByTimestamp", lambda text: positions_at_times(text, strict=strict), default)
    return options.get("startingOffsets", positions_from, default)


def _ending(options: Options) -> Position:
    if options.first_of("endingTimestamp"):
        return options.get("endingTimestamp", lambda text: Position(time_ms=_time(text)), LATEST)
    if options.first_of("endingOffsetsByTimestamp"):
        return options.get("endingOffsetsByTimestamp", lambda text: positions_at_times(text, strict=False), LATEST)
    return options.get("endingOffsets", lambda text: positions_from(text, ending=True), LATEST)


def _name(options: Options) -> tuple[str, int] | None:
    producer, epoch = options.optional("producer", _not_empty), options.optional("epoch", _epoch)
    if (producer is None) != (epoch is None):
        raise InvalidArgumentError(
            'The options "producer" and "epoch" go together: a name, and the number of the batch.'
        )
    return None if producer is None or epoch is None else (producer, epoch)


# -- single values: each raises ValueError with what would be right


def _topic(text: str) -> str:
    validate_topic_name(text)
    return text


def topic_list(text: str) -> tuple[str, ...]:
    topics = tuple(part.strip() for part in text.split(",") if part.strip())
    if not topics:
        raise ValueError("name one topic, or several with commas between them")
    for topic in topics:
        validate_topic_name(topic)
    return tuple(dict.fromkeys(topics))


def regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"that is no regular expression ({error})") from error
    return text


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("use a whole number from 1 on")
    return int(text)


def _epoch(text: str) -> int:
    if not text.strip().isdecimal() or int(text) >= 1 << 32:
        raise ValueError("use a whole number from 0 on, which rises from batch to batch")
    return int(text)


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("use a name")
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
