"""Lists what the verifier finds in each case of the damage corpus, as kinds and places without message texts, to be
saved.

python -m tests.cluster.damage_found > found.json        what the three commands find in every case
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.cli import main
from tests.cluster.damage_corpus import CASES, Corpus

Finding = str
"""`kind path index position`, with `-` for what does not apply; the path from the directory of the case on."""
_OF_EVERY_NODE = ("unknown-queue", "sequence-gap")
"""What `validate` says of any log of `StoppedNode`, which holds batches of a topic that was never created."""


@dataclass(frozen=True, slots=True)
class Area:
    """The bytes that a finding calls wrong: a file from a position on, up to `end` if the finding has an end."""

    path: str
    position: int
    end: int | None

    def covers(self, finding: Finding) -> bool:
        """Return whether the finding is about a place in this area."""
        path, _, position = finding.split()[1:]
        if path != self.path:
            return False
        return position == "-" or self.position <= int(position) < max(self.end or 0, self.position + 1)


@dataclass(slots=True)
class Found:
    status: list[str] = field(default_factory=list)
    """Of `log verify` of each node, then of `log diff` and `validate` of all."""
    verify: list[Finding] = field(default_factory=list)
    diff: list[Finding] = field(default_factory=list)
    validate: list[Finding] = field(default_factory=list)
    verified: list[Area] = field(default_factory=list)
    """Where `log verify` says that something is wrong, or torn."""
    validated: list[Area] = field(default_factory=list)
    """Where `validate` says that something is wrong."""
    not_judged: list[str] = field(default_factory=list)
    """What `validate` could not judge, in words."""

    def saved(self) -> dict[str, list[Finding]]:
        return {name: getattr(self, name) for name in ("status", "verify", "diff", "validate")}


def found_in(case: str, corpus: Corpus, path: Path) -> Found:
    nodes = CASES[case](corpus, path)
    found = Found()
    verified, validated = [_run("log", "verify", node) for node in nodes], _run("validate", *nodes)
    compared = _run("log", "diff", *nodes) if len(nodes) > 1 else (2, [])
    found.status = [str(status) for status, _ in (*verified, compared, validated)]
    flaws = [line for _, lines in verified for line in lines if line["type"] == "flaw"]
    found.verify = sorted(_finding(each, path) for each in flaws)
    found.diff = sorted(
        f"{each['type']} {each.get('index', '-')} {each.get('committed', each.get('same'))} "
        + " ".join(_relative(name, path) for name in each.get("paths", (each.get("path"), each.get("of"))))
        for each in compared[1]
        if each["type"] in ("divergence", "prefix")
    )
    reported = [each for report in validated[1] for each in report["violations"]]
    found.verified = [_area(each, path) for each in flaws]
    found.validated = [_area(each, path) for each in reported]
    found.not_judged = [why.replace(f"{path}/", "") for report in validated[1] for why in report["not_judged"]]
    violations = sorted(_finding(each, path) for each in reported)
    found.validate = [each for each in violations if case.startswith("plant") or not each.startswith(_OF_EVERY_NODE)]
    return found


def _run(*arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    """Run a command. Return its exit status and its lines of JSON."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main([*map(str, arguments), "--format", "json"])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 2
    text = out.getvalue()
    if arguments[0] == "validate":
        return status, [json.loads(text)] if text else []
    return status, [json.loads(line) for line in text.splitlines()]


def _finding(each: dict[str, Any], path: Path) -> Finding:
    kind = str(each["kind"]).replace(" ", "-")
    where = _relative(each["path"] or each.get("source"), path)
    places = ["-" if each[name] is None else str(each[name]) for name in ("index", "position")]
    return " ".join([kind, where, *places])


def _area(each: dict[str, Any], path: Path) -> Area:
    return Area(_relative(each["path"] or each.get("source"), path), each["position"] or 0, each["end"])


def _relative(name: str | None, path: Path) -> str:
    return (name or "-").replace(f"{path}/", "").replace(" ", "+")


def all_found(cases: Sequence[str] = tuple(CASES)) -> dict[str, Found]:
    with tempfile.TemporaryDirectory() as temporary:
        corpus = Corpus.make(Path(temporary) / "corpus")
        found = {}
        for number, case in enumerate(cases):
            found[case] = found_in(case, corpus, Path(temporary) / f"case-{number}")
        return found


if __name__ == "__main__":
    lines = (f"{json.dumps(case)}: {json.dumps(found.saved())}" for case, found in all_found().items())
    print("{\n" + ",\n".join(lines) + "\n}")
