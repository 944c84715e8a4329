"""The calls that ended as no call may end, and the file from which they can be sent again.

A defect is a call that ended with UNKNOWN or INTERNAL, or that succeeded although the caller lacks the right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Defect:
    """`requests` has the bytes of each request of the call in hexadecimal digits, or the text of an HTTP request."""

    cluster: str
    caller: str
    path: str
    requests: tuple[str, ...]
    status: str
    text: str = ""


def write_defects(path: Path, defects: Iterable[Defect]) -> None:
    """Append the defects to a file, one JSON object a line."""
    with path.open("a") as file:
        file.writelines(json.dumps(asdict(defect)) + "\n" for defect in defects)


def read_defects(path: Path, cluster: str) -> list[Defect]:
    """Return the defects of one cluster."""
    found = [Defect(**json.loads(line)) for line in path.read_text().splitlines()]
    return [Defect(**{**asdict(each), "requests": tuple(each.requests)}) for each in found if each.cluster == cluster]
