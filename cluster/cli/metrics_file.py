"""The option `--metrics-file`: a command writes its metrics into a file, which the textfile collector of Prometheus's
node_exporter serves. Long and regular commands need no port of their own for it.

The file is replaced as a whole. When the command is killed, the file stays, and node_exporter's metric
`node_textfile_mtime_seconds` says how old it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cluster.cli.failure import CommandError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_SUFFIX = ".prom"
# A file with more bytes is none that a command wrote.
_MOST_BYTES = 1 << 20

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FileMetric:
    """One metric with one value. The name of a counter ends with `_total`."""

    name: str
    text: str
    value: float


class MetricsFile:
    """The metrics of one command in a file. All metrics have the same labels. Raises CommandError if prometheus_client
    is not installed."""

    def __init__(self, path: Path, labels: Mapping[str, str]) -> None:
        try:
            import prometheus_client  # noqa: F401
        except ModuleNotFoundError as error:
            raise CommandError(f"--metrics-file needs {error.name}: pip install 'ledgermq[server]'") from error
        self._path = path
        self._labels = dict(labels)

    def earlier(self) -> dict[str, float]:
        """Return the values that an earlier run wrote with the same labels, by name. A file that is missing or has
        other content counts as empty."""
        from prometheus_client.parser import text_string_to_metric_families

        try:
            with self._path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode()
            families = [*text_string_to_metric_families(text)]
        except (OSError, ValueError):
            return {}
        samples = [sample for family in families for sample in family.samples]
        return {sample.name: sample.value for sample in samples if sample.labels == self._labels}

    def write(self, metrics: Iterable[FileMetric]) -> None:
        """Replace the file. Raises CommandError if it cannot be written."""
        from prometheus_client import CollectorRegistry, write_to_textfile

        registry = CollectorRegistry()
        registry.register(_Collector(list(metrics), self._labels))
        try:
            write_to_textfile(str(self._path), registry)
        except OSError as error:
            raise CommandError(f"the metrics cannot be written to {self._path}: {error.strerror}") from error


class _Collector:
    def __init__(self, metrics: list[FileMetric], labels: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric in self._metrics:
            is_counter = metric.name.endswith("_total")
            kind = CounterMetricFamily if is_counter else GaugeMetricFamily
            family = kind(metric.name.removesuffix("_total"), metric.text, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), metric.value)
            yield family


def _checked(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix != _SUFFIX:
        raise click.BadParameter(f"the name of {path} must end with {_SUFFIX}: node_exporter reads no other files")
    return path


def metrics_file_option(command: Command) -> Command:
    """Add the option --metrics-file, a path or None."""
    option = click.option(
        "--metrics-file",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_checked,
        metavar="FILE.prom",
        help="Write metrics for the textfile collector of node_exporter.",
    )
    return option(command)
