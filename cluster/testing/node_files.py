"""The files of one node of a test cluster.

node-1/
  node.toml   the settings
  log         the output of all processes of this node
  data/       the data directory
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.local.toml_text import toml_text

Setting = bool | int | float | str | Sequence[str] | Sequence[float]

_TAIL_BYTES = 65_536
# Small and quick. The disk ratios are off, because other programs fill this disk too.
_SETTINGS: dict[str, Setting] = {
    "cluster": "test",
    "http": "",
    "segment_bytes": 8 << 20,
    "tick_ms": 25,
    "disk_clean_ratio": 0,
    "disk_force_ratio": 0,
    "disk_refuse_ratio": 0,
}


class NodeFiles:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "node.toml"
        self.log = directory / "log"
        self.data = directory / "data"

    def write_settings(self, own: Mapping[str, Setting], tables: Mapping[str, Mapping[int, str]]) -> None:
        """Write node.toml. `own` takes precedence over the settings of all test clusters."""
        self.directory.mkdir(parents=True, exist_ok=True)
        values = {**_SETTINGS, "data": str(self.data), **own}
        lines = [f"{name} = {toml_text(value)}" for name, value in values.items()]
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{node} = {toml_text(address)}" for node, address in table.items())]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def log_text(self) -> str:
        """Return the last 64 KiB of the log, or an empty text if there is no log."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])
