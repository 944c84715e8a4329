"""The metrics of `ledgermq backup create --metrics-file`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster.cli.failure import CommandError
from cluster.cli.metrics_file import FileMetric, MetricsFile
from cluster.cli.output import say
from ledger.backup.manifest import Manifest

_FAILURES = "ledgermq_backup_failures_total"
_LAST_RUN, _SUCCEEDED = "ledgermq_backup_last_run_timestamp_seconds", "ledgermq_backup_last_run_succeeded"
# What the last backup says about itself. These values stay when a later run fails.
_OF_A_BACKUP = {
    "ledgermq_backup_last_success_timestamp_seconds": "When the last backup was complete, in seconds since 1970.",
    "ledgermq_backup_duration_seconds": "How long the last backup took.",
    "ledgermq_backup_bytes": "Bytes of the last backup.",
    "ledgermq_backup_copied_bytes": "Bytes that the last backup has copied, because earlier ones lack them.",
    "ledgermq_backup_entries": "Entries of the last backup.",
}


class BackupMetrics:
    """Writes the metrics of one run, if the user wants them. `target` is the label of all of them."""

    def __init__(self, path: Path | None, target: str, now_s: Callable[[], float] = time.time) -> None:
        self._file = None if path is None else MetricsFile(path, {"target": target})
        self._now_s = now_s
        self._begun_s = now_s()

    def succeeded(self, made: Manifest) -> None:
        """Write the metrics of a backup. Raises CommandError."""
        now_s = self._now_s()
        values = (now_s, max(0.0, now_s - self._begun_s), made.bytes, made.copied, made.entries)
        self._write(dict(zip(_OF_A_BACKUP, values, strict=True)), failed=False)

    def failed(self) -> None:
        """Count a failure. If that is impossible too, only say so: the user needs the reason of the failure more."""
        try:
            self._write({}, failed=True)
        except CommandError as error:
            say(str(error))

    def _write(self, values: dict[str, float], *, failed: bool) -> None:
        if self._file is not None:
            self._file.write(self._metrics(self._file.earlier() | values, failed=failed))

    def _metrics(self, values: dict[str, float], *, failed: bool) -> Iterator[FileMetric]:
        yield FileMetric(_LAST_RUN, "When the last run ended, in seconds since 1970.", self._now_s())
        yield FileMetric(_SUCCEEDED, "1 if the last run made a backup.", float(not failed))
        failures = values.get(_FAILURES, 0.0) + failed
        yield FileMetric(_FAILURES, "Runs that made no backup, since the file is there.", failures)
        for name, text in _OF_A_BACKUP.items():
            if name in values:
                yield FileMetric(name, text, values[name])
