"""The ledger of a campaign: what was run, on which code, and what came of it. One JSON object a line.

    {"campaign": {...wishes...}, "commit": "1f0c..."}       at the beginning, and whenever it is taken up again
    {"seed": 7, "passed": true, "reason": "", ...}          a report

Lines are only added, each in one write, so a campaign that was stopped at any moment is taken up where it was. What
another commit has run does not count: it is run again.

Must not know: how seeds are run.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from chaos.sim.campaign.run import Report
from chaos.sim.campaign.swarm import Wishes
from ledger.version import VERSION


class OtherCampaignError(Exception):
    """The file belongs to a campaign with other wishes."""


class LedgerFile:
    def __init__(self, path: Path, wishes: Wishes, commit: str) -> None:
        self._path = path
        self._head = {"campaign": json.loads(json.dumps(asdict(wishes))), "commit": commit}

    def begin(self) -> list[Report]:
        """The reports that this campaign has already, by this commit. OtherCampaignError."""
        done = []
        if self._path.exists():
            self._end_last_line()
            done = list(self._reports())
        self._add(self._head)
        return done

    def add(self, report: Report) -> None:
        self._add(asdict(report))

    def _reports(self) -> Iterator[Report]:
        counts = False
        for line in self._lines():
            if "campaign" in line:
                if line["campaign"] != self._head["campaign"]:
                    raise OtherCampaignError(
                        f"{self._path} is the ledger of another campaign: it ran {line['campaign']}. Use another file."
                    )
                counts = line["commit"] == self._head["commit"]
            elif counts:
                yield report_of(line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with open(self._path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("}\n"):  # one that was cut short when the campaign was killed does not end so
                    yield json.loads(line)

    def _add(self, line: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _end_last_line(self) -> None:
        """So that what is added stands in a line of its own."""
        text = self._path.read_bytes()
        if text and not text.endswith(b"\n"):
            with open(self._path, "ab") as file:
                file.write(b"\n")


def report_of(line: dict[str, Any]) -> Report:
    """A report as it was written."""
    values: dict[str, Any] = {field.name: line[field.name] for field in fields(Report)}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    return Report(**values)


def commit_of_code() -> str:
    """The git commit that runs, with "+" where something is changed on top of it; the version outside a repository."""
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return f"version {VERSION}"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
