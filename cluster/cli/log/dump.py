"""The command `ledgermq log dump` prints the entries of a log, one entry on a line, while it reads them.

However long the log is, the output begins immediately. The command stops reading when the program that reads its
output closes the pipe.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from cluster.cli.log.flaws import flaw_fields, flaw_line
from cluster.cli.options import moment_text
from ledger.batch import Batch, BatchHeader
from ledger.codec import Codec
from ledger.errors import LedgerError
from ledger.v1 import command_pb2
from ledger.validation.sources.place import LogPlace
from raft.v1 import raft_pb2
from store import EntryKind, Flaw, FoundEntry, Header

PREVIEW_BYTES = 60
# A line of text, and the same as the fields of a JSON object.
DumpLine = tuple[str, dict[str, Any]]
_CODECS = {int(codec): codec.name.lower() for codec in Codec}
_COLUMNS = (
    f"{'index':>10} {'term':>5} {'kind':<13} {'position':>14} {'size':>9} {'commit':>10} "
    f"{'appended':<24} {'topic':>5} {'queue':>5} {'offset':>12} {'count':>6} crc"
)


@dataclass(frozen=True, slots=True)
class DumpSelection:
    first: int
    last: int | None
    limit: int | None
    batches: bool
    messages: bool

    def more(self, written: int) -> bool:
        return self.limit is None or written < self.limit


def dump_log(place: LogPlace, wanted: DumpSelection, *, as_json: bool) -> None:
    choose: Callable[[DumpLine], str] = (lambda row: json.dumps(row[1])) if as_json else (lambda row: row[0])
    if not as_json:
        sys.stdout.write(f"{place.path}\n{_COLUMNS}\n")
    for row in _rows(place, wanted):
        sys.stdout.write(choose(row) + "\n")


def _rows(place: LogPlace, wanted: DumpSelection) -> Iterator[DumpLine]:
    for flaw in place.flaws:
        yield flaw_line(flaw), flaw_fields(flaw)
    segment: Path | None = None
    written = 0
    for each in place.reader() if wanted.more(0) else ():
        if isinstance(each, Flaw):
            yield flaw_line(each), flaw_fields(each)
            continue
        if wanted.last is not None and each.header.index > wanted.last:
            return
        if each.header.index < wanted.first:
            continue
        if each.path != segment:
            segment = each.path
            yield _segment_row(segment, each.header)
        yield from _entry_rows(each, wanted)
        written += 1
        if not wanted.more(written):
            return


def _segment_row(path: Path, first: Header) -> DumpLine:
    fields = {"type": "segment", "path": str(path), "position": int(path.name), "bytes": path.stat().st_size}
    return f"-- {path}, {fields['bytes']:,} bytes, from entry {first.index}", fields


def _entry_rows(found: FoundEntry, wanted: DumpSelection) -> Iterator[DumpLine]:
    header = found.header
    yield _entry_line(header), entry_fields(header)
    try:
        if header.kind is EntryKind.BATCH and wanted.batches:
            yield _batch_row(header, BatchHeader.parse(found.body))
        if wanted.messages:
            yield from _message_rows(header, bytes(found.body)) if header.kind is EntryKind.BATCH else _body_rows(found)
    except (LedgerError, DecodeError) as error:
        yield (
            f"{'':10} cannot be decoded: {error}",
            {"type": "undecodable", "index": header.index, "reason": str(error)},
        )


def _entry_line(header: Header) -> str:
    return (
        f"{header.index:>10} {header.term:>5} {header.kind.name.lower():<13} {header.position:>14} {header.size:>9} "
        f"{header.commit:>10} {moment_text(header.append_time_ms):<24} {header.topic_id:>5} {header.queue:>5} "
        f"{header.base_offset:>12} {header.count:>6} {header.crc:08x} ok"
    )


def entry_fields(header: Header) -> dict[str, Any]:
    """Return all fields of an entry's header. `crc_ok` is always true, because an entry with a wrong CRC is
    reported as a flaw."""
    return {"type": "entry", **asdict(header), "kind": header.kind.name.lower(), "crc_ok": True}


def _batch_row(header: Header, batch: BatchHeader) -> DumpLine:
    codec = _CODECS.get(batch.codec, str(batch.codec))
    line = (
        f"{'':10} batch: {batch.count} messages, {batch.size} bytes, {codec}, {batch.plain_size} bytes plain, largest "
        f"{batch.largest}, producer {batch.producer_id:#x} epoch {batch.epoch} from sequence {batch.first_sequence}"
    )
    return line, {"type": "batch", "index": header.index, **asdict(batch), "codec": codec}


def _message_rows(header: Header, body: bytes) -> Iterator[DumpLine]:
    batch = Batch(body)
    columns = zip(batch.values(), batch.keys(), batch.tags(), batch.timestamps_ms(), batch.look_up_keys(), strict=True)
    for offset, (value, key, tag, timestamp_ms, look_up_keys) in enumerate(columns, header.base_offset):
        fields = {
            "type": "message", "index": header.index, "topic_id": header.topic_id, "queue": header.queue,
            "offset": offset, "timestamp_ms": timestamp_ms, "key": None if key is None else _preview(key), "tag": tag,
            "look_up_keys": list(map(_preview, look_up_keys)), "bytes": len(value), "preview": _preview(value),
        }  # fmt: skip
        parts = [f"key {fields['key']}" if key is not None else "", f"tag {tag}" if tag is not None else ""]
        parts += [f"look-up key {each}" for each in map(_preview, look_up_keys)]
        named = "".join(f", {part}" for part in parts if part)
        yield f"{'':10} message {offset}: {len(value)} bytes{named}: {fields['preview']}", fields


def _body_rows(found: FoundEntry) -> Iterator[DumpLine]:
    """Yield a line with the content of an entry that is not a batch, as text."""
    body = bytes(found.body)
    match found.header.kind:
        case EntryKind.COMMAND:
            text = text_format.MessageToString(command_pb2.Command.FromString(body), as_one_line=True)
        case EntryKind.CONFIGURATION:
            text = text_format.MessageToString(raft_pb2.Configuration.FromString(body), as_one_line=True)
        case EntryKind.LOG_START:
            text = f"the log begins after entry {int.from_bytes(body, 'little')}"
        case _:
            return
    yield f"{'':10} {text}", {"type": "body", "index": found.header.index, "text": text}


def _preview(data: bytes) -> str:
    """Return the first bytes of `data` as text on one line. Characters that cannot be printed are written as Python
    escape sequences."""
    text = data[:PREVIEW_BYTES].decode("utf-8", "backslashreplace")
    plain = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return plain + ("..." if len(data) > PREVIEW_BYTES else "")
