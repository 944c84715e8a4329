"""The command `ledgermq log diff` prints, for every pair of replicas, where their logs differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from cluster.cli.log.dump import entry_fields
from cluster.cli.log.flaws import flaw_fields, flaw_line
from cluster.cli.log.progress import LogProgress
from ledger.validation.difference import ComparedLog, Comparison, Prefix, compare
from ledger.validation.judging.windows import DivergedRange
from ledger.validation.naming import rendered
from ledger.validation.sources.place import LogPlace


def diff_logs(places: Sequence[LogPlace], *, as_json: bool) -> int:
    """Compare the logs and print the result. Return the exit status 0, 1 or 2."""
    with LogProgress(places) as progress:
        comparison = compare(places, progress.update)
    lines = _json_lines(comparison) if as_json else _text_lines(comparison)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if comparison.is_forked:
        return 1
    return 2 if comparison.is_unreadable or not comparison.is_complete else 0


def _text_lines(comparison: Comparison) -> list[str]:
    logs = comparison.logs
    lines = [_log_line(log) for log in logs]
    for log in logs:
        lines += [flaw_line(flaw) for flaw in log.flaws]
    for divergence in comparison.divergences:
        lines += _divergence_lines(divergence, comparison)
    return [*lines, *(_prefix_line(prefix, logs) for prefix in comparison.prefixes), _verdict(comparison)]


def _log_line(log: ComparedLog) -> str:
    if log.first_index is None:
        return f"{log.place.path}: no entries"
    return (
        f"{log.place.path}: entries {log.first_index} to {log.last_index}, committed up to {log.known_commit} or later"
    )


def _divergence_lines(divergence: DivergedRange, comparison: Comparison) -> list[str]:
    one, other = comparison.logs[divergence.first_replica], comparison.logs[divergence.second_replica]
    if comparison.is_committed(divergence):
        where = "which is committed in both"
    elif divergence.same_term_index:
        where = f"and have two entries of the same term at {divergence.same_term_index}"
    else:
        where = "which is not known to be committed"
    return [
        f"{one.place.path} and {other.place.path} diverge at entry {divergence.index}, {where}:",
        f"    {one.place.path}: {rendered(divergence.ours, {})}",
        f"    {other.place.path}: {rendered(divergence.theirs, {})}",
    ]


def _prefix_line(prefix: Prefix, logs: list[ComparedLog]) -> str:
    shorter, longer = logs[prefix.shorter], logs[prefix.longer]
    if not prefix.overlap:
        return f"{shorter.place.path} and {longer.place.path} have no entry in common"
    if prefix.is_same:
        return f"{shorter.place.path} and {longer.place.path} are the same up to entry {shorter.last_index}"
    lacks = longer.last_index - shorter.last_index
    lost = max(0, longer.known_commit - shorter.last_index)
    return (
        f"{shorter.place.path} is a prefix of {longer.place.path}: it lacks {lacks:,} entries, of which {lost:,} "
        "or more are committed"
    )


def _verdict(comparison: Comparison) -> str:
    if comparison.is_forked:
        return "FORKED: two replicas have different entries at an index, both committed or both of the same term"
    if comparison.is_unreadable:
        return "damaged: some entries could not be compared; see `ledgermq log verify`"
    if not comparison.has_pairs:
        return "not compared: no two of these logs are replicas of one shard"
    if not comparison.is_complete:
        return "not compared: two logs have no entry in common, so the command cannot know whether they differ"
    return "no difference in committed entries"


def _json_lines(comparison: Comparison) -> list[str]:
    return [json.dumps(fields) for fields in _fields(comparison)]


def _fields(comparison: Comparison) -> list[dict[str, Any]]:
    paths = [str(log.place.path) for log in comparison.logs]
    fields: list[dict[str, Any]] = [
        {
            "type": "replica",
            "path": str(log.place.path),
            "first_index": log.first_index,
            "last_index": log.last_index,
            "known_commit": log.known_commit,
        }
        for log in comparison.logs
    ]
    fields += [flaw_fields(flaw) for log in comparison.logs for flaw in log.flaws]
    fields += [_divergence_fields(divergence, comparison) for divergence in comparison.divergences]
    fields += [
        {
            "type": "prefix",
            "path": paths[prefix.shorter],
            "of": paths[prefix.longer],
            "same": prefix.is_same,
            "overlap": prefix.overlap,
        }
        for prefix in comparison.prefixes
    ]
    verdict = {
        "type": "verdict",
        "forked": comparison.is_forked,
        "damaged": comparison.is_unreadable,
        "complete": comparison.is_complete,
    }
    return [*fields, verdict]


def _divergence_fields(divergence: DivergedRange, comparison: Comparison) -> dict[str, Any]:
    both = divergence.first_replica, divergence.second_replica
    return {
        "type": "divergence",
        "paths": [str(comparison.logs[number].place.path) for number in both],
        "index": divergence.index,
        "committed": comparison.is_committed(divergence),
        "same_term_index": divergence.same_term_index or None,
        "entries": [entry_fields(comparison.headers[number, divergence.index]) for number in both],
    }
