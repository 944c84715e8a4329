"""Compares the figures of waiting messages, transactions and shared groups with their targets. The functions turn the
figures of one measurement into rows; they measure nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.judging.waiting_log import CancelFigures
from bench.node.shared import LeaseRateFigures
from bench.node.timed import LatenessFigures, WaitingFigures
from bench.node.transactions import TransactionRateFigures
from bench.suite.rows import TargetRow

MILLION = 1_000_000
# How much a node's memory may grow, in MB: with a million waiting messages, and with more.
MILLION_MB, MORE_MB = 40, 100
RESTART_S = 3
LATE_P50_MS, LATE_P99_MS = 50, 250
BURST_S = 15
# A snapshot may grow by so much, however many messages are cancelled.
CANCELS_KB = 1
TIMES_A_SEND = 2.5
TRANSACTIONS_PER_S = 2_000
BATCHES_PER_S, SINGLES_PER_S = 30_000, 400
# The member with the fewest messages has this share of those of the member with the most.
EVEN = 0.8
# The throughput of the other keys while one key fails, as a share of the throughput without it.
NOT_HELD_UP = 0.8


def waiting_rows(found: WaitingFigures) -> list[TargetRow]:
    """Return the rows of the memory and the restart of a node with many waiting messages."""
    what = f"{found.waiting:,} messages wait, spread over an hour"
    most_mb = MILLION_MB if found.waiting <= MILLION else MORE_MB
    mb = found.anon_mb_after - found.anon_mb_before
    longer_s = found.restart_s_after - found.restart_s_before
    memory = f"{mb:+.1f} MB ({found.anon_mb_after:.1f} MB)"
    restart = f"{longer_s:+.2f} s ({found.restart_s_after:.2f} s)"
    return [
        TargetRow(f"{what}: memory of a node", f"≤ {most_mb} MB more", memory, mb <= most_mb),
        TargetRow(f"{what}: start of a node", f"≤ {RESTART_S} s longer", restart, longer_s <= RESTART_S),
        TargetRow("sending messages with delivery times", "-", f"{found.sent_per_s:,}/s", None),
    ]


def rate_rows(found: LatenessFigures) -> list[TargetRow]:
    """Return the rows of messages that become due at a steady rate."""
    what = f"{found.messages:,} messages due at a steady rate"
    seen = f"at a consumer {found.seen_p50:.0f} ms and {found.seen_p99:.0f} ms"
    return [
        _at_most(f"{what}: lateness, p50", LATE_P50_MS, found.late_p50, "ms", seen),
        _at_most(f"{what}: lateness, p99", LATE_P99_MS, found.late_p99, "ms"),
        _none(f"{what}: early by at most", found.early_max, "ms"),
    ]


def burst_rows(found: LatenessFigures) -> list[TargetRow]:
    """Return the rows of many messages that become due within one second."""
    what = f"{found.messages:,} messages due within one second"
    return [
        _at_most(f"{what}: until the last one has arrived", BURST_S, found.all_s, "s"),
        _none(f"{what}: elections", found.elections),
        _none(f"{what}: early by at most", found.early_max, "ms"),
    ]


def cancel_rows(found: CancelFigures) -> list[TargetRow]:
    """Return the rows of cancelled messages."""
    what = f"{found.messages:,} cancels"
    growth_kb = found.snapshot_kb_after - found.snapshot_kb_waiting
    told = f"{growth_kb:+.1f} kB ({found.snapshot_kb_after:.1f} kB)"
    return [
        TargetRow(f"{what}: the largest snapshot grows by", f"≤ {CANCELS_KB} kB", told, growth_kb <= CANCELS_KB),
        TargetRow(f"{what}: throughput of one producer", "-", f"{found.cancelled_per_s:,}/s", None),
    ]


def transaction_rows(found: Sequence[TransactionRateFigures]) -> list[TargetRow]:
    """Return the rows of transactions, beside plain sends."""
    by_case = {each.case: each for each in found}
    one, many, send = by_case["one: transactions"], by_case["many: transactions"], by_case["one: sends"]
    times = one.times_a_send
    assert times is not None, "a transaction is compared with a send"
    told = f"{times:.2f} × ({one.p50_ms:.1f} ms of {send.p50_ms:.1f} ms, p50)"
    rate = f"{many.per_s:,.0f}/s"
    many_what = f"transactions a second, {many.in_flight} in flight"
    note = f"p50 {many.p50_ms:.0f} ms, p99 {many.p99_ms:.0f} ms"
    return [
        TargetRow(
            "a transaction of one message, beside a plain send", f"≤ {TIMES_A_SEND} ×", told, times <= TIMES_A_SEND
        ),
        TargetRow(many_what, f"≥ {TRANSACTIONS_PER_S:,}/s", rate, many.per_s >= TRANSACTIONS_PER_S, note),
    ]


def shared_rows(found: Sequence[LeaseRateFigures]) -> list[TargetRow]:
    """Return the rows of shared groups, for the cases that were measured. `keys` and `failing` may have several rounds
    in turns: then medians count."""
    by_case = {each.case: each for each in found}
    rows: list[TargetRow] = []
    if (batches := by_case.get("batches")) is not None:
        what = f"shared group, receives of 32, {batches.members} members"
        rows.append(_at_least(what, BATCHES_PER_S, batches.per_s))
    if (singles := by_case.get("singles")) is not None:
        what = f"shared group, one at a time, {singles.members} members on {singles.queues} queues"
        ratio = singles.fewest / max(1, singles.most)
        told = f"{ratio:.2f} ({singles.fewest} of {singles.most} messages)"
        rows.append(_at_least(what, SINGLES_PER_S, singles.per_s))
        rows.append(
            TargetRow("the same: the fewest messages of a member, of the most", f"≥ {EVEN}", told, ratio >= EVEN)
        )
    keys, failing = ([each for each in found if each.case == name] for name in ("keys", "failing"))
    if keys:
        what = "order by key, 1,000 keys"
        rows.append(_none(f"{what}: inversions", sum(each.inversions for each in keys)))
        rows.append(TargetRow(f"{what}: throughput", "-", f"{median(each.per_s for each in keys):,.0f}/s", None))
    if failing:
        inversions = sum(each.inversions for each in failing)
        rows.append(_none("one of 1,000 keys fails: inversions of the others", inversions))
    if keys and failing:
        with_it, without = (median(each.per_s for each in some) for some in (failing, keys))
        ratio = median(one.per_s / max(1, other.per_s) for one, other in zip(failing, keys, strict=True))
        told = f"{ratio:.2f} ({with_it:,.0f}/s of {without:,.0f}/s)"
        what = "the same: throughput of the others, of that without it"
        rows.append(TargetRow(what, f"≥ {NOT_HELD_UP}", told, ratio >= NOT_HELD_UP))
    rows.append(_none("messages that a shared group got twice", sum(each.repeated for each in found)))
    return rows


def _at_most(what: str, most: float, found: float, unit: str, note: str = "") -> TargetRow:
    return TargetRow(what, f"≤ {most:g} {unit}", f"{found:.1f} {unit}", found <= most, note)


def _at_least(what: str, least: float, found: float) -> TargetRow:
    return TargetRow(what, f"≥ {least:,.0f}/s", f"{found:,.0f}/s", found >= least)


def _none(what: str, found: float, unit: str = "") -> TargetRow:
    return TargetRow(what, "none" if not unit else f"0 {unit}", f"{found:g} {unit}".strip(), found == 0)
