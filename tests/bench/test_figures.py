"""The closing line has Kafka's format, its arithmetic is right, and JSON and CSV contain the same figures."""

from __future__ import annotations

import csv
import io

import pytest

from cluster.bench.figures import Figures
from cluster.bench.latencies import Summary

LATENCY = Summary(200_000, 2.5, 40.0, (2.0, 6.25, 11.5, 39.0))
FIGURES = Figures(
    "sent", 200_000, 200_000 * 128, 4.0, LATENCY, failed=3, more={"unknown": 1, "errors": {"BusyError": 3}}
)


def test_the_closing_line() -> None:
    assert FIGURES.closing_line() == (
        "200000 records sent, 50000.0 records/sec (6.40 MB/sec), 2.50 ms avg latency, 40.00 ms max latency, "
        "2.00 ms 50th, 6.25 ms 95th, 11.50 ms 99th, 39.00 ms 99.9th."
    )


def test_the_closing_line_without_latencies() -> None:
    line = Figures("consumed", 10, 1_000_000, 2.0).closing_line()
    assert line == "10 records consumed, 5.0 records/sec (0.50 MB/sec)."


def test_nothing_in_no_time_is_no_division_by_zero() -> None:
    assert Figures("sent", 0, 0, 0.0).closing_line() == "0 records sent, 0.0 records/sec (0.00 MB/sec)."


def test_json_names_units() -> None:
    found = FIGURES.as_json()
    assert found["records_per_s"] == 50_000
    assert found["mb_per_s"] == pytest.approx(6.4)
    assert found["latency_p99_ms"] == 11.5
    assert found["latency_p99.9_ms"] == 39.0
    assert found["failed"] == 3
    assert found["errors"] == {"BusyError": 3}


def test_csv_is_a_line_of_names_and_one_of_values() -> None:
    (row,) = csv.DictReader(io.StringIO(FIGURES.as_csv()))
    plain = {key: value for key, value in FIGURES.as_json().items() if key not in ("errors", "setting")}
    assert row == {key: str(value) for key, value in plain.items()}
