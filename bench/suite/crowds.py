"""Measures clients that each send one message, wait for its acknowledgement and send the next, and what a message then
costs each process."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from bench.peers.awaiting import CROWDS, Crowd
from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import Running, Stage
from cluster.bench.idle import read_process
from cluster.process_use import sleeps

# Counts the group writes of all nodes. A node makes at most one in a turn of its event loop.
_WRITES = "ledgermq_log_append_duration_seconds_count"
# Counts the gRPC messages that nodes received, from clients and from each other.
_REQUESTS = "ledgermq_grpc_requests_total"


def awaited_sends(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Measure crowds of clients. The rows have no targets: `make bench-peers` compares them with other systems."""
    part = SuiteChapter("Clients that await each send")
    with stage.cluster() as running:
        for crowd in CROWDS:
            runs = [_measured(running, crowd, scale.seconds) for _ in range(scale.rounds)]
            figure = _medians(runs)
            told = (
                f"{figure('records_per_s'):,.0f}/s, p50 {figure('latency_p50_ms'):.2f} ms, "
                f"p99 {figure('latency_p99_ms'):.2f} ms"
            )
            costs = (
                f"CPU for each message: client {figure('client_us'):.0f} µs, leader {figure('leader_us'):.0f} µs, "
                f"each follower {figure('follower_us'):.0f} µs; {figure('in_a_write'):.1f} messages in a write, "
                f"{figure('requests'):.2f} gRPC messages to nodes, {figure('turns'):.2f} sleeps of the leader's loop"
            )
            part.rows.append(TargetRow(crowd.words, "reported", told, None, costs))
    return part


def _measured(running: Running, crowd: Crowd, seconds: float) -> dict[str, Any]:
    leader = next(state.pid for state in running.cluster.status() if state.role == "leader" and state.pid)
    before = {pid: read_process(pid).cpu_s for pid in running.pids}
    written, requests, slept = running.metric(_WRITES), running.metric(_REQUESTS), sleeps(leader)
    figures = running.bench(
        crowd.words, "produce", "--by", "send", "--producers", crowd.clients, "--in-flight", crowd.clients,
        "--processes", crowd.processes, "--size", crowd.size, "--seconds", seconds,
    )  # fmt: skip
    slept = sleeps(leader) - slept
    spent_s = {pid: read_process(pid).cpu_s - before[pid] for pid in running.pids}
    messages = figures["records"] + figures["warm_up_records"]
    followers = [spent for pid, spent in spent_s.items() if pid != leader]
    return figures | {
        "client_us": 1e6 * figures["client_cpu_s"] / max(1, figures["records"]),
        "leader_us": 1e6 * spent_s[leader] / max(1, messages),
        "follower_us": 1e6 * sum(followers) / len(followers) / max(1, messages),
        "requests": (running.metric(_REQUESTS) - requests) / max(1, messages),
        "turns": slept / max(1, messages),
        "in_a_write": len(running.pids) * messages / max(1, running.metric(_WRITES) - written),
    }


def _medians(runs: list[dict[str, Any]]) -> Callable[[str], float]:
    return lambda name: median(run[name] for run in runs)
