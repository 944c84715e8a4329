"""Writes the Grafana dashboards as JSON: `python deploy/grafana/generate.py FOLDER` (`make dashboards`).

queries.py    expressions over the metrics of one cluster
contents.py   what the dashboards show
generate.py   Grafana's form
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contents import DASHBOARDS, Dashboard, Panel
from queries import OF_THE_JOB

# Grafana's grid has 24 columns.
COLUMNS = 24
HEIGHT = 8
STAT_HEIGHT = 4
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def written(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard in Grafana's own form."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in dashboard.rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        panels.append({"type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []})
        top = _place(row.panels, panels, top + 1)
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "uid": f"ledgermq-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["ledgermq"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "links": [{"type": "dashboards", "tags": ["ledgermq"], "title": "ledgermq", "asDropdown": False}],
        "annotations": {"list": [_elections()]},
        "templating": {"list": _variables(dashboard.variables)},
        "panels": panels,
    }


def _place(row: Sequence[Panel], panels: list[dict[str, Any]], top: int) -> int:
    """Add the panels of a row, and return the line below them."""
    left = line_height = 0
    for panel in row:
        width, height = (COLUMNS // 8, STAT_HEIGHT) if panel.kind == "stat" else (COLUMNS // 3, HEIGHT)
        if left + width > COLUMNS:
            left, top = 0, top + line_height
        panels.append(_panel(panel, {"h": height, "w": width, "x": left, "y": top}))
        left, line_height = left + width, height
    return top + line_height


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    is_table = panel.kind == "table"
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never"}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if panel.kind == "timeseries" else {},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "instant": is_table,
                "range": not is_table,
                "format": "table" if is_table else "time_series",
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _variables(labels: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "refresh": 1}
    job = _variable("job", "ledgermq_node_info", "Cluster", is_many=False)
    chosen = [
        _variable(label, f'{metric}{{job="$job"}}', label.replace("_", " ").capitalize(), is_many=True)
        for label, metric in labels
    ]
    return [source, job, *chosen]


def _variable(label: str, series: str, title: str, *, is_many: bool) -> dict[str, Any]:
    everything = {"includeAll": True, "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    query = f"label_values({series}, {label})"
    return {
        "type": "query",
        "name": label,
        "label": title,
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "sort": 1,
        **(everything if is_many else {}),
    }


def _elections() -> dict[str, Any]:
    """Mark changes of leaders in all graphs."""
    return {
        "name": "Changes of leader",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "orange",
        "expr": f"max by (shard) (changes(ledgermq_raft_term{OF_THE_JOB}[1m])) > 0",
        "titleFormat": "shard {{shard}} has a new term",
    }


def main(folder: Path) -> None:
    for dashboard in DASHBOARDS:
        text = json.dumps(written(dashboard), indent=2) + "\n"
        (folder / f"{dashboard.name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
