"""Formats a flaw of a log as one line of text, or as the fields of a JSON object."""

from __future__ import annotations

from typing import Any

from store import Flaw, FlawKind

_WORDS = {FlawKind.DAMAGE: "DAMAGED", FlawKind.TORN: "torn", FlawKind.UNKNOWN: "UNKNOWN"}


def flaw_line(flaw: Flaw) -> str:
    entry = ""
    if flaw.index is not None:
        more = flaw.last_index is not None and flaw.last_index > flaw.index
        entry = f", entries {flaw.index} to {flaw.last_index}" if more else f", entry {flaw.index}"
    again = ""
    if flaw.end is not None:
        again = f"; whole again from {flaw.end} ({flaw.end - flaw.position:,} bytes)"
    return f"{_WORDS[flaw.kind]}: {flaw.path}, position {flaw.position}{entry}: {flaw.reason}{again}"


def flaw_fields(flaw: Flaw) -> dict[str, Any]:
    return {
        "type": "flaw",
        "kind": flaw.kind.value,
        "path": str(flaw.path),
        "position": flaw.position,
        "index": flaw.index,
        "last_index": flaw.last_index,
        "end": flaw.end,
        "reason": flaw.reason,
    }
