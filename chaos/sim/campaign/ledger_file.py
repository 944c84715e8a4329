"""The ledger file of a campaign records which seeds ran, on which code, and how they ended. Each line of the file is a
JSON object.

    campaign   {"campaign": {...wishes...}, "commit": "1f0c..."}, when the campaign starts, and each time it is resumed
    report     {"seed": 7, "passed": true, "reason": "", ...}, when the run of a seed has ended

Each line is appended with one write and is never changed, so a campaign that was killed can be resumed. A resumed
campaign ignores the reports of runs on another git commit, and runs their seeds again.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from chaos.sim.campaign.run import SeedReport
from chaos.sim.campaign.swarm import Wishes
from ledger.version import VERSION


class OtherCampaignError(Exception):
    """Raised if the ledger file belongs to a campaign with other settings."""


class LedgerFile:
    """Reads the ledger file at `path`, and appends new lines to this file."""

    def __init__(self, path: Path, wishes: Wishes, commit: str) -> None:
        self._path = path
        self._head = {"campaign": json.loads(json.dumps(asdict(wishes))), "commit": commit}

    def begin(self) -> list[SeedReport]:
        """Open the file for this campaign. Return the reports in the file that belong to the git commit of the running
        code.

        Raises OtherCampaignError if the file belongs to a campaign with other settings.
        """
        done = []
        if self._path.exists():
            self._end_last_line()
            done = list(self._reports())
        self._add(self._head)
        return done

    def add(self, report: SeedReport) -> None:
        self._add(asdict(report))

    def _reports(self) -> Iterator[SeedReport]:
        counts = False
        for line in self._lines():
            if "campaign" in line:
                if line["campaign"] != self._head["campaign"]:
                    raise OtherCampaignError(
                        f"{self._path} is the ledger of another campaign, with {line['campaign']}. Use another file."
                    )
                counts = line["commit"] == self._head["commit"]
            elif counts:
                yield report_of(line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with open(self._path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("}\n"):  # a line that was cut short by a kill does not end like this
                    yield json.loads(line)

    def _add(self, line: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _end_last_line(self) -> None:
        """End an incomplete last line of the file, so that the next record starts on a new line."""
        text = self._path.read_bytes()
        if text and not text.endswith(b"\n"):
            with open(self._path, "ab") as file:
                file.write(b"\n")


def report_of(line: dict[str, Any]) -> SeedReport:
    """Return the report that a line of the file contains."""
    values: dict[str, Any] = {field.name: line[field.name] for field in fields(SeedReport)}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    return SeedReport(**values)


def commit_of_code() -> str:
    """Return the git commit of the running code, with "+" if files are modified. If the code is not in a git
    repository, return the version of the package."""
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return f"version {VERSION}"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
