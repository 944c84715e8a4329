"""Tests the options: the error for a wrong option names the option, its value and the allowed values."""

from __future__ import annotations

import pytest

from ledger.errors import InvalidArgumentError
from ledger.spark.source.options import read_options, write_options
from ledger.spark.source.positions import EARLIEST, LATEST, Position

READ = {"bootstrap.servers": "localhost:9871", "subscribe": "orders"}


def test_the_defaults_are_kafkas() -> None:
    batch, stream = read_options(READ, streaming=False), read_options(READ, streaming=True)
    assert (batch.starting, batch.ending, stream.starting) == (EARLIEST, LATEST, LATEST)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert batch.replica == "leader"


def test_names_of_options_are_the_same_in_any_case_and_with_kafkas_prefix() -> None:
    for name in ("servers", "BOOTSTRAP.SERVERS", "kafka.bootstrap.servers"):
        assert read_options({name: "a:1,b:2", "SUBSCRIBE": "x, y"}).servers == ("a:1", "b:2")


def test_a_time_goes_before_times_and_these_before_offsets() -> None:
    given = {**READ, "startingOffsets": "earliest"}
    assert read_options(given).starting == EARLIEST
    given["startingOffsetsByTimestamp"] = '{"orders": {"0": 5}}'
    assert read_options(given).starting == Position(times={"orders": {"0": 5}}, strict=True)
    given["startingTimestamp"] = "7"
    assert read_options(given).starting == Position(time_ms=7, strict=True)
    given["startingOffsetsByTimestampStrategy"] = "latest"
    assert read_options(given).starting == Position(time_ms=7, strict=False)


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("startingOffsets", "oldest", "JSON"),
        ("startingOffsets", '{"orders": {"0": -3}}', "-2"),
        ("startingOffsets", '{"orders": {"first": 1}}', "number from 0"),
        ("startingOffsets", '{"orders": [1]}', "like"),
        ("startingOffsets", "latest", "earliest"),
        ("endingOffsets", "earliest", "latest"),
        ("endingOffsets", '{"orders": {"0": -2}}', "-1"),
        ("startingTimestamp", "yesterday", "milliseconds"),
        ("maxOffsetsPerTrigger", "0", "at least 1"),
        ("minPartitions", "many", "whole number"),
        ("failOnDataLoss", "maybe", "true"),
        ("replica", "nearest", "leader, any, all"),
        ("tag", "||", "tag"),
        ("verifyCrc", "1", "false"),
        ("bootstrap.servers", "localhost", "host:port"),
        ("subscribe", "a b", "characters"),
        ("startingOffsetsByTimestampStrategy", "first", "error or latest"),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: str, right: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name) as refused:
        read_options({**READ, name: value}, streaming=False)
    assert value in str(refused.value)
    assert right in str(refused.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(InvalidArgumentError, match="endingOffsets"):
        read_options({**READ, "endingOffsets": "latest"}, streaming=True)


def test_exactly_one_option_says_what_to_read() -> None:
    with pytest.raises(InvalidArgumentError, match="subscribe and assign are given"):
        read_options({**READ, "assign": '{"orders": [0]}'})
    with pytest.raises(InvalidArgumentError, match="none is given"):
        read_options({"servers": "localhost:1"})
    with pytest.raises(InvalidArgumentError, match="subscribePattern"):
        read_options({"servers": "localhost:1", "subscribePattern": "("})


def test_a_misspelt_option_is_refused_and_the_right_one_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r'"startingOffset".*did you mean "startingOffsets"'):
        read_options({**READ, "startingOffset": "latest"})
    with pytest.raises(InvalidArgumentError, match=r'"colour".*"red".*the options are bootstrap\.servers'):
        read_options({**READ, "colour": "red"})


def test_without_servers_that_is_said() -> None:
    with pytest.raises(InvalidArgumentError, match=r"bootstrap\.servers.*missing"):
        write_options({"topic": "orders"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", "%RETRY%x"),
        ("rowOrder", "any"),
        ("compression", "gzip"),
        ("subscribe", "orders"),
        ("epoch", "-1"),
        ("epoch", "5"),
    ],
)
def test_a_sinks_options_are_checked_too(name: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        write_options({"servers": "localhost:1", name: value})
