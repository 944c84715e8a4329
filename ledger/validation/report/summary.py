"""A report as text: tables and sentences, for the command line and for spark-submit."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.validation.judging.violation import Violation
from ledger.validation.report.report import ReplicaReport, ShardReport, ValidationReport, some_of_each_kind
from ledger.words import counted

# The most violations that are printed in full, but at least one of each kind.
SHOWN = 20
COLUMNS = ("source", "node", "entries", "from", "to", "commit", "behind", "messages", "units", "keys", "state")


def rows_of(shard: ShardReport) -> list[tuple[object, ...]]:
    """Return the rows of the table with `COLUMNS`, one for each replica. In a row, None stands for an unknown
    value."""
    return [_row(replica) for replica in shard.replicas]


def _row(replica: ReplicaReport) -> tuple[object, ...]:
    source = replica.source + (" (running)" if replica.is_running else "")
    units, keys = (replica.units, replica.keys) if replica.has_indexes else (None, None)
    return (
        source, replica.node, replica.entries, replica.first_index, replica.last_index, replica.known_commit,
        replica.behind, replica.messages, units, keys, replica.state,
    )  # fmt: skip


def shard_sentence(shard: ShardReport) -> str:
    """Return the sentence above the table of a shard."""
    behind = [replica for replica in shard.replicas if replica.behind]
    said = f"shard {shard.shard}: committed up to entry {shard.committed:,}"
    if shard.last_index > shard.committed:
        said += f", {shard.last_index - shard.committed:,} more in the tail"
    verb = "is" if len(behind) == 1 else "are"
    if len(shard.replicas) > 1:
        said += "; no replica is behind" if not behind else f"; {len(behind)} of {len(shard.replicas)} {verb} behind"
    return said


def acknowledged_sentence(report: ValidationReport) -> str:
    """Return a sentence about acknowledged messages, or "" if no history was given."""
    told = report.acknowledged
    if told is None:
        return ""
    histories = "1 history says" if len(told.histories) == 1 else f"{len(told.histories)} histories say"
    messages = "1 message was" if told.acknowledged == 1 else f"{told.acknowledged:,} messages were"
    said = f"{messages} acknowledged, as {histories}"
    if told.in_tail:
        said += f"; {told.in_tail:,} of them are in the tail, which these sources do not prove committed"
    if told.dropped:
        said += f"; retention has removed {told.dropped:,} of them"
    for path in told.half_lines:
        said += f"; {path} ends in the middle of a line, which is not judged"
    return said


def violation_line(violation: Violation) -> str:
    """Return a violation as one line: its kind, its place, and the reason."""
    place = [f"shard {violation.shard}" if violation.shard >= 0 else "", violation.source]
    if violation.index is not None:
        more = violation.last_index is not None and violation.last_index > violation.index
        place.append(f"entries {violation.index} to {violation.last_index}" if more else f"entry {violation.index}")
    if violation.contents is not None:
        place.append(f"with {violation.contents}")
    elif violation.topic is not None:
        place.append(f"{violation.topic}:{violation.queue}:{violation.offset}")
    if violation.path is not None:
        place.append(violation.path)
    if violation.position is not None:
        place.append(f"position {violation.position}")
    again = f"; right again from {violation.end}" if violation.end is not None else ""
    return f"{violation.kind.upper()}: {', '.join(filter(None, place))}: {violation.reason}{again}"


def closing_lines(report: ValidationReport) -> list[str]:
    """Return the lines after the tables: the violations, the sources that could not be judged, and the verdict."""
    shown = some_of_each_kind(report.violations, SHOWN)
    lines: list[str] = []
    for kind, count in report.counts:
        mine = [violation for violation in shown if violation.kind == kind]
        lines += map(violation_line, mine)
        if count > len(mine):
            lines.append(f"... and {count - len(mine):,} more: {kind}")
    if report.violation_count > len(shown):
        lines.append(f"... and {report.violation_count - len(shown):,} violations more{only_counted(report)}")
    lines += [f"NOT JUDGED: {why}" for why in report.not_judged]
    return [*lines, verdict_sentence(report)]


def only_counted(report: ValidationReport) -> str:
    """Return a clause with the number of violations that are only counted, or "" if there are none."""
    more = report.violation_count - report.written
    return f", {more:,} of which are only counted: there are too many of their kind" if more else ""


def verdict_sentence(report: ValidationReport) -> str:
    """Return a sentence with the verdict, the number of violations, the bytes that were read, and the time."""
    size, rate = report.bytes / 1e6, report.bytes / 1e6 / max(report.seconds, 1e-9)
    read = f"{size:,.1f} MB of {counted(len(report.sources), 'source')} in {report.seconds:.1f} s, {rate:,.0f} MB/s"
    counts = ", ".join(f"{count:,} {kind}" for kind, count in report.counts)
    violations = f"{report.violation_count:,} violation{'s' if report.violation_count != 1 else ''}"
    found = f"{violations} ({counts})" if report.counts else "no violation found"
    return f"{report.verdict.upper()}: {found}; {read}, {report.engine}"


def as_text(report: ValidationReport) -> str:
    """Return the whole report as plain text."""
    lines: list[str] = []
    for shard in report.shards:
        lines += [shard_sentence(shard), *_aligned(rows_of(shard)), *(f"  note: {note}" for note in shard.notes), ""]
    lines += [acknowledged_sentence(report)] if report.acknowledged is not None else []
    return "\n".join([*lines, *closing_lines(report)])


def _aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [list(COLUMNS), *(["-" if value is None else str(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
