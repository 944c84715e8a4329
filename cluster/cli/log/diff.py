"""`ledgermq log diff`: prints for each two replicas where their logs differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from cluster.cli.log.dump import entry_fields
from cluster.cli.log.flaws import flaw_fields, flaw_line
from cluster.cli.log.progress import LogProgress
from ledger.validation.difference import Comparison, Divergence, Prefix, Replica, compare
from ledger.validation.sources.place import LogPlace
from store import Header


def diff_logs(places: Sequence[LogPlace], *, as_json: bool) -> int:
    with LogProgress(places) as progress:
        comparison = compare(places, progress.update)
    lines = _json_lines(comparison) if as_json else _text_lines(comparison)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if comparison.is_forked:
        return 1
    return 2 if comparison.is_unreadable else 0


def _text_lines(comparison: Comparison) -> list[str]:
    replicas = comparison.replicas
    lines = [_replica_line(replica) for replica in replicas]
    for replica in replicas:
        lines += [flaw_line(flaw) for flaw in replica.flaws]
    for divergence in comparison.divergences:
        lines += _divergence_lines(divergence, replicas)
    return [*lines, *(_prefix_line(prefix, replicas) for prefix in comparison.prefixes), _verdict(comparison)]


def _replica_line(replica: Replica) -> str:
    if replica.first_index is None:
        return f"{replica.place.path}: no entries"
    return (
        f"{replica.place.path}: entries {replica.first_index} to {replica.last_index}, "
        f"{replica.known_commit} and before surely committed"
    )


def _divergence_lines(divergence: Divergence, replicas: list[Replica]) -> list[str]:
    a, b = replicas[divergence.first], replicas[divergence.second]
    where = "in what both call committed" if divergence.is_committed else "in a tail that is not known to be committed"
    return [
        f"{a.place.path} and {b.place.path} part at entry {divergence.ours.index}, {where}:",
        f"    {a.place.path}: {_entry(divergence.ours)}",
        f"    {b.place.path}: {_entry(divergence.theirs)}",
    ]


def _entry(header: Header) -> str:
    return (
        f"term {header.term}, {header.kind.name.lower()}, {header.size} bytes at {header.position}, "
        f"topic {header.topic_id} queue {header.queue} offset {header.base_offset} count {header.count}, "
        f"CRC {header.crc:#010x}, chain {header.chain:#010x}"
    )


def _prefix_line(prefix: Prefix, replicas: list[Replica]) -> str:
    shorter, longer = replicas[prefix.shorter], replicas[prefix.longer]
    if not prefix.overlap:
        return f"{shorter.place.path} and {longer.place.path} have no entry in common"
    if prefix.is_same:
        return f"{shorter.place.path} and {longer.place.path} are the same up to entry {shorter.last_index}"
    lacks = longer.last_index - shorter.last_index
    lost = max(0, longer.known_commit - shorter.last_index)
    return (
        f"{shorter.place.path} is a prefix of {longer.place.path}: it lacks {lacks:,} entries, {lost:,} of them surely "
        + ("committed")
    )


def _verdict(comparison: Comparison) -> str:
    if comparison.is_forked:
        return "FORKED: two replicas hold different entries that are committed"
    if comparison.is_unreadable:
        return "damaged: not everything could be compared; see `ledgermq log verify`"
    return "no difference in what is committed"


def _json_lines(comparison: Comparison) -> list[str]:
    return [json.dumps(fields) for fields in _fields(comparison)]


def _fields(comparison: Comparison) -> list[dict[str, Any]]:
    paths = [str(replica.place.path) for replica in comparison.replicas]
    fields: list[dict[str, Any]] = [
        {
            "type": "replica",
            "path": str(replica.place.path),
            "first_index": replica.first_index,
            "last_index": replica.last_index,
            "known_commit": replica.known_commit,
        }
        for replica in comparison.replicas
    ]
    fields += [flaw_fields(flaw) for replica in comparison.replicas for flaw in replica.flaws]
    fields += [
        {
            "type": "parting",
            "paths": [paths[divergence.first], paths[divergence.second]],
            "index": divergence.ours.index,
            "committed": divergence.is_committed,
            "entries": [entry_fields(divergence.ours), entry_fields(divergence.theirs)],
        }
        for divergence in comparison.divergences
    ]
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
    fields.append({"type": "verdict", "forked": comparison.is_forked, "damaged": comparison.is_unreadable})
    return fields
