"""Replays the logs of a backup, by the validation of replicas."""

from __future__ import annotations

import os
from pathlib import Path

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import VALID
from ledger.validation.report.summary import closing_lines
from ledger.validation.sources.backup_access import KEY_FILE_VARIABLE
from ledger.validation.validate import validate


def replayed_flaws(source: str, key_file: Path | None) -> list[str]:
    """Return what the validation finds wrong in the backup `source`, one sentence each."""
    if key_file is not None:
        os.environ[KEY_FILE_VARIABLE] = str(key_file)
    report = validate([source], PlainEngine())
    return [] if report.status == VALID else closing_lines(report)
