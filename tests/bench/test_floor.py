"""Guards the speed: compared with the ceiling in the same minute, the figures are at least half of the best ones
reached.

Other load on the machine slows both sides, but seldom all rounds alike. Therefore both sides take turns, and the best
round of each side counts. Load hardly changes CPU time, so the limit of CPU time is the strictest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console

from bench.suite.ceiling import Ceiling
from bench.suite.stage import Running, Stage

pytestmark = [pytest.mark.floor, pytest.mark.timeout(400)]

MESSAGE_BYTES, BATCH_BYTES = 128, 64 << 10
# Multiple of the ceiling's CPU time for each message; reached: 2.0.
MOST_CPU = 4.5
# Share of the ceiling's throughput; reached: 0.42 on a quiet machine, 0.10 to 0.20 with six other processes.
LEAST_THROUGHPUT = 0.06
# Multiple of the ceiling's median; reached: 2.0 to 6.5 with six other processes.
MOST_ROUND_TRIP = 12.0
ROUNDS = 3
SECONDS = 0.6


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Stage(tmp_path_factory.mktemp("floor"), Console(quiet=True)).cluster() as running:
        yield running


@pytest.fixture(scope="module")
def ceiling() -> Iterator[Ceiling]:
    with Ceiling() as ceiling:
        yield ceiling


def test_send_many_against_the_ceiling(three_nodes: Running, ceiling: Ceiling) -> None:
    arguments = (
        "produce",
        "--seconds",
        SECONDS,
        "--warm-up",
        0.3,
        "--size",
        MESSAGE_BYTES,
        "--batch-bytes",
        BATCH_BYTES,
    )
    ours, limits = [], []
    for _ in range(ROUNDS):
        limits.append(ceiling.throughput(BATCH_BYTES, SECONDS))
        ours.append(three_nodes.bench("ours", *arguments))
    cpu_us, limit_us = (
        [each["cpu_us_per_record"] for each in ours],
        [each.cpu_s_per_gb * MESSAGE_BYTES / 1000 for each in limits],
    )
    assert min(cpu_us) <= MOST_CPU * min(limit_us), f"CPU for each message: {cpu_us} against {limit_us} µs"
    rates, limit_rates = [each["mb_per_s"] for each in ours], [each.mb_per_s for each in limits]
    assert max(rates) >= LEAST_THROUGHPUT * max(limit_rates), f"{rates} against {limit_rates} MB/s"


def test_one_send_in_flight_against_the_round_trip(three_nodes: Running, ceiling: Ceiling) -> None:
    arguments = ("produce", "--by", "send", "--in-flight", 1, "--seconds", SECONDS, "--warm-up", 0.3)
    ours, limits = [], []
    for _ in range(ROUNDS - 1):
        limits.append(ceiling.round_trip(SECONDS).p50_ms)
        ours.append(three_nodes.bench("ours", *arguments)["latency_p50_ms"])
    assert min(ours) <= MOST_ROUND_TRIP * min(limits), f"{ours} against {limits} ms"
