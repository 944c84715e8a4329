"""The result of a measurement, and its output as Kafka's summary line, as JSON or as CSV.

1 MB is 10^6 bytes of message values.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import Any

from cluster.bench.latencies import PERCENTILES, Summary


@dataclass(frozen=True, slots=True)
class Figures:
    """`records` messages were acknowledged (or consumed) within `seconds`; `failed` messages failed. `more` has the
    figures that only this kind of measurement has; `setting` has the options of the measurement.
    """

    what: str
    records: int
    # Bytes of all values together.
    size: int
    seconds: float
    latency: Summary | None = None
    failed: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def mb_per_s(self) -> float:
        return self.size / 1e6 / self.seconds if self.seconds else 0.0

    def closing_line(self) -> str:
        """Return the summary line in the format of kafka-producer-perf-test."""
        line = f"{self.records} records {self.what}, {self.per_s:.1f} records/sec ({self.mb_per_s:.2f} MB/sec)"
        if self.latency is None:
            return f"{line}."
        cuts = ", ".join(
            f"{ms:.2f} ms {cut:g}th" for cut, ms in zip(PERCENTILES, self.latency.percentiles_ms, strict=True)
        )
        return (
            f"{line}, {self.latency.average_ms:.2f} ms avg latency, {self.latency.max_ms:.2f} ms max latency, {cuts}."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the figures as values that JSON can represent. The names of the figures contain the units."""
        return {**self._row(), **self.more, "setting": self.setting}

    def as_csv(self) -> str:
        """Return two CSV lines: the names of the figures, and their values; the settings of the measurement are
        left out."""
        row = {**self._row(), **{key: value for key, value in self.more.items() if not isinstance(value, list | dict)}}
        text = io.StringIO()
        writer = csv.DictWriter(text, row, lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)
        return text.getvalue()

    def _row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "records": self.records,
            "failed": self.failed,
            "seconds": round(self.seconds, 6),
            "records_per_s": round(self.per_s, 1),
            "mb_per_s": round(self.mb_per_s, 3),
        }
        if self.latency is not None:
            row |= {
                "latency_avg_ms": round(self.latency.average_ms, 4),
                "latency_max_ms": round(self.latency.max_ms, 4),
            }
            row |= {
                f"latency_p{cut:g}_ms": round(ms, 4)
                for cut, ms in zip(PERCENTILES, self.latency.percentiles_ms, strict=True)
            }
        return row
